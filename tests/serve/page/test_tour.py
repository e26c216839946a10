"""The pictures of the documentation can be made again."""

from pathlib import Path
from typing import Any

from PIL import Image

from tests.serve.page.film import CAPTIONS, film, save
from tests.serve.page.tour import parts, walk
from tests.serve.stations import Running, Stations


def test_the_walk_through_the_page(station: Running, browser: Any, tmp_path: Path) -> None:
    taken = list(walk(browser, station.url, parts(tmp_path, size=96), tmp_path))
    names = ("first", "learnt", "inspect", "why", "phone", "dark")
    assert [path.stem for path in taken] == [f"station-{name}" for name in names]
    for path in taken:
        with Image.open(path) as picture:
            assert len(picture.convert("L").resize((64, 64)).getcolors() or []) > 5


def test_the_moving_picture(stations: Stations, browser: Any, tmp_path: Path) -> None:
    with stations.running(tmp_path / "store") as station:
        frames = list(film(browser, station.url, tmp_path))
    save(frames, tmp_path / "demo.gif")
    assert (tmp_path / "demo.gif").stat().st_size < 1_000_000
    with Image.open(tmp_path / "demo.gif") as picture:
        assert picture.info["loop"] == 0  # for ever
        assert getattr(picture, "n_frames", 1) > len(CAPTIONS)
    rests = {one.resize((80, 58)).tobytes() for one, time in frames if time > 1000}
    assert len(rests) == len(CAPTIONS) - 2  # all but the two that show a drag
