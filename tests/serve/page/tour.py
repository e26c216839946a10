"""The pictures of docs/station.md: a walk through the page, with drawn parts.

`python -m tests.serve.page.tour docs` makes them with the default encoder; a test walks the same
way with a small one.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyperfsad.demo.drawing import draw
from tests.browser import started_browser
from tests.serve.stations import Running

PATIENCE = 120_000
DESK, PHONE = (1280, 1080), (390, 844)


def plates(folder: Path, defects: list[str | None], size: int) -> list[Path]:
    """Drawn parts."""
    paths = [folder / f"plate {seed + 1}.png" for seed in range(len(defects))]
    for seed, (path, defect) in enumerate(zip(paths, defects, strict=True)):
        draw("plate", seed=seed, defect=defect, size=size).image.save(path)
    return paths


def parts(folder: Path, size: int = 512) -> tuple[list[Path], list[Path]]:
    """Good parts to learn, and parts to inspect, the last one with a scratch."""
    paths = plates(folder, [*[None] * 5, "missing hole", "stain", "scratch"], size)
    return paths[:4], paths[4:]


@contextmanager
def opened(browser: Any, url: str, size: tuple[int, int] = DESK, **look: Any) -> Iterator[Any]:
    """A page of its own."""
    phone = {"has_touch": True, "is_mobile": True, "device_scale_factor": 2}
    own = {"locale": "en-US", **(phone if size == PHONE else {}), **look}
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **own)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    yield page
    context.close()


def shoot(page: Any, folder: Path, name: str, part: str | None = None, **options: Any) -> Path:
    """One picture, of a part or of the whole; everything on it has arrived."""
    page.wait_for_load_state("networkidle")
    path = folder / f"station-{name}.jpg"
    shown = page if part is None else page.locator(part)
    shown.screenshot(path=path, type="jpeg", quality=80, **options)
    return path


def walk(
    browser: Any, url: str, files: tuple[list[Path], list[Path]], folder: Path
) -> Iterator[Path]:
    """From the first start to the first verdict, then after some inspections."""
    good, wanted = files
    with opened(browser, url) as page:
        page.wait_for_selector("[data-step='3']")
        yield shoot(page, folder, "first")
        page.locator("[data-step='1'] input[type=file]").first.set_input_files(good)
        page.get_by_label("Name", exact=True).fill("plate")
        page.locator(".review .main").click()
        page.wait_for_selector(".histogram svg")
        yield shoot(page, folder, "learnt", full_page=True)
        page.locator("[data-step='3'] input[type=file]").set_input_files(wanted[0])
        page.wait_for_selector(".verdict-word")
    for picture, inspected, size, look in (
        ("inspect", wanted, DESK, {}),
        ("why", wanted[-1:], DESK, {}),
        ("phone", wanted[-1:], PHONE, {}),
        ("dark", wanted[:1], DESK, {"color_scheme": "dark", "locale": "de-DE"}),
    ):
        with opened(browser, url, size, **look) as page:
            for place, file in enumerate(inspected):
                page.wait_for_selector(".source .drop")
                page.locator(".source .drop input").set_input_files(file)
                page.wait_for_selector(f".strip-list li:nth-child({place + 1})", state="attached")
            if picture == "why":
                page.keyboard.press("e")
                page.wait_for_selector(".evidence img")
            yield shoot(page, folder, picture, ".evidence" if picture == "why" else None)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a station of its own, with the default encoder."""
    command = [sys.executable, "-m", "hyperfsad", "serve", "--store", str(folder / "store")]
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen([*command, "--port", "0"], stdout=output, stderr=output)
    try:
        yield Running(process.pid, log).listening()
    finally:
        process.terminate()
        process.wait()


def main(target: str) -> None:
    """Makes the pictures with a station of its own."""
    with tempfile.TemporaryDirectory() as place, started_browser() as browser:
        folder = Path(place)
        with served(folder) as url:
            list(walk(browser, url, parts(folder), Path(target)))


if __name__ == "__main__":
    main(sys.argv[1])
