"""The pages lead somewhere, and stay short."""

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.docs.blocks import DOCS, USER_PAGES, blocks

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)")
COINED = re.compile(r"\b(rooms?|judg(?:e|es|ed|ing)|flatters?)\b", re.IGNORECASE)


def words(text: str) -> int:
    """Words of a page, those of its code among them, but not the bars of its tables."""
    return sum(bool(re.search(r"\w", word)) for word in re.sub(r"<!--.*?-->", "", text).split())


def test_the_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").split()) <= 700


def test_the_user_pages_are_short() -> None:
    pages = [page for page in DOCS.glob("*.md") if page.stem != "architecture"]
    assert sum(words(page.read_text(encoding="utf-8")) for page in pages) <= 16_500


def test_the_readme_begins_with_the_two_commands() -> None:
    first = blocks(REPOSITORY / "README.md")[0]
    assert [command[:2] for command in first.commands] == [["make", "demo"], ["make", "test"]]


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        assert not link or (page.parent / link).exists(), link


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.stem)
def test_coined_words_are_gone(page: Path) -> None:
    assert COINED.findall(page.read_text(encoding="utf-8")) == []


def test_the_moving_picture_is_light() -> None:
    assert 100_000 < (DOCS / "demo.gif").stat().st_size < 1_000_000
