"""A generated past for a store, and the pictures of docs/station.md that need one.

`python -m tests.serve.page.past docs` makes them: drawn plates, a small random encoder, and scores
that are drawn by lot. Five hours before now, normal moves.
"""

import math
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import select

from hyperfsad.serve.store.models import Detail, Inspection, ProductRow, now
from hyperfsad.serve.store.store import Store, number
from hyperfsad.serve.trends import HOUR, count_inspections
from tests.browser import started_browser
from tests.conftest import save_tiny
from tests.serve.page.tour import opened, plates, shoot
from tests.serve.stations import Running, Stations

HOURS, MOVED = 47, 5


def add_past(folder: Path, *, every: float = 120.0, seed: int = 1) -> int:
    """Inspections of two days, each with the pictures of one that is there; returns how many."""
    rng, store = random.Random(seed), Store(folder, reserve=0).open()
    made: list[tuple[Inspection, Detail]] = []
    with store.database.writing() as session:
        revisions = dict(session.execute(select(ProductRow.id, ProductRow.revision)).all())
        known = [
            (one, session.get_one(Detail, one.id)) for one in session.scalars(select(Inspection))
        ]
        time, end = now() - HOURS * HOUR, now() - 60_000_000
        while (time := time + int(rng.expovariate(1 / every) * 1e6)) < end:
            moved = end - time < MOVED * HOUR
            bad = rng.random() < 0.03
            level = 0.7 * math.exp(rng.gauss(0.2 if moved else 0.0, 0.08)) * (2.2 if bad else 1)
            one, detail = rng.choice(
                [row for row in known if (row[0].verdict != "good") == bad] or known
            )
            made.append((_copy(one, revisions, rng, time, level, len(made)), detail))
        number(session, [one for one, _ in made] + [one for one, _ in known])
        session.add_all([one for one, _ in made])
        session.flush()
        columns = ("record", "drawing", "map", "thumbnail")
        for one, detail in made:
            own = {name: getattr(detail, name) for name in columns}
            session.add(Detail(inspection_id=one.id, **own))
        session.flush()
        count_inspections(session, [one for one, _ in made])
    store.close()
    return len(made)


def _copy(
    one: Inspection, revisions: dict[str, int], rng: Any, time: int, level: float, number: int
) -> Inspection:
    threshold = one.threshold or 1.0
    return Inspection(
        id=rng.randbytes(16).hex(),
        time=time,
        product_id=one.product_id,
        revision=revisions[one.product_id],
        image=one.image,
        name=f"line 1, {number + 1:04d}.png",
        verdict="anomalous" if level > 1 else "good",
        score=level * threshold,
        threshold=threshold,
        level=level,
        p_value=None,
        regions=one.regions if level > 1 else 0,
        label=None,
    )


def taught(station: Running, folder: Path, size: int = 256) -> None:
    """A product with some inspections, of which the past is made."""
    paths = plates(folder, [*[None] * 6, "scratch", "stain"], size)
    client = station.client()
    plate = client.create_product("plate", paths[:3])["id"]
    client.calibrate_product(plate, threshold=0.1)
    client.inspect(plate, paths[3:6])
    client.calibrate_product(plate, threshold=0.03)
    client.inspect(plate, paths[6:])


def views(browser: Any, url: str, folder: Path) -> Iterator[Path]:
    """The pictures."""
    dark = {"locale": "de-DE", "color_scheme": "dark"}
    for name, place, ready, look in (
        ("history", "#/history", ".history-table tbody tr", {}),
        ("trends", "#/trends", ".drift.moved img", {}),
        ("trends-dark", "#/trends", ".drift.moved img", dark),
    ):
        with opened(browser, f"{url}/{place}", (1280, 900), **look) as page:
            page.wait_for_selector(ready)
            yield shoot(page, folder, name, full_page=name != "history")


def main(target: str) -> None:
    with tempfile.TemporaryDirectory() as place, started_browser() as browser:
        folder = Path(place)
        save_tiny(folder / "tiny")
        stations = Stations(str(folder / "tiny"), folder)
        with stations.running(folder / "store") as station:
            taught(station, folder)
        add_past(folder / "store")
        with stations.running(folder / "store") as station:
            list(views(browser, station.url, Path(target)))
        stations.close()


if __name__ == "__main__":
    main(sys.argv[1])
