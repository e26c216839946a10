"""The application: all endpoints, and the answers to errors."""

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

from ...errors import EncoderError, HyperfsadError, UsageError, first_line
from ...version import __version__
from .. import page
from ..monitoring import LOG
from ..refusals import BusyError, FullError, RefusedError, is_full, problem
from ..schemas import Problem
from ..station import Station
from . import cameras, connections, inspections, products, shifts, system, users
from .guard import Guard
from .middleware import Gatekeeper, refusal
from .readers import Readers

API_PREFIX = "/api/v1"
CLIENT_GONE = 499
"""What the log says of a client that disconnected; nobody reads the answer."""
REFUSALS = (400, 401, 403, 404, 408, 409, 410, 413, 415, 422, 429, 503, 507)


def make_app(station: Station, tokens: Mapping[str, str]) -> ASGIApp:
    """The application of a station that is open."""
    app = FastAPI(
        title="Hyper-FSAD inspection station",
        version=__version__,
        openapi_url=f"{API_PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # the address would be made of the Host header that came
        responses={status: {"model": Problem} for status in REFUSALS},
    )
    app.state.station, app.state.readers = station, Readers()
    app.state.guard = Guard(tokens, station.users)
    for endpoints in (products, cameras, inspections, connections, shifts, users, system):
        app.include_router(endpoints.router, prefix=API_PREFIX)
    app.include_router(system.metrics_router)
    app.include_router(page.router)
    for kind, answer in {
        HyperfsadError: _refused,
        RequestValidationError: _invalid,
        HTTPException: _http_error,
        ClientDisconnect: _gone,
        DBAPIError: _away,
        NoConnectionError: _away,
        Exception: _failed,
    }.items():
        app.add_exception_handler(kind, answer)
    return Gatekeeper(app, app.state.guard, station)


async def _refused(_: Request, error: Any) -> Response:
    if is_full(error):
        error = FullError("disk-full")
    if isinstance(error, RefusedError):
        return refusal(error)
    return JSONResponse(problem(error), 503 if isinstance(error, EncoderError) else 422)


async def _invalid(_: Request, error: Any) -> Response:
    found: dict[str, Any] = error.errors()[0]
    place = ".".join(str(part) for part in found["loc"] if part not in ("body", "query", "path"))
    refused = UsageError("request-invalid", field=place or None, reason=found["msg"])
    return JSONResponse(problem(refused), 422)


async def _http_error(request: Request, error: Any) -> Response:
    if isinstance(error.__cause__, RefusedError):  # FastAPI's own, about a body that is ours
        return refusal(error.__cause__)
    refused = HyperfsadError("request-refused", reason=error.detail)
    headers = dict(error.headers or {})
    if error.status_code == 404:
        refused = HyperfsadError("address-unknown")
    elif error.status_code == 405:  # Starlette names the methods of one of several routes only
        refused = HyperfsadError("method-unknown")
        headers = {"allow": ", ".join(sorted(_methods(request)))}
    return JSONResponse(problem(refused), error.status_code, headers)


def _methods(request: Request) -> set[str]:
    paths: dict[str, dict[str, Any]] = request.app.openapi()["paths"]
    here = request.scope["path"]
    same = [methods for path, methods in paths.items() if compile_path(path)[0].match(here)]
    same = [paths[here]] if here in paths else same  # such as /products/upload, which is not an id
    return {method.upper() for methods in same for method in methods}


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=CLIENT_GONE)


async def _away(request: Request, error: Exception) -> Response:
    """The database is away, or too many want the same: what was not committed is not done."""
    broken = isinstance(error, OperationalError | InterfaceError | NoConnectionError)
    if is_full(error) or not broken:
        return await _failed(request, error)
    traced = {"request": request.state.actor.request}
    LOG.error("the database did not answer: %s", first_line(error), extra=traced)
    return refusal(BusyError("database-away", retry_after=5))


async def _failed(request: Request, error: Exception) -> Response:
    if is_full(error):
        return refusal(FullError("disk-full"))
    traced = {"request": request.state.actor.request}
    LOG.error("a request failed", exc_info=error, extra=traced)
    return JSONResponse(problem(HyperfsadError("request-failed", **traced)), 500)
