"""The page: plain files that browsers ask for. There is no build step and no outside address.

`js/` holds ES modules, `css/` the style, `catalogue.json` every text in every language. All files
are read once, by the names that the package has: no name from a client is ever looked for on the
disk.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

INDEX = "index.html"
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    """A file of the page."""

    content: bytes
    kind: str
    tag: str
    """Changes with the content, so that browsers ask for it again only then."""


@cache
def assets() -> dict[str, Asset]:
    """All files of the page by their names, as `js/main.js`."""
    folder = Path(__file__).parent
    paths = sorted(path for path in folder.rglob("*") if path.suffix in KINDS)
    return {path.relative_to(folder).as_posix(): _asset(path) for path in paths}


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Asset(content, KINDS[path.suffix], tag)
