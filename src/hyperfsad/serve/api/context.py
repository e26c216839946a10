"""What every endpoint needs: the station, who asks, and how to wait for the engine."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from fastapi import Depends, Path, Request, Response
from starlette.requests import ClientDisconnect

from ..detectors import Detectors
from ..refusals import ForbiddenError, NotSignedInError
from ..schemas import Problem
from ..settings import ADMIN
from ..station import Station
from ..store.store import Actor

Found = TypeVar("Found")
Arguments = ParamSpec("Arguments")

DISCONNECT_CHECK = 0.25
"""Seconds between two checks whether a waiting client is still there."""

Id = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="As the station gave it.")]


def station_of(request: Request) -> Station:
    """The station of the application that a request came to."""
    found: Station = request.app.state.station
    return found


def inspector(request: Request) -> Actor:
    """Anybody with a role."""
    actor: Actor = request.state.actor
    if not actor.role:
        raise NotSignedInError("not-signed-in")
    return actor


def admin(request: Request) -> Actor:
    """Only those who may change products."""
    actor = inspector(request)
    if actor.role != ADMIN:
        raise ForbiddenError("admin-required")
    return actor


Here = Annotated[Station, Depends(station_of)]
Inspector = Annotated[Actor, Depends(inspector)]
Admin = Annotated[Actor, Depends(admin)]

STATUS_TEXTS = {
    400: "The request cannot be understood.",
    401: "Nobody is signed in.",
    403: "The role may not do this, or another site's page asked.",
    404: "It does not exist.",
    408: "The upload stopped.",
    409: "It does not fit what is there.",
    410: "It is not kept any longer.",
    413: "It is too large.",
    415: "It is not a form with files.",
    422: "What was sent cannot be used.",
    429: "Too many wrong tokens; see Retry-After.",
    503: "The queue is full or the encoder is missing; see Retry-After.",
    507: "The disk is nearly full.",
}
ANY_REQUEST = (400, 401, 403, 408, 413, 422, 429, 503, 507)
UPLOADING = (404, 409, 415)


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Documents the errors of an endpoint."""
    return {
        status: {"model": Problem, "description": STATUS_TEXTS[status]}
        for status in sorted({*ANY_REQUEST, *statuses})
    }


def content(kind: str, description: str) -> dict[int | str, dict[str, Any]]:
    """Documents an answer that is not JSON."""
    return {200: {"content": {kind: {}}, "description": description}}


JPEG = content("image/jpeg", "The picture.")


def jpeg(picture: bytes) -> Response:
    """A picture as an answer."""
    return Response(picture, media_type="image/jpeg")


async def in_engine(
    request: Request,
    work: Callable[Concatenate[Detectors, Arguments], Found],
    *args: Arguments.args,
    **more: Arguments.kwargs,
) -> Found:
    """Waits for work in the engine's thread, which gets the detectors first."""
    engine = station_of(request).engine
    (found,) = await finished(request, [engine.call(lambda known: work(known, *args, **more))])
    if isinstance(found, BaseException):
        raise found
    return found


async def finished(
    request: Request, futures: "Sequence[Future[Found]]"
) -> "list[Found | BaseException]":
    """Waits for all; if the client has gone, what has not begun is cancelled.

    What has begun is waited for: it may still read the client's files.
    """
    waiting = [asyncio.wrap_future(future) for future in futures]
    gone = False
    left = set(waiting)
    try:
        while left:
            _, left = await asyncio.wait(left, timeout=DISCONNECT_CHECK)
            if left and not gone and await request.is_disconnected():
                gone = True
                for future in futures:
                    future.cancel()
    finally:
        for future in futures:
            future.cancel()
    if gone:
        raise ClientDisconnect
    return list(await asyncio.gather(*waiting, return_exceptions=True))


def form_of(
    *required: str, file: str = "images", several: bool = True, **texts: dict[str, Any]
) -> dict[str, Any]:
    """Documents a form, which is read without FastAPI so that limits hold while it arrives."""
    binary = {"type": "string", "format": "binary"}
    files = {"type": "array", "items": binary} if several else binary
    properties = {file: files, **texts}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    body = {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    return {"requestBody": body}
