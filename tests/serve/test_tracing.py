"""Fields of one's own: where values come from, and how inspections are found by them."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperfsad.errors import UsageError
from hyperfsad.serve.client import StationClient
from hyperfsad.serve.schemas import TraceField
from hyperfsad.serve.tracing import LONGEST_VALUE, checked_fields, checked_pattern, read_name
from tests.codes import raises
from tests.serve import postgres
from tests.serve.conftest import png
from tests.serve.stations import Running, Stations, refused

FIELDS = {"serial": True, "lot": False, "Auftrag": False}


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("{serial}_{lot}_*", "A17_L3_0001.png", {"serial": "A17", "lot": "L3"}),
        ("{serial}_{lot}_*", "A17_L3_.png", {"serial": "A17", "lot": "L3"}),
        ("{serial}_{lot}_*", "A17_L3.png", {}),
        ("{serial}_{lot}", "A17_L3_x.tar.png", {"serial": "A17", "lot": "L3_x.tar"}),
        ("*_{serial}", "cam_1_A17", {"serial": "1_A17"}),
        ("cam*-{serial}-ok", "cam1-A-17-ok.png", {"serial": "A-17"}),
        ("cam*-{serial}-ok", "cam1-A-17-no.png", {}),
        ("{serial}", "A17.png", {"serial": "A17"}),
        ("{serial}_*", "_x.png", {}),
        ("{serial}ab", "aab.png", {"serial": "a"}),
        ("{serial}ab{lot}ab", "1ab2abab.png", {"serial": "1", "lot": "2ab"}),
        ("x", "x.png", {}),
        ("", "A17.png", {}),
        ("{serial}", ".png", {"serial": ".png"}),
        ("{serial}", "A\x1d17\u202e.png", {"serial": "A 17\\u202e"}),
    ],
)
def test_a_name_by_a_pattern(pattern: str, name: str, found: dict[str, str]) -> None:
    assert checked_pattern(pattern, ["serial", "lot"]) == pattern
    assert read_name(pattern, name) == found


def test_a_long_name_takes_one_pass() -> None:
    pattern = "_".join(f"{{{number}}}" for number in range(12))
    assert read_name(pattern, "_" * 200_000) == {}
    assert len(read_name(pattern, "a_" * 200_000)) == 12


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("{serial}{lot}", "trace-pattern-joined"),
        ("{serial}*", "trace-pattern-joined"),
        ("**", "trace-pattern-joined"),
        ("{serial}_{serial}", "trace-pattern-field"),
        ("{other}", "trace-pattern-field"),
        ("{}", "trace-pattern-field"),
        ("{serial", "trace-pattern-damaged"),
        ("serial}", "trace-pattern-damaged"),
        ("{{serial}}", "trace-pattern-damaged"),
        ("a" * 201, "trace-pattern-damaged"),
    ],
)
def test_patterns_that_nobody_can_read(pattern: str, code: str) -> None:
    with raises(UsageError, code):
        checked_pattern(pattern, ["serial", "lot"])


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["a{b"], "trace-field-name"),
        ([" "], "trace-field-name"),
        (["a\nb\x1b"], "trace-field-name"),
        (["verdict"], "trace-field-taken"),
        (["serial", "SERIAL"], "trace-fields-many"),
        ([str(number) for number in range(13)], "trace-fields-many"),
    ],
)
def test_fields_that_cannot_be(names: list[str], code: str) -> None:
    with raises(UsageError, code):
        checked_fields([TraceField(name=name, each_part=False) for name in names])


@pytest.fixture(params=["sqlite", "postgresql"])
def traced(
    request: pytest.FixtureRequest, stations: Stations, tmp_path: Path
) -> Iterator[tuple[Running, StationClient, str]]:
    """A station with a product that has fields."""
    if request.param == "postgresql" and postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    database = postgres.running() if request.param == "postgresql" else None
    options: tuple[str, ...] = ()
    if database is not None:
        options = ("--database", database.__enter__().make("traced"))
    try:
        with stations.running(tmp_path / "store", *options) as station:
            client = station.client()
            product = client.create_product("bolt", [png(0), png(1)])["id"]
            made = client.set_fields(product, FIELDS, "{serial}_{lot}_*")
            assert [one["name"] for one in made["fields"]] == list(FIELDS)
            yield station, client, product
    finally:
        if database is not None:
            database.__exit__(None, None, None)


def test_values_are_kept_found_and_exported(traced: tuple[Running, StationClient, str]) -> None:
    _, client, product = traced

    def inspected(seed: int, name: str, fields: dict[str, str] | None = None) -> dict[str, str]:
        found = client.inspect(product, [(name, png(seed)[1])], None, fields)["inspections"][0]
        assert client.inspection(found["id"])["fields"] == found["fields"]
        return found["fields"]

    assert inspected(2, "A17_L3_1.png") == {"serial": "A17", "lot": "L3"}
    given = {"lot": "L4", "Auftrag": "=9 Ä"}
    assert inspected(3, "A18_L3_1.png", given) == {"serial": "A18", **given}
    assert inspected(4, "photo.png", {"serial": "Ä_1%", "lot": " "}) == {"serial": "Ä_1%"}
    assert inspected(5, "photo.png") == {}
    for fields, code in (
        ({"order": "1"}, "trace-field-unknown"),
        ({"lot": "x" * (LONGEST_VALUE + 1)}, "trace-value-long"),
    ):
        with refused(422, code):
            inspected(2, "photo.png", fields)

    def found(**wanted: str) -> set[str]:
        return {one["fields"].get("serial", "") for one in client.history(**wanted)}

    assert found() == {"A17", "A18", "Ä_1%", ""}
    assert found(value="a1") == {"A17", "A18"}
    assert found(value="A17") == {"A17"}
    assert found(value="l4") == {"A18"}
    assert found(value="l", field="lot") == {"A17", "A18"}
    assert found(value="l", field="serial") == set()
    assert found(value="ä_") == {"Ä_1%"}
    assert found(value="%") == found(value="zz") == set()
    assert found(value="a1", verdict="unjudged") == set()

    rows = list(csv.DictReader(io.StringIO(client.export("csv").decode())))
    assert rows[0].keys() >= {"serial", "lot", "Auftrag", "first"}
    assert [row["serial"] for row in rows] == ["", "Ä_1%", "A18", "A17"]
    assert [row["Auftrag"] for row in rows] == ["", "", "'=9 Ä", ""]
    lines = [json.loads(row) for row in client.export("jsonl", value="a1").splitlines()]
    assert lines == client.page(value="a1")["inspections"]
    assert lines[0]["fields"] == {"serial": "A18", **given}

    client.set_fields(product, {"lot": False})
    assert inspected(6, "A19_L9_1.png") == {}
    assert found(value="a17") == {"A17"}


def test_a_part_that_comes_again(traced: tuple[Running, StationClient, str]) -> None:
    _, client, product = traced

    def first(*seeds: int, **fields: str) -> list[bool]:
        sent = [png(seed) for seed in seeds]
        return [one["first"] for one in client.inspect(product, sent, None, fields)["inspections"]]

    assert first(2, serial="A1", lot="L1") == [True]
    assert first(3, serial="A1", lot="L2") == [False]
    assert first(4, 5, serial="A2") == [True, True]  # two pictures of one part
    assert first(6, lot="L1") == first(7, lot="L1") == [True]  # nobody knows which part
    other = client.create_product("nut", [png(0), png(1)])["id"]
    client.set_fields(other, FIELDS)
    assert client.inspect(other, [png(2)], None, {"serial": "A1"})["inspections"][0]["first"]
