"""The pictures of docs/station.md and of the README: a walk through the page, with drawn parts.

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

PATIENCE = 600_000
DESK, PHONE = (1280, 1080), (390, 844)


def parts(folder: Path, size: int = 512) -> tuple[list[Path], list[Path]]:
    """Good parts to learn, and parts to inspect, the last one with a scratch."""
    kinds = [*[None] * 5, "missing hole", "stain", "scratch"]
    paths = []
    for seed, defect in enumerate(kinds):
        path = folder / f"plate {seed + 1}.png"
        draw("plate", seed=seed, defect=defect, size=size).image.save(path)
        paths.append(path)
    return paths[:4], paths[4:]


class Tour:
    """Takes pictures of the page of a station."""

    def __init__(self, browser: Any, url: str, folder: Path) -> None:
        self._browser, self._url, self._folder = browser, url, folder
        self.taken: list[Path] = []

    @contextmanager
    def page(self, size: tuple[int, int], scheme: str, locale: str, scale: int) -> Iterator[Any]:
        """A page of its own."""
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            locale=locale,
            device_scale_factor=scale,
            has_touch=size == PHONE,
            is_mobile=size == PHONE,
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(self._url)
        yield page
        context.close()

    def shoot(self, page: Any, name: str, part: str | None = None, **options: Any) -> None:
        """One picture, of a part or of the whole; everything on it has arrived."""
        page.wait_for_load_state("networkidle")
        path = self._folder / f"station-{name}.jpg"
        shown = page if part is None else page.locator(part)
        shown.screenshot(path=path, type="jpeg", quality=80, **options)
        self.taken.append(path)

    def first(self, good: list[Path], part: Path) -> None:
        """From the first start to the first verdict."""
        with self.page(DESK, "light", "en-US", 1) as page:
            page.wait_for_selector("[data-step='3']")
            self.shoot(page, "first")
            page.locator("[data-step='1'] input[type=file]").first.set_input_files(good)
            page.wait_for_selector(".histogram svg")
            name = page.get_by_label("Name", exact=True)
            name.fill("plate")
            name.press("Tab")
            page.wait_for_selector(".toast")
            page.locator(".toast .quiet").click()
            self.shoot(page, "learnt", full_page=True)
            page.locator("[data-step='3'] input[type=file]").set_input_files(part)
            page.wait_for_selector(".verdict-word")

    def inspecting(
        self,
        name: str,
        files: list[Path],
        size: tuple[int, int] = DESK,
        scheme: str = "light",
        locale: str = "en-US",
        scale: int = 1,
        why: bool = False,
    ) -> None:
        """After the inspection of some parts, one after the other."""
        with self.page(size, scheme, locale, scale) as page:
            for place, file in enumerate(files):
                page.wait_for_selector(".source .drop")
                page.locator(".source .drop input").set_input_files(file)
                page.wait_for_selector(f".strip-list li:nth-child({place + 1})", state="attached")
            if why:
                page.keyboard.press("e")
                page.wait_for_selector(".evidence img")
            self.shoot(page, name, ".evidence" if why else None)


def walk(browser: Any, url: str, files: tuple[list[Path], list[Path]], folder: Path) -> list[Path]:
    """All pictures."""
    good, wanted = files
    tour = Tour(browser, url, folder)
    tour.first(good, wanted[0])
    tour.inspecting("inspect", wanted)
    tour.inspecting("why", wanted[-1:], why=True)
    tour.inspecting("phone", wanted[-1:], PHONE, scale=2)
    tour.inspecting("dark", wanted[:1], DESK, "dark", "de-DE")
    return tour.taken


def main(target: str) -> None:
    """Makes the pictures with a station of its own."""
    with tempfile.TemporaryDirectory() as place, started_browser() as browser:
        folder = Path(place)
        command = [sys.executable, "-m", "hyperfsad", "serve", "--store", str(folder / "store")]
        log = folder / "log"
        with log.open("w") as opened:
            process = subprocess.Popen([*command, "--port", "0"], stdout=opened, stderr=opened)
        running = Running(process.pid, log)
        try:
            walk(browser, running.listening(), parts(folder), Path(target))
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main(sys.argv[1])
