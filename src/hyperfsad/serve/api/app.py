"""The application: all endpoints, and errors as one sentence each."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import compile_path
from starlette.types import ASGIApp

from ...errors import EncoderError, HyperfsadError, first_line
from ...version import __version__
from ..faults import FullError, RefusedError, is_full
from ..station import Station
from . import goodparts, inspections, labels, live, pages, products, system, trends
from .context import Context
from .guard import Guard
from .logs import LOG
from .metrics import Metrics
from .middleware import Gatekeeper

PREFIX = "/api/v1"
FULL = "The station's disk is full: nothing of this request was kept; free some space."
AWAY = "The station's database does not answer, so this counts as not done; ask again."
GONE = 499
"""What the log says of a client that went away; nobody reads the answer."""
WORDS = {404: "There is nothing at this address.", 405: "This address has no such method."}


def make_app(station: Station, tokens: Mapping[str, str]) -> ASGIApp:
    """The application of a station that is open."""
    app = FastAPI(
        title="Hyper-FSAD inspection station",
        version=__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # the address would be made of the Host header that came
    )
    guard = Guard(tokens, station.settings.names)
    metrics = Metrics(lambda: station.engine.waiting, lambda: station.store.files.free)
    app.state.context = Context(station, guard, metrics)
    station.live.count(metrics.judged)
    rooms = (products, goodparts, inspections, labels, trends, live, system)
    for router in (room.router for room in rooms):
        app.include_router(router, prefix=PREFIX)
    app.include_router(system.figures)
    app.include_router(pages.router)
    app.add_exception_handler(HyperfsadError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _plain)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(DBAPIError, _away)
    app.add_exception_handler(NoConnectionError, _away)
    app.add_exception_handler(Exception, _failed)
    return Gatekeeper(app, guard, metrics, secure=station.settings.secure)


def _problem(status: int, text: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": text}, status_code=status, headers=dict(headers or {}))


async def _refused(request: Request, error: Exception) -> Response:
    if is_full(error):
        error = FullError(FULL)
    status = getattr(error, "status", 503 if isinstance(error, EncoderError) else 422)
    headers = {}
    if isinstance(error, RefusedError) and error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    place: Context = request.app.state.context
    told = str(error).replace(str(place.station.store.folder), "the store")
    return _problem(status, told, headers)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found: dict[str, Any] = error.errors()[0]
    place = ".".join(str(part) for part in found["loc"] if part not in ("body", "query", "path"))
    return _problem(422, f"{place or 'The request'}: {found['msg']}.")


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = WORDS.get(error.status_code, str(error.detail))
    headers = error.headers
    if error.status_code == 405:  # Starlette names the methods of one of several routes only
        headers = {"allow": ", ".join(sorted(_methods(request)))}
    return _problem(error.status_code, text, headers)


def _methods(request: Request) -> set[str]:
    """All methods that an address has, by the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = request.app.openapi()["paths"]
    here = request.scope["path"]
    same = [methods for path, methods in paths.items() if compile_path(path)[0].match(here)]
    same = [paths[here]] if here in paths else same  # such as /products/upload, which is no id
    return {method.upper() for methods in same for method in methods}


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=GONE)


async def _away(request: Request, error: Exception) -> Response:
    """The database is away, or too many want the same: what was not committed is not done."""
    broken = isinstance(error, OperationalError | InterfaceError | NoConnectionError)
    if is_full(error) or not broken:
        return await _failed(request, error)
    LOG.error("the database did not answer: %s", first_line(error), extra=_traced(request))
    return _problem(503, AWAY, {"retry-after": "5"})


def _traced(request: Request) -> dict[str, str]:
    return {"request": request.state.actor.request}


async def _failed(request: Request, error: Exception) -> Response:
    if is_full(error):
        return _problem(507, FULL)
    actor = request.state.actor
    LOG.error("a request failed", exc_info=error, extra=_traced(request))
    return _problem(500, f"The station could not do this; its log says why under {actor.request}.")
