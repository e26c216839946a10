"""The pictures of the documentation can be made again."""

from pathlib import Path
from typing import Any

from PIL import Image

from tests.serve.page.tour import parts, walk
from tests.serve.stations import Running


def test_the_walk_through_the_page(station: Running, browser: Any, tmp_path: Path) -> None:
    taken = list(walk(browser, station.url, parts(tmp_path, size=96), tmp_path))
    names = ("first", "learnt", "inspect", "why", "phone", "dark")
    assert [path.stem for path in taken] == [f"station-{name}" for name in names]
    for path in taken:
        with Image.open(path) as picture:
            assert len(picture.convert("L").resize((64, 64)).getcolors() or []) > 5
