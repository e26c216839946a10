"""Whether the station works, who asks, and what was changed."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy import select, text
from sqlalchemy.exc import SQLAlchemyError

from ...version import __version__
from ..faults import RefusedError
from ..store.history import iso
from ..store.models import AuditEntry
from ..store.store import note
from .context import Admin, Context, Here, Inspector, answers
from .guard import COOKIE, SESSION
from .metrics import CONTENT_TYPE
from .schemas import AuditPage, AuditRow, Health, LogIn, Readiness, SessionOut

router = APIRouter(tags=["system"])
figures = APIRouter(tags=["system"])


@router.get("/health")
def health() -> Health:
    """Whether the process answers; for whoever restarts it."""
    return Health(status="ok", version=__version__)


@router.get(
    "/ready",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Not now; `problem` says why."}},
)
def ready(here: Here) -> JSONResponse:
    """Whether images can be inspected now; for whoever sends them."""
    found = _readiness(here)
    return JSONResponse(found.model_dump(), status_code=200 if found.ready else 503)


def _readiness(here: Context) -> Readiness:
    station = here.station
    problem = station.engine.problem
    try:
        with station.store.database.reading() as session:
            session.execute(text("SELECT 1"))
        database = True
    except SQLAlchemyError:
        database, problem = False, "The database does not answer."
    try:
        station.store.files.check_space()
        disk = True
    except RefusedError as error:
        disk, problem = False, str(error)
    loaded = station.engine.ready and station.engine.problem is None
    if not station.engine.ready:
        problem = "The encoder is being loaded."
    return Readiness(
        ready=loaded and database and disk,
        encoder=loaded,
        database=database,
        disk=disk,
        waiting=station.engine.waiting,
        problem=problem,
    )


@router.get("/session")
def session(request: Request, here: Here) -> SessionOut:
    """The role of who asks; empty for nobody."""
    return SessionOut(role=request.state.actor.role, open=here.guard.is_open)


@router.post("/login", responses=answers())
def log_in(token: LogIn, request: Request, here: Here, response: Response) -> SessionOut:
    """Signs a browser in with a token; the answer sets a cookie."""
    client: Any = request.state.actor
    if here.guard.is_open:
        return SessionOut(role="admin", open=True)
    role: Any = here.guard.known(token.token, client.client)
    response.set_cookie(
        COOKIE,
        here.guard.begin(role),
        max_age=int(SESSION),
        httponly=True,
        samesite="strict",
        secure=here.station.settings.secure or _behind_tls(request),
    )
    with here.station.store.database.writing() as writing:
        note(writing, replace(client, role=role), "signed in", role)
    return SessionOut(role=role, open=False)


def _behind_tls(request: Request) -> bool:
    """Whether a proxy says so; who lies about it only keeps the own cookie off plain HTTP."""
    return request.headers.get("x-forwarded-proto", "").strip().lower() == "https"


@router.post("/logout", status_code=204, responses=answers())
def log_out(request: Request, here: Here) -> Response:
    """Ends the session of a browser."""
    here.guard.end(request.state.cookie or "")
    response = Response(status_code=204)
    response.delete_cookie(COOKIE)
    return response


@router.get("/audit", responses=answers())
def audit(
    here: Here,
    _: Admin,
    before: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> AuditPage:
    """Every change with role and time, the latest first."""
    question = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit + 1)
    if before is not None:
        question = question.where(AuditEntry.id < before)
    with here.station.store.database.reading() as reading:
        found = list(reading.scalars(question))
    names = ("id", "role", "client", "request", "action", "subject", "detail")
    entries = [
        AuditRow(time=iso(entry.time), **{name: getattr(entry, name) for name in names})
        for entry in found[:limit]
    ]
    return AuditPage(entries=entries, next=entries[-1].id if len(found) > limit else None)


@figures.get(
    "/metrics",
    response_class=Response,
    responses={**answers(), 200: {"content": {"text/plain": {}}, "description": "Figures."}},
)
def metrics(here: Here, _: Inspector) -> Response:
    """Figures for Prometheus."""
    return Response(here.metrics.text(), media_type=CONTENT_TYPE)
