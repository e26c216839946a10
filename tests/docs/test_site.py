"""`make docs`: the site is built without a warning, and asks nobody for anything."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

PAGES = ("index", "tutorial", "station", "reference", "measurements/accuracy")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {
        page.relative_to(REPOSITORY / "docs").with_suffix(".html")
        for page in (REPOSITORY / "docs").rglob("*.md")
    }
    built = {page.relative_to(site) for page in site.rglob("*.html")}
    assert pages - built == {Path("measurements/inventory.html")}


def test_the_reference_is_made_from_docstrings(site: Path) -> None:
    text = (site / "reference.html").read_text(encoding="utf-8")
    for name in ("HyperFSAD", "AnomalyResult.to_supervision", "errors.UsageError"):
        assert f'id="hyperfsad.{name}"' in text, name


def test_it_opens_without_a_server_or_a_network(site: Path, browser: Any) -> None:
    for name in PAGES:
        page = browser.new_page()
        asked, wrong = list[str](), list[str]()
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
        page.goto((site / f"{name}.html").as_uri(), wait_until="networkidle")
        assert page.locator("article h1").inner_text()
        assert {url for url in asked if not url.startswith(("file:", "data:", "blob:"))} == set()
        assert wrong == []
        page.close()


def test_the_search_finds_a_page(site: Path, browser: Any) -> None:
    page: Any = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").click()
    page.keyboard.type("webhook", delay=20)
    page.wait_for_selector(".md-search-result__item")
    assert "Watching" in page.locator(".md-search-result__list").inner_text()
    page.close()
