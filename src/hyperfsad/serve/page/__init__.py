"""The page: plain files that browsers ask for. There is no build step and no outside address.

`js/` holds ES modules, `css/` the style, `catalogue.json` every text in every language. All files
are read once, by the names that the package has: no name from a client is ever opened. They hold
nothing of the station, so anybody may read them.
"""

import hashlib
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


@cache
def assets() -> dict[str, bytes]:
    """All files of the page by their names, as `js/main.js`."""
    folder = Path(__file__).parent
    paths = sorted(path for path in folder.rglob("*") if path.suffix in PAGE_TYPES)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@router.get("/")
def start(request: Request) -> Response:
    return part("index.html", request)


@router.get("/page/{name:path}")
def part(name: str, request: Request) -> Response:
    """A script, a style, or the texts; browsers ask for it again only when it has changed."""
    found = assets().get(name)
    if found is None:
        raise MissingError("address-unknown")
    tag = f'"{hashlib.sha256(found).hexdigest()[:32]}"'
    headers = {"cache-control": "no-cache", "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(found, media_type=PAGE_TYPES[Path(name).suffix], headers=headers)
