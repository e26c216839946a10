"""The page for browsers. Its files hold nothing of the station, so anybody may read them."""

from fastapi import APIRouter, Request, Response

from ..faults import MissingError
from ..page import INDEX, assets

router = APIRouter(include_in_schema=False)


@router.get("/")
def start(request: Request) -> Response:
    """The page itself."""
    return _answer(request, INDEX)


@router.get("/page/{name:path}")
def part(name: str, request: Request) -> Response:
    """A script, a style, or the texts."""
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    found = assets().get(name)
    if found is None:
        raise MissingError("There is nothing at this address.")
    headers = {"cache-control": "no-cache", "etag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.kind, headers=headers)
