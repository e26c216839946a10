"""Whether the station works, who asks, and what was changed."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy import select, text
from sqlalchemy.exc import SQLAlchemyError

from ...messages import Notice
from ...version import __version__
from ..refusals import RefusedError, station_text
from ..schemas import AuditPage, AuditRow, Health, LogIn, Readiness, SessionOut
from ..station import Station
from ..store import store as storing
from ..store.history import iso
from ..store.models import AuditEntry
from .context import Admin, Here, Inspector, answers, content
from .guard import SESSION_COOKIE, SESSION_SECONDS, Guard
from .monitoring import Metrics

router = APIRouter(tags=["system"])
metrics_router = APIRouter(tags=["system"], responses=answers())


@router.get("/health")
def health() -> Health:
    """Whether the process answers; for the program that restarts it."""
    return Health(status="ok", version=__version__)


@router.get(
    "/ready",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Not now; `problem` says why."}},
)
def ready(station: Here) -> JSONResponse:
    """Whether images can be inspected now; for the programs that send them."""
    found = _readiness(station)
    return JSONResponse(found.model_dump(), status_code=200 if found.ready else 503)


def _readiness(station: Station) -> Readiness:
    problem = station.engine.problem
    try:
        with station.store.database.reading() as session:
            session.execute(text("SELECT 1"))
        database = True
    except SQLAlchemyError:
        database, problem = False, station_text(Notice("database-silent"))
    try:
        station.store.files.check_space()
        disk = True
    except RefusedError as error:
        disk, problem = False, station_text(error)
    loaded = station.engine.ready and station.engine.problem is None
    if not station.engine.ready:
        problem = station_text(Notice("encoder-loading"))
    return Readiness(
        ready=loaded and database and disk,
        encoder=loaded,
        database=database,
        disk=disk,
        waiting=station.engine.waiting,
        problem=problem,
    )


@router.get("/session")
def session(request: Request) -> SessionOut:
    """The role of the client; empty for a stranger."""
    return SessionOut(role=request.state.actor.role, open=request.app.state.guard.is_open)


@router.post("/login", responses=answers())
def log_in(token: LogIn, request: Request, station: Here, response: Response) -> SessionOut:
    """Signs a browser in with a token; the answer sets a cookie."""
    client: Any = request.state.actor
    guard: Guard = request.app.state.guard
    if guard.is_open:
        return SessionOut(role="admin", open=True)
    role: Any = guard.known(token.token, client.client)
    response.set_cookie(
        SESSION_COOKIE,
        guard.begin(role),
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="strict",
        secure=station.settings.secure or _behind_tls(request),
    )
    with station.store.database.writing() as writing:
        storing.audit(writing, replace(client, role=role), "signed in", role)
    return SessionOut(role=role, open=False)


def _behind_tls(request: Request) -> bool:
    """Whether a proxy says so; a client that lies only keeps its own cookie off plain HTTP."""
    return request.headers.get("x-forwarded-proto", "").strip().lower() == "https"


@router.post("/logout", status_code=204, responses=answers())
def log_out(request: Request) -> Response:
    """Ends the session of a browser."""
    request.app.state.guard.end(request.state.cookie or "")
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE)
    return response


@router.get("/audit", responses=answers())
def audit(
    station: Here,
    _: Admin,
    before: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> AuditPage:
    """Every change with role and time, the latest first."""
    query = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit + 1)
    if before is not None:
        query = query.where(AuditEntry.id < before)
    with station.store.database.reading() as reading:
        found = list(reading.scalars(query))
    names = set(AuditRow.model_fields) - {"time"}
    entries = [
        AuditRow(time=iso(entry.time), **{name: getattr(entry, name) for name in names})
        for entry in found[:limit]
    ]
    return AuditPage(entries=entries, next=entries[-1].id if len(found) > limit else None)


@metrics_router.get(
    "/metrics", response_class=Response, responses=content("text/plain", "Figures.")
)
def metrics(request: Request, _: Inspector) -> Response:
    """Figures for Prometheus."""
    found: Metrics = request.app.state.metrics
    return Response(found.text(), media_type=found.content_type)
