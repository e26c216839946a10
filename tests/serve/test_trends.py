"""Trends, drift and coverage: generated histories in real stores, and real stations."""

import io
import math
import random
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from hyperfsad import HyperFSAD
from hyperfsad.errors import UsageError
from hyperfsad.serve.client import StationClient
from hyperfsad.serve.store.models import Image, Inspection, ProductRow
from hyperfsad.serve.store.store import Store, number
from hyperfsad.serve.trends import HOUR, Step, Sums, count_inspections, product_trend, quantiles
from tests.codes import raises
from tests.conftest import make_picture
from tests.serve.conftest import png
from tests.serve.stations import refused

PRODUCT = "a" * 32
START = 500_000 * HOUR


@pytest.fixture(scope="module")
def detectors(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A detector file without and one with further good parts."""
    folder = tmp_path_factory.mktemp("detectors")
    made = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    made.fit([make_picture(0), make_picture(1)]).save(folder / "support.hfsad")
    made.calibrate([make_picture(seed) for seed in range(20, 30)]).save(folder / "further.hfsad")
    return {name: folder / f"{name}.hfsad" for name in ("support", "further")}


def filled(folder: Path, detector: Path, levels: Sequence[float], step: int = 60_000_000) -> Store:
    """A store with one product and an inspection each `step` microseconds."""
    store = Store(folder, reserve=0).open()
    place = store.files.detector("f" * 64)
    place.write_bytes(detector.read_bytes())
    with store.database.writing() as session:
        summary = {"threshold": 0.5}
        own = {"name": "bolt", "claimed": "bolt", "created": 0, "changed": 0, "revision": 1}
        session.add(ProductRow(id=PRODUCT, **own, detector="f" * 64, summary=summary))
        size = {"bytes": 1, "width": 9, "height": 9}
        session.add(Image(sha256="b" * 64, suffix=".png", added=0, kept=False, **size))
        session.flush()
        rows = [inspection(n, START + n * step, value) for n, value in enumerate(levels)]
        number(session, rows)
        session.add_all(rows)
        session.flush()
        count_inspections(session, rows)
    return store


def inspection(number: int, time: int, level: float, revision: int = 1) -> Inspection:
    return Inspection(
        id=f"{number:032x}",
        time=time,
        product_id=PRODUCT,
        revision=revision,
        image="b" * 64,
        name=f"{number}.png",
        verdict="anomalous" if level > 1 else "good",
        score=0.5 * level,
        threshold=0.5,
        level=level,
        p_value=None,
        regions=0,
        label=None,
    )


def normal(count: int, seed: int = 0, middle: float = 0.7, spread: float = 0.1) -> list[float]:
    rng = random.Random(seed)
    return [middle * math.exp(rng.gauss(0, spread)) for _ in range(count)]


def trend(store: Store, step: Step, since: int | None, until: int) -> dict[str, Any]:
    return product_trend(store, PRODUCT, step, since, until).model_dump()


def test_quantiles_of_hours_and_days(tmp_path: Path, detectors: dict[str, Path]) -> None:
    values = normal(3000)
    store = filled(tmp_path, detectors["support"], values)
    until = START + 51 * HOUR
    for step, inside in zip(get_args(Step), (60, 1440), strict=True):
        found = trend(store, step, START, until)
        points = found["points"]
        lengths = [point["count"] for point in points]
        assert sum(lengths) == 3000
        assert max(lengths) == inside
        place = 0
        for point, count in zip(points, lengths, strict=True):
            part = values[place : place + count]
            place += count
            shares = (0.05, 0.25, 0.5, 0.75, 0.95)
            exact = np.quantile(part, shares, method="inverted_cdf")
            assert point["level"] == pytest.approx(exact, rel=0.0101)
            assert point["anomalous"] == sum(value > 1 for value in part)
            assert point["share"] == point["anomalous"] / count
    some = trend(store, "hour", START + 2 * HOUR, START + 4 * HOUR)["points"]
    assert [point["time"][11:13] for point in some] == [_hour(2), _hour(3)]
    with raises(UsageError, "trend-too-long", limit=744):
        trend(store, "hour", START, START + 1000 * HOUR)
    store.close()


def _place(time: str) -> int:
    """Which inspection came at a time."""
    return round((1e6 * datetime.fromisoformat(time).timestamp() - START) / 60_000_000)


def _hour(number: int) -> str:
    return datetime.fromtimestamp((START + number * HOUR) / 1e6, timezone.utc).strftime("%H")


def test_odd_values_have_bins() -> None:
    assert quantiles({}) is None
    sums = Sums()
    for value in (0.0, -1.0, 1e-300, 1e300):
        sums.add("unjudged", value)
    found = quantiles(sums.levels)
    assert found is not None
    assert found[0] == pytest.approx(1e-9, rel=0.02)
    assert found[-1] == pytest.approx(1e300, rel=0.02)
    sums.add("unjudged", None)
    assert (sums.unjudged, sum(sums.levels.values())) == (5, 4)


def test_drift_is_found_and_not_invented(tmp_path: Path, detectors: dict[str, Path]) -> None:
    quiet = filled(tmp_path / "quiet", detectors["support"], normal(2500, seed=1))
    found = trend(quiet, "hour", None, START + HOUR)["drift"]
    assert (found["moved"], found["reference"]) == (False, "first inspections")
    assert found["inspections"] == 960  # the latest 500 to 1000 after the first 40
    quiet.close()
    values = [*normal(150, seed=2), *normal(60, seed=3, middle=1.2)]
    moved = filled(tmp_path / "moved", detectors["support"], values)
    found = trend(moved, "hour", None, START + HOUR)["drift"]
    assert found["moved"]
    place, known = (_place(found[name]) for name in ("since", "known"))
    assert place <= 150 < known < 175
    assert min(int(name, 16) for name in found["add"]) >= place
    assert found["evidence"] >= found["needed"] == 100
    moved.close()


def test_a_calibrated_product_is_compared_with_its_calibration(
    tmp_path: Path, detectors: dict[str, Path]
) -> None:
    store = filled(tmp_path, detectors["further"], [3.0] * 12)
    found = trend(store, "day", None, START + HOUR)
    assert len(found["calibration"]) == 5
    assert found["calibration"] == sorted(found["calibration"])
    drift = found["drift"]
    assert (drift["reference"], drift["compared_with"], drift["moved"]) == ("calibration", 10, True)
    with store.database.writing() as session:  # what is known to be bad does not count
        for one in session.query(Inspection):
            one.label = "bad"
    assert trend(store, "day", None, START + HOUR)["drift"] is None
    store.close()


def test_through_the_station(client: StationClient, product: str) -> None:
    found = client.inspect(product, [png(seed) for seed in range(5)])["inspections"]
    point = client.report(product, since=found[0]["time"])["points"]
    assert sum(one["count"] for one in point) == 5
    (day,) = client.report(product, step="day")["points"][-1:]
    assert day["count"] <= 5
    for wrong in ({"step": "week"}, {"since": "2026-01-01", "until": "2025-01-01"}):
        with refused(422):
            client.report(product, "trend", **wrong)


def test_coverage_says_what_to_add(client: StationClient, product: str) -> None:
    few = client.report(product, "coverage")
    assert (few["covered"], few["more_like"]) == (None, [])
    client.extend_product(product, [png(2), png(3)], confirm=True)
    client.calibrate_product(product, threshold=99.0)
    odd = io.BytesIO()
    make_picture(9).point(lambda value: 255 - value // 4).save(odd, "PNG")
    far, near = client.inspect(product, [("odd.png", odd.getvalue()), png(0)])["inspections"]
    more = client.report(product, "coverage")
    assert more["covered"] is not None
    assert 0 <= more["covered"] <= 1
    assert [row["id"] for row in more["inspections"]] == [far["id"]]
    assert near["id"] not in str(more["inspections"])
    assert set(more["more_like"]) <= {f"{seed}.png" for seed in range(4)}
    client.label(far["id"], "bad")
    assert client.report(product, "coverage")["inspections"] == []
