"""A real browser for the tests of pages; they are skipped, with the reason, where there is none."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 60.0
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@contextmanager
def started_browser() -> Iterator[Any]:
    """Chromium without a window; `HYPERFSAD_CHROMIUM` names another one than that on the path."""
    named = os.environ.get("HYPERFSAD_CHROMIUM")
    program = named or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("there is no chromium on this machine (apt install chromium)")
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install playwright)"
    )
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--use-fake-device-for-media-stream",  # a camera that every machine has
            ],
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opener(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages; at the end nothing may have failed, and nothing else been asked for."""
    pages: list[tuple[Any, list[str]]] = []

    def load(path: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        page, trouble = context.new_page(), list[str]()
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda message: trouble.append(message.text))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on(
            "request",
            lambda request: (
                trouble.append(request.url)
                if not request.url.startswith(("data:", path.as_uri()))
                else None
            ),
        )
        page.goto(path.as_uri())
        pages.append((page, trouble))
        return page

    yield load
    for page, trouble in pages:
        assert trouble == []
        page.context.close()


def until(page: Any, expression: str) -> None:
    """Waits until something holds; the page's policy forbids playwright's own way, which evals."""
    end = time.monotonic() + PATIENCE
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)
