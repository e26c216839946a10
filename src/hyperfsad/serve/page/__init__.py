"""The page: plain files that browsers ask for. There is no build step and no outside address.

`js/` holds ES modules, `css/` the style, `catalogue.json` every text in every language. All files
are read once, by the names that the package has: no name from a client is ever opened. They hold
nothing of the station, so anybody may read them.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

from ..refusals import MissingError

PAGE_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
router = APIRouter(include_in_schema=False)


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
    paths = sorted(path for path in folder.rglob("*") if path.suffix in PAGE_TYPES)
    return {path.relative_to(folder).as_posix(): _asset(path) for path in paths}


def _asset(path: Path) -> Asset:
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Asset(content, PAGE_TYPES[path.suffix], tag)


@router.get("/")
def start(request: Request) -> Response:
    """The page itself."""
    return part("index.html", request)


@router.get("/page/{name:path}")
def part(name: str, request: Request) -> Response:
    """A script, a style, or the texts."""
    found = assets().get(name)
    if found is None:
        raise MissingError("address-unknown")
    headers = {"cache-control": "no-cache", "etag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.kind, headers=headers)
