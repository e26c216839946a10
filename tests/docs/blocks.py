"""The code blocks of the pages, and the folder in which they run."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hyperfsad.demo.drawing import draw
from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
USER_PAGES = (REPOSITORY / "README.md", *sorted(DOCS.glob("*.md")))
MEASURED = tuple(sorted((DOCS / "measurements").glob("*.md")))

FENCE = re.compile(
    r"(?P<mark><!-- (?P<key>not run|tested|file): (?P<reason>.*?) -->\n[ ]*)?"
    r"```(?P<language>\w*)\n(?P<text>.*?)^[ ]*```$",
    re.DOTALL | re.MULTILINE,
)
SIZE = 96


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    key: str
    """`not run` or `tested` with a reason, `file` with a name, or nothing: it runs."""
    reason: str

    @property
    def commands(self) -> Iterator[list[str]]:
        """The words of each line of a shell block, without comments."""
        for line in self.text.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def blocks(page: Path) -> list[Block]:
    """Those of a page, in order; a reason before its title holds for all of them."""
    text = page.read_text(encoding="utf-8")
    whole = re.match(r"<!-- not run: (.*?) -->\n# ", text)
    found = []
    for match in FENCE.finditer(text):
        indent = re.search(r"[ ]*\Z", text[: match.start()])
        body = re.sub(f"(?m)^{indent.group() if indent else ''}", "", match["text"])
        key, reason = match["key"] or "", match["reason"] or ""
        if whole and not key:
            key, reason = "not run", whole[1]
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match["language"], body, key, reason))
    return found


def draw_parts(folder: Path, prefix: str, seeds: range, defect: str | None = None) -> None:
    """Small drawn plates."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, seed in enumerate(seeds):
        part = draw("plate", seed=seed, defect=defect, size=SIZE)
        part.image.save(folder / f"{prefix}{place:03d}.png")


def workspace(folder: Path) -> None:
    """The folders and files that the pages speak of."""
    draw_parts(folder / "good", "", range(4))
    draw_parts(folder / "more-good", "", range(20, 41))
    draw_parts(folder / "line", "", range(50, 62))
    draw_parts(folder / "photos", "", range(70, 73))
    draw_parts(folder / "photos", "bad", range(73, 74), "stain")
    draw_parts(folder / "camera", "", range(74, 76))
    for kind in ("scratch", "stain"):
        draw_parts(folder / "bad" / kind, "", range(80, 83), kind)
    for number in range(1, 4):
        draw("plate", seed=90 + number, defect="scratch", size=SIZE).image.save(
            folder / f"bad{number}.png"
        )
    draw("plate", seed=95, defect="stain", size=128).image.save(folder / "part.png")
    draw("plate", seed=96, size=SIZE).image.convert("L").save(folder / "mask.png")
    draw_parts(folder / "products" / "plate", "", range(2))
    for seed in range(2):
        place = folder / "products" / "fabric"
        place.mkdir(exist_ok=True)
        draw("fabric", seed=seed, size=SIZE).image.save(place / f"{seed}.png")
