"""Names of defects: what a person called a part, the product calls the next one."""

import csv
import io
from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.serve.client import StationClient
from tests.conftest import make_picture
from tests.serve.conftest import ADMIN, INSPECT, png
from tests.serve.stations import Running, refused


@pytest.fixture
def product(client: StationClient, request: pytest.FixtureRequest) -> str:
    """One that calls every part anomalous but its good ones."""
    made = client.create_product(request.node.name, [png(0), png(1)])
    client.calibrate_product(made["id"], threshold=1e-4)
    return str(made["id"])


def names(client: StationClient, product: str) -> dict[str, int]:
    return {one["name"]: one["examples"] for one in client.product(product)["defects"]}


def test_a_name_is_learnt_and_undone_exactly(client: StationClient, product: str) -> None:
    before, told = client.download_product(product), client.product(product)
    first, other = client.inspect(product, [png(4), png(5)])["inspections"]
    assert (first["defect"], first["defect_score"]) == (None, None)
    found = client.label(first["id"], "bad", defect=" scratch ", at=[24, 40])
    assert (found["label"], found["defect"], found["learnt"]) == ("bad", "scratch", True)
    after = client.product(product)
    assert names(client, product) == {"scratch": 1}
    assert client.label(first["id"], "bad", defect="dent")["defect"] == "dent"  # it was wrong
    assert names(client, product) == {"dent": 1}
    client.label(first["id"], "bad", defect="scratch", at=[24, 40])
    (again,) = client.inspect(product, [png(4)])["inspections"]
    assert (again["defect"], again["level"]) == ("scratch", first["level"])
    assert (again["defect_score"] or 0) > 0.5
    # it judges as before: no version, and trends go on
    for name in ("revision", "threshold", "map_threshold", "good_parts", "notes"):
        assert after[name] == told[name]
    assert len(client.versions(product)) == told["revision"]
    client.label(other["id"], "bad", defect="dent")
    assert names(client, product) == {"scratch": 1, "dent": 1}
    assert client.undo(other["id"])["defect"] is None
    undone = client.undo(first["id"])
    assert (undone["label"], undone["defect"], undone["learnt"]) == (None, None, None)
    assert client.download_product(product) == before
    assert client.label(again["id"], "bad", defect="stain")["defect"] == "stain"
    assert client.undo(again["id"])["defect"] == "scratch"  # what the product said itself
    said = [one["action"] for one in client.audit() if one["subject"] == first["id"]]
    assert said == ["label undone", "labelled bad", "labelled bad", "labelled bad"]


def test_names_outlive_going_back(client: StationClient, product: str) -> None:
    """They are no part of a version: only what judges is."""
    one, two = client.inspect(product, [png(4), png(5)])["inspections"]
    client.label(one["id"], "fine", confirm=True)
    client.label(two["id"], "bad", defect="scratch")
    client.undo(one["id"])
    assert names(client, product) == {"scratch": 1}
    client.restore_product(product, 2)
    assert names(client, product) == {"scratch": 1}
    found = client.inspect(product, [png(5)])["inspections"][0]["defect"]
    assert found == "scratch"


def test_four_examples_and_then_those_that_were_named_wrongly(
    client: StationClient, product: str
) -> None:
    found = client.inspect(product, [png(seed) for seed in range(4, 9)])["inspections"]
    learnt = [client.label(one["id"], "bad", defect="scratch")["learnt"] for one in found[:4]]
    assert learnt == [True] * 4
    assert client.label(found[4]["id"], "bad", defect="scratch")["learnt"] is True  # it had no name
    copy = io.BytesIO()
    make_picture(4).save(copy, "BMP")  # the same pixels
    (known,) = client.inspect(product, [("again.bmp", copy.getvalue())])["inspections"]
    assert known["defect"] == "scratch"
    client.undo(found[0]["id"])  # otherwise it were that example
    assert client.label(known["id"], "bad", defect="scratch")["learnt"] is False
    assert names(client, product) == {"scratch": 4}


def test_two_inspections_of_one_picture(client: StationClient, product: str) -> None:
    one, two = (client.inspect(product, [png(4)])["inspections"][0]["id"] for _ in range(2))
    client.label(one, "bad", defect="scratch")
    client.label(two, "bad", defect="dent")
    assert names(client, product) == {"dent": 1}
    client.undo(two)
    assert names(client, product) == {"scratch": 1}
    client.undo(one)
    assert names(client, product) == {}


def test_history_and_table_know_the_names(client: StationClient, product: str) -> None:
    one, _ = client.inspect(product, [png(4), png(5)])["inspections"]
    client.label(one["id"], "bad", defect="bent lead")
    (row,) = client.history(product=product, defect="bent lead")
    assert row["id"] == one["id"]
    table = client.export(product=product, defect="bent lead").decode()
    (cells,) = csv.DictReader(io.StringIO(table.lstrip("\ufeff")))
    assert (cells["id"], cells["defect"], cells["defect_score"]) == (one["id"], "bent lead", "")
    assert list(client.history(product=product, defect="dent")) == []


def test_what_is_no_name_and_where_none_can_be(client: StationClient, product: str) -> None:
    one, two = client.inspect(product, [png(4), png(5)])["inspections"]
    for name in ("unknown", "x" * 61, "a\u202eb"):
        with refused(422, "defect-name"):
            client.label(one["id"], "bad", defect=name)
    client.label(two["id"], "fine", confirm=True)
    with refused(409, "label-known"):
        client.label(two["id"], "bad", defect="scratch")
    with refused(422, "fine-with-defect"):
        client.label(one["id"], "fine", at=[1, 2])
    (good,) = client.inspect(product, [png(0)])["inspections"]  # a learnt good part
    found = client.label(good["id"], "bad", defect="scratch")
    assert (found["defect"], found["learnt"]) == ("scratch", False)
    assert client.undo(good["id"])["label"] is None


def test_operators_name_defects(guarded: Running) -> None:
    product = guarded.client(ADMIN).create_product("named", [png(0), png(1)])["id"]
    worker = guarded.client(INSPECT)
    (one,) = worker.inspect(product, [png(6)])["inspections"]
    assert worker.label(one["id"], "bad", defect="scratch")["learnt"] is True
    assert names(worker, product) == {"scratch": 1}
    assert worker.undo(one["id"])["label"] is None
    assert names(worker, product) == {}


def test_a_product_carried_away_names_the_same(
    client: StationClient, product: str, tmp_path: Path
) -> None:
    one = client.inspect(product, [png(4)])["inspections"][0]
    client.label(one["id"], "bad", defect="scratch")
    path = tmp_path / "part.hfsad"
    path.write_bytes(client.download_product(product))
    own = HyperFSAD.load(path, device="cpu")
    assert own.predict(png(4)[1]).defect == "scratch"
