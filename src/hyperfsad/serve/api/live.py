"""Verdicts as they come: server-sent events; and what is watched."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from ..store.history import Filter, Row, following, newest
from ..store.store import now
from .context import Context, Here, Inspector, answers
from .schemas import Watched

router = APIRouter(tags=["live"])

BEAT = 15.0
"""Seconds after which a sign of life is sent, so that nobody on the way cuts the line."""
LATE = 2.0
"""Seconds that verdicts wait where several stations share a database: one that began earlier may be
committed later, and must not be passed over."""
LONGEST = 3600.0
"""Seconds after which a reader has to ask again, with rights that are still good."""
AT_ONCE = 100


@router.get(
    "/live",
    response_class=StreamingResponse,
    responses={
        **answers(),
        200: {"content": {"text/event-stream": {}}, "description": "Events without end."},
    },
)
async def live(
    here: Here,
    _: Inspector,
    product: Annotated[str | None, Query(pattern="^[0-9a-f]{32}$")] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=200, description="Go on after this event.")
    ] = None,
) -> StreamingResponse:
    """Every verdict as it comes, as server-sent events: `event: verdict`, `data` as the rows of the
    history. A reader that sends the id of its last event gets all that it has missed."""
    here.station.live.check_room()
    cursor = last_event_id if last_event_id else await run_in_threadpool(_latest, here)
    await run_in_threadpool(_read, here, product, cursor)  # refuses a wrong id
    headers = {"x-accel-buffering": "no"}
    events = _events(here, product, cursor)
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def _events(here: Context, product: str | None, cursor: str) -> AsyncIterator[str]:
    loop, wake = asyncio.get_running_loop(), asyncio.Event()
    station, end, beat = here.station, time.monotonic() + LONGEST, time.monotonic()
    # an event of its own, so that a reader knows where to go on before the first verdict
    yield f"retry: 1000\nevent: start\nid: {cursor}\ndata: {{}}\n\n"
    with station.live.following(lambda: loop.call_soon_threadsafe(wake.set)):
        while not station.live.closed and time.monotonic() < end:
            wake.clear()
            found = await run_in_threadpool(_read, here, product, cursor)
            for cursor, row in found:
                yield f"event: verdict\nid: {cursor}\ndata: {json.dumps(row)}\n\n"
            if len(found) == AT_ONCE:
                continue
            patience = BEAT if station.store.database.is_embedded else LATE
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(wake.wait(), patience)
            if found:
                beat = time.monotonic()
            elif time.monotonic() - beat >= BEAT:
                beat = time.monotonic()
                yield ": still here\n\n"


def _read(here: Context, product: str | None, cursor: str) -> list[tuple[str, Row]]:
    database = here.station.store.database
    before = None if database.is_embedded else now() - int(LATE * 1e6)
    with database.reading() as session:
        return following(session, Filter(product=product, until=before), cursor, AT_ONCE)


def _latest(here: Context) -> str:
    with here.station.store.database.reading() as session:
        return newest(session)


@router.get("/watches", responses=answers())
def watches(here: Here, _: Inspector) -> list[Watched]:
    """The folders that the station watches: for which products, and whether that works. Only who
    starts the station chooses them."""
    return [Watched(**folder.state) for folder in here.station.folders]
