"""What every endpoint needs: the station, who asks, and how to wait for the engine."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Request
from starlette.requests import ClientDisconnect

from ..engine import Detectors
from ..faults import ForbiddenError, NotSignedInError
from ..settings import ADMIN
from ..station import Station
from ..store.store import Actor
from .guard import Guard
from .metrics import Metrics
from .schemas import Problem

Found = TypeVar("Found")

LOOK = 0.25
"""Seconds between two looks whether a waiting client is still there."""

Id = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="As the station gave it.")]


@dataclass(frozen=True)
class Context:
    """Of one application."""

    station: Station
    guard: Guard
    metrics: Metrics


def context_of(request: Request) -> Context:
    """The context of the application that a request came to."""
    found: Context = request.app.state.context
    return found


def inspector(request: Request) -> Actor:
    """Anybody with a role."""
    actor: Actor = request.state.actor
    if not actor.role:
        raise NotSignedInError("Sign in first, or send the header `Authorization: Bearer TOKEN`.")
    return actor


def admin(request: Request) -> Actor:
    """Only who may change products."""
    actor = inspector(request)
    if actor.role != ADMIN:
        raise ForbiddenError("Your role may inspect and look; this needs the role admin.")
    return actor


Here = Annotated[Context, Depends(context_of)]
Inspector = Annotated[Actor, Depends(inspector)]
Admin = Annotated[Actor, Depends(admin)]

REASONS = {
    400: "The request cannot be understood.",
    401: "Nobody is signed in.",
    403: "The role may not do this, or another site's page asked.",
    404: "There is none.",
    408: "The upload stopped.",
    409: "It does not fit to what is there.",
    410: "It is not kept any longer.",
    413: "It is too large.",
    415: "It is no form with files.",
    422: "What was sent cannot be used.",
    429: "Too many wrong tokens; see Retry-After.",
    503: "The line is full or the encoder is missing; see Retry-After.",
    507: "The disk is nearly full.",
}
USUAL = (400, 401, 403, 408, 413, 422, 429, 503, 507)


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Documents the errors of an endpoint."""
    return {
        status: {"model": Problem, "description": REASONS[status]}
        for status in sorted({*USUAL, *statuses})
    }


UPLOADING = (400, 404, 408, 409, 413, 415, 507)


async def called(request: Request, here: Context, work: Callable[[Detectors], Found]) -> Found:
    """Waits for work in the engine's thread."""
    (found,) = await finished(request, [here.station.engine.call(work)])
    if isinstance(found, BaseException):
        raise found
    return found


async def finished(
    request: Request, futures: "Sequence[Future[Found]]"
) -> list[Found | BaseException]:
    """Waits for all; of a client that has gone, what has not begun is cancelled.

    What has begun is waited for: it may still read the client's files.
    """
    waiting = [asyncio.wrap_future(future) for future in futures]
    gone = False
    left = set(waiting)
    try:
        while left:
            _, left = await asyncio.wait(left, timeout=LOOK)
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
    *, file: str = "images", several: bool = True, required: bool = True, **texts: dict[str, Any]
) -> dict[str, Any]:
    """Documents a form, which is read without FastAPI so that limits hold while it arrives."""
    binary = {"type": "string", "format": "binary"}
    files = {"type": "array", "items": binary} if several else binary
    wanted = [name for name, text in texts.items() if text.pop("required", False)]
    schema = {
        "type": "object",
        "properties": {file: files, **texts},
        "required": [*wanted, *([file] if required else [])],
    }
    return {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    }
