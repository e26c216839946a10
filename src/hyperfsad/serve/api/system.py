"""Whether the station works, who asks, and what was changed."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from sqlalchemy import select, text
from sqlalchemy.exc import SQLAlchemyError

from ...errors import UsageError
from ...messages import Notice
from ...version import __version__
from ..monitoring import LOG
from ..refusals import RefusedError, is_full, station_text
from ..schemas import AuditPage, AuditRow, Readiness, SessionOut, SigningIn
from ..settings import ADMIN
from ..store import audit as auditing
from ..store.audit import Actor
from ..store.models import AuditEntry
from .context import SIGNED_IN, Admin, Here, content
from .guard import SESSION_COOKIE, SESSION_SECONDS, Guard

router = APIRouter(tags=["system"])
metrics_router = APIRouter(tags=["system"], dependencies=SIGNED_IN)


@router.get("/health")
async def health() -> dict[str, str]:
    """Whether the process answers; for the program that restarts it. It waits for no
    other request."""
    return {"status": "ok", "version": __version__}


@router.get(
    "/ready",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Not now; `problem` says why."}},
)
def ready(request: Request, station: Here) -> JSONResponse:
    """Whether images can be inspected now; for the programs that send them. Only the role admin
    is told what is wrong."""
    problem = station.engine.problem
    database = disk = True
    try:
        with station.store.database.reading() as session:
            session.execute(text("SELECT 1"))
        station.store.database.check()
    except SQLAlchemyError:
        database, problem = False, station_text(Notice("database-silent"))
    except RefusedError as error:
        database, problem = False, station_text(error)
    try:
        station.store.files.check_space()
    except RefusedError as error:
        disk, problem = False, station_text(error)
    encoder = station.engine.ready and station.engine.problem is None
    if not station.engine.ready:
        problem = station_text(Notice("encoder-loading"))
    whole = encoder and database and disk
    if problem is not None and request.state.actor.role != ADMIN and station.engine.ready:
        problem = station_text(Notice("station-not-ready"))
    parts = {"encoder": encoder, "database": database, "disk": disk}
    found = Readiness(ready=whole, **parts, retention=station.store.retains, problem=problem)
    return JSONResponse(found.model_dump(), status_code=200 if whole else 503)


@router.get("/session")
def session(request: Request) -> SessionOut:
    """The role of the client, and its name where it signed in with one; empty for a stranger."""
    actor, guard = request.state.actor, request.app.state.guard
    return _session(guard, actor.role, actor.user)


def _session(guard: Guard, role: Any, user: str = "") -> SessionOut:
    return SessionOut(role=role, user=user, open=guard.is_open, users=guard.has_users)


@router.post("/login")
def log_in(sent: SigningIn, request: Request, station: Here, response: Response) -> SessionOut:
    """Signs a browser in with a token, or with a name and a PIN; the answer sets a cookie."""
    client: Actor = request.state.actor
    guard: Guard = request.app.state.guard
    if guard.is_open:
        return _session(guard, ADMIN)
    if (sent.token is None) == (sent.name is None) or (sent.name is None) != (sent.pin is None):
        raise UsageError("sign-in-incomplete")
    user = None
    if sent.token is not None:
        role = guard.known(sent.token, client.client)
    else:
        user = guard.named(sent.name or "", sent.pin or "", client)
        role = user.role
    # a client that lies about TLS only keeps its own cookie off plain HTTP
    proxied = request.headers.get("x-forwarded-proto", "").strip().lower() == "https"
    response.set_cookie(
        SESSION_COOKIE,
        guard.begin(role, client.client, user),
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="strict",
        secure=station.settings.secure or proxied,
    )
    if user is not None:
        return _session(guard, role, user.name)
    try:
        with station.store.database.writing() as writing:
            auditing.audit(writing, replace(client, role=role), "signed in", role)
    except SQLAlchemyError as error:
        if not is_full(error):
            raise
        LOG.warning("no space to note that %s signed in", role)  # who else would make some?
    return _session(guard, role)


@router.post("/logout", status_code=204)
def log_out(request: Request) -> Response:
    """Ends the session of a browser."""
    request.app.state.guard.end(request.state.cookie or "")
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE)
    return response


@router.get("/audit")
def audit(
    station: Here,
    _: Admin,
    before: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> AuditPage:
    """Every change with who made it and when, the latest first."""
    query = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit + 1)
    if before is not None:
        query = query.where(AuditEntry.id < before)
    with station.store.database.reading() as reading:
        found = list(map(AuditRow.model_validate, reading.scalars(query)))
    entries = found[:limit]
    return AuditPage(entries=entries, next=entries[-1].id if len(found) > limit else None)


@metrics_router.get("/metrics", **content("text/plain", "Figures."))
def metrics(station: Here) -> Response:
    """Figures for Prometheus."""
    return Response(generate_latest(station.metrics.registry), media_type=CONTENT_TYPE_LATEST)
