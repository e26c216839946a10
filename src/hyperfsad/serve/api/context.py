"""What every endpoint needs: the station, who asks, and how to wait for the engine."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from fastapi import Depends, Path, Request, Response
from starlette.requests import ClientDisconnect

from ..engine import Detectors
from ..refusals import ForbiddenError, NotSignedInError
from ..settings import ADMIN
from ..station import Station
from ..store.audit import Actor

Found = TypeVar("Found")
Arguments = ParamSpec("Arguments")

DISCONNECT_CHECK = 0.25
"""Seconds between two checks whether a waiting client is still there."""

Id = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="As the station gave it.")]


def station_of(request: Request) -> Station:
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
SIGNED_IN = [Depends(inspector)]


def content(kind: str, description: str) -> dict[str, Any]:
    """Documents an answer that is not JSON."""
    responses = {200: {"content": {kind: {}}, "description": description}}
    return {"response_class": Response, "responses": responses}


JPEG = content("image/jpeg", "The picture.")


def jpeg(picture: bytes) -> Response:
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
    schema = {"type": "object", "properties": {file: files, **texts}, "required": list(required)}
    return {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    }
