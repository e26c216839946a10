"""The moving picture of the README: two photos of good parts, a verdict, and why.

`python -m tests.serve.page.film docs/demo.gif` makes it with drawn parts and the default encoder.
"""

import io
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from tests.browser import started_browser
from tests.serve.page.tour import opened, plates, served

SIZE = (960, 640)
WIDTH, COLOURS = 800, 128
STEPS, STEP = 7, 90
"""Frames of a drag, and the milliseconds that each is shown."""
CAPTIONS = {
    "first": "Drop two photos of good parts …",
    "learnt": "… it has learnt them: no training, no labels",
    "part": "Drop a part to inspect …",
    "verdict": "… the verdict, and where the defect is",
    "why": "Why? The good patches that come nearest",
}
Frame = tuple[Image.Image, int]


def film(browser: Any, url: str, folder: Path) -> Iterator[Frame]:
    """Each picture with the milliseconds that it is shown."""
    *good, bad = plates(folder, [None, None, "scratch"], 512)
    with opened(browser, url, SIZE) as page:
        page.wait_for_selector("[data-step='3']")
        yield from dropped(page, "[data-step='1'] .drop", good, CAPTIONS["first"])
        page.locator("[data-step='1'] input[type=file]").first.set_input_files(good)
        page.locator(".review .main").click()
        page.wait_for_selector(".histogram svg")
        show(page, "[data-step='2']")
        yield captioned(shot(page), CAPTIONS["learnt"]), 2200
        yield from dropped(page, "[data-step='3'] .drop", [bad], CAPTIONS["part"])
        page.locator("[data-step='3'] input[type=file]").set_input_files(bad)
        page.wait_for_selector(".verdict-word")
        yield captioned(shot(page), CAPTIONS["verdict"]), 3500
        page.keyboard.press("e")
        page.wait_for_selector(".evidence img")
        yield captioned(shot(page), CAPTIONS["why"]), 4500


def show(page: Any, part: str) -> None:
    """Scrolls a part to the top of the window."""
    page.locator(part).first.evaluate("part => part.scrollIntoView({block: 'start'})")


def shot(page: Any) -> Image.Image:
    """What the window shows; everything on it has arrived."""
    page.wait_for_load_state("networkidle")
    return Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")


def dropped(page: Any, place: str, files: list[Path], caption: str) -> Iterator[Frame]:
    """Photos that move from the corner to their place."""
    target = page.locator(place).first
    target.scroll_into_view_if_needed()
    box, window = target.bounding_box(), shot(page)
    ends = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    yield captioned(window, caption), 1000
    for step in range(STEPS):
        part = (step + 1) / STEPS
        part *= 2 - part  # slower towards the end
        x, y = (start + part * (end - start) for start, end in zip(SIZE, ends, strict=True))
        moved = window.copy()
        for number, file in enumerate(files):
            with Image.open(file) as opened_file:
                photo = opened_file.convert("RGB").resize((110, 110))
            framed = Image.new("RGB", (118, 118), "white")
            framed.paste(photo, (4, 4))
            moved.paste(framed, (int(x) - 100 + 60 * number, int(y) - 70 + 24 * number))
        yield captioned(moved, caption), STEP if part < 1 else 600


def captioned(window: Image.Image, text: str) -> Image.Image:
    """The window, smaller, above a line of text."""
    small = window.resize((WIDTH, WIDTH * SIZE[1] // SIZE[0]), Image.Resampling.LANCZOS)
    whole = Image.new("RGB", (small.width, small.height + 44), (24, 32, 44))
    whole.paste(small)
    place = (small.width // 2, small.height + 22)
    ImageDraw.Draw(whole).text(place, text, "white", ImageFont.load_default(20), anchor="mm")
    return whole


def save(frames: list[Frame], path: Path) -> None:
    """One palette for all, so that only what changes is stored."""
    strip = Image.new("RGB", (frames[0][0].width, sum(one.height for one, _ in frames)))
    for number, (one, _) in enumerate(frames):
        strip.paste(one, (0, number * one.height))
    palette = strip.quantize(COLOURS, Image.Quantize.MEDIANCUT)
    flat = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one, _ in frames]
    times = [time for _, time in frames]
    flat[0].save(path, save_all=True, append_images=flat[1:], duration=times, loop=0, optimize=True)
    assert all(one.size == two.size for (one, _), (two, _) in pairwise(frames))


def main(target: str) -> None:
    """Makes it with a station of its own."""
    with (
        tempfile.TemporaryDirectory() as place,
        started_browser() as browser,
        served(Path(place)) as url,
    ):
        save(list(film(browser, url, Path(place))), Path(target))


if __name__ == "__main__":
    main(sys.argv[1])
