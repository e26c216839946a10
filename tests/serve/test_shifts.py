"""Shifts: when they begin, and what a report counts."""

import csv
import io
import os
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from hyperfsad.errors import UsageError
from hyperfsad.serve.schemas import ShiftPlan
from hyperfsad.serve.shifts import set_plan, shift_csv, shift_report, shifts_until
from hyperfsad.serve.store.audit import Actor, verify
from hyperfsad.serve.store.models import Detail, Image, Inspection, LabelRow, ProductRow
from hyperfsad.serve.store.store import Store, number
from tests.codes import raises
from tests.serve import postgres
from tests.serve.conftest import png
from tests.serve.stations import Stations, refused

BERLIN = ShiftPlan(starts=["06:00", "14:00", "22:00"], zone="Europe/Berlin")
MINUTE = 60_000_000


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1e6)


def told(plan: ShiftPlan, text: str, before: int = 0) -> list[str]:
    """The shifts until a moment, in UTC."""
    ends = [moment for shift in shifts_until(plan, moment(text), before) for moment in shift]
    return [f"{datetime.fromtimestamp(end / 1e6, timezone.utc):%d %H:%M}" for end in ends]


def test_the_shift_of_a_moment() -> None:
    assert told(BERLIN, "2026-06-10T12:00+02:00") == ["10 04:00", "10 12:00"]
    assert told(BERLIN, "2026-06-10T14:00+02:00") == ["10 12:00", "10 20:00"]
    assert told(BERLIN, "2026-06-10T03:00+02:00") == ["09 20:00", "10 04:00"]
    assert told(BERLIN, "2026-06-10T03:00+02:00", 1)[:2] == ["09 12:00", "09 20:00"]
    one = ShiftPlan(starts=["07:30"], zone="Asia/Kolkata")
    days = ["07 02:00", "08 02:00", "09 02:00", "10 02:00"]
    assert told(one, "2026-06-10T07:29+05:30", 2)[::2] == days[:-1]
    assert told(one, "2026-06-10T07:29+05:30", 2)[1::2] == days[1:]


def test_the_night_in_which_the_clock_is_set() -> None:
    assert told(BERLIN, "2026-03-29T04:00+02:00") == ["28 21:00", "29 04:00"]  # seven hours
    assert told(BERLIN, "2026-10-25T04:00+01:00") == ["24 20:00", "25 05:00"]  # nine
    gap = ShiftPlan(starts=["02:30", "14:00"], zone="Europe/Berlin")
    assert told(gap, "2026-03-29T05:00+02:00") == ["29 01:30", "29 12:00"]


def test_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.environ.get("TZ")
    try:
        os.environ["TZ"] = "America/New_York"
        time.tzset()
        own = ShiftPlan(starts=["06:00", "18:00"])
        assert told(own, "2026-06-10T12:00-04:00") == ["10 10:00", "10 22:00"]
    finally:
        os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
        time.tzset()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        found = Store(tmp_path, reserve=0).open()
        yield found
        found.close()
        return
    if postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    with postgres.running() as server:
        found = Store(tmp_path, server.make("shifts"), reserve=0).open()
        yield found
        found.close()


@pytest.mark.parametrize(
    ("starts", "zone", "code"),
    [
        ([], None, "shift-starts"),
        (["6:00"], None, "shift-starts"),
        (["24:00"], None, "shift-starts"),
        (["06:00"], "Europe/Nowhere", "shift-zone"),
        (["06:00"], "../../etc/passwd", "shift-zone"),
        (["06:00"], "", "shift-zone"),
    ],
)
def test_plans_that_cannot_be(
    starts: list[str], zone: str | None, code: str, tmp_path: Path
) -> None:
    store = Store(tmp_path, reserve=0).open()
    with raises(UsageError, code):
        set_plan(store.database, Actor("admin"), ShiftPlan(starts=starts, zone=zone))
    store.close()


def filled(store: Store, rows: list[dict[str, Any]]) -> None:
    """Inspections of two products."""
    with store.database.writing() as session:
        summary: dict[str, Any] = {}
        for name in "ab":
            own = {"name": name, "claimed": name, "created": 0, "changed": 0, "revision": 1}
            session.add(ProductRow(id=name * 32, **own, detector="f" * 64, summary=summary))
        size = {"bytes": 1, "width": 9, "height": 9}
        session.add(Image(sha256="b" * 64, suffix=".png", added=0, kept=False, **size))
        session.flush()
        for place, row in enumerate(rows):
            found, told = {"product": "a", "label": None, "part": None, "first": True, **row}, {}
            one = Inspection(id=f"{place:032x}", image="b" * 64, name="x", revision=1, regions=0)
            one.product_id, one.score, one.verdict = found["product"] * 32, 0.5, found["verdict"]
            one.time, one.label = moment(found["time"]), found["label"]
            one.part, one.first = found["part"], found["first"]
            number(session, [one])
            session.add(one)
            session.flush()
            told = {"defect": found.get("told")}
            blobs: dict[str, Any] = {"drawing": {}, "map": b"", "thumbnail": b""}
            session.add(Detail(inspection_id=one.id, record=told, **blobs))
            if one.label:
                label = LabelRow(inspection_id=one.id, product_id=one.product_id, kind=one.label)
                label.time, label.role, label.user, label.older = 0, "admin", "", False
                label.defect = found.get("defect")
                session.add(label)


def test_a_report(store: Store) -> None:
    set_plan(store.database, Actor("admin"), BERLIN)
    with store.database.reading() as session:
        assert verify(session).rows == 1
    day = "2026-06-10T"
    good, bad = {"verdict": "good"}, {"verdict": "anomalous"}
    renamed = {"told": "dent", "label": "bad", "defect": "scratch"}
    filled(
        store,
        [
            {"time": f"{day}05:59:59+02:00", **good},
            {"time": f"{day}06:00:00+02:00", **good},
            {"time": f"{day}06:10:00+02:00", **bad, "told": "scratch", "part": "1"},
            {"time": f"{day}06:20:00+02:00", **good, "part": "1", "first": False},
            {"time": f"{day}06:25:00+02:00", **bad, "told": "unknown"},
            {"time": f"{day}06:30:00+02:00", **bad, "label": "fine", "told": "scratch"},
            {"time": f"{day}06:30:00+02:00", **good, "label": "bad", "defect": "dent"},
            {"time": f"{day}06:40:00+02:00", **bad, **renamed},
            {"time": f"{day}11:00:00+02:00", **good, "part": "2"},
            {"time": f"{day}11:00:01+02:00", **bad, "part": "2"},
            {"time": f"{day}13:59:59+02:00", "verdict": "unjudged"},
            {"time": f"{day}14:00:00+02:00", **good},
            {"time": f"{day}09:00:00+02:00", **good, "product": "b"},
        ],
    )
    found = shift_report(store.database, moment(f"{day}12:00+02:00"), "a" * 32)
    assert (found.start, found.end) == (
        "2026-06-10T04:00:00.000+00:00",
        "2026-06-10T12:00:00.000+00:00",
    )
    assert (found.count, found.good, found.anomalous, found.unjudged) == (10, 4, 5, 1)
    assert (found.called_bad, found.called_fine) == (2, 1)
    assert (found.parts, found.first_pass, found.first_pass_yield) == (7, 2, 2 / 7)
    assert [(one.name, one.count) for one in found.defects] == [
        ("", 2),
        ("scratch", 2),
        ("dent", 1),
    ]
    assert [(one.count, one.anomalous) for one in found.hours] == [(7, 4), (2, 1), (1, 0)]
    assert found.longest_stop is not None
    assert found.longest_stop.seconds == (4 * 60 + 20) * 60
    assert [one.count for one in found.shifts] == [1, 10]  # nothing before the first datum
    both = shift_report(store.database, moment(f"{day}12:00+02:00"), None)
    assert both.count == 11
    assert both.longest_stop is not None
    assert both.longest_stop.seconds == 3 * 60 * 60 - 2
    rows = list(csv.DictReader(io.StringIO("".join(shift_csv(found)))))
    assert [row["count"] for row in rows if row["part"] == "shift"] == ["10"]
    assert [row["name"] for row in rows if row["part"] == "defect"][1:] == ["scratch", "dent"]
    assert [row["count"] for row in rows if row["part"] == "shift before"] == ["1"]
    empty = shift_report(store.database, moment("2026-06-20T12:00+02:00"), None)
    assert (empty.count, empty.first_pass_yield, empty.longest_stop) == (0, None, None)
    assert [one.count for one in empty.shifts] == [0]


def test_through_the_api(stations: Stations, tmp_path: Path) -> None:
    with stations.running(tmp_path / "store") as station:
        client = station.client()
        product = client.create_product("bolt", [png(0), png(1)])["id"]
        client.calibrate_product(product, threshold=1e-6)
        (bad,) = client.inspect(product, [png(2)])["inspections"]
        client.label(bad["id"], "bad", defect="dent")
        found = client.shift(product=product)
        assert (found["count"], found["anomalous"], found["first_pass_yield"]) == (1, 1, 0.0)
        assert found["defects"] == [{"name": "dent", "count": 1, "share": 1.0}]
        plan = client.set_shifts(["22:00", "06:00"], "Europe/Berlin")
        assert plan["starts"] == ["06:00", "22:00"]
        assert client.shift()["zone"] == "Europe/Berlin"
        assert client.shift(at="2001-01-01")["count"] == 0
        with refused(404, "product-id-unknown"):
            client.shift(product="0" * 32)
        for at in ("0001-01-01", "9999-12-31T23:59:59"):
            with refused(422, "time-range"):
                client.shift(at=at)
        rows = station.ask("GET", f"/exports/shift.csv?product={product}").content.decode()
        assert "dent" in rows
