"""Verdicts as they come: server-sent events; and the folders that are watched."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from ..schemas import WatchedFolderOut
from ..station import Station
from ..store.history import Filter, HistoryRow, following, newest
from ..store.models import now
from .context import Here, Inspector, answers, content

router = APIRouter(tags=["live"], responses=answers())

HEARTBEAT = 15.0
"""Seconds after which a sign of life is sent, so that no proxy closes the connection."""
SHARED_DELAY = 2.0
"""Seconds that verdicts wait where several stations share a database: one that began earlier may be
committed later, and must not be passed over."""
MAX_STREAM = 3600.0
"""Seconds after which a reader has to ask again, with rights that are still good."""
EVENTS_AT_ONCE = 100


@router.get(
    "/live",
    response_class=StreamingResponse,
    responses=content("text/event-stream", "Events without end."),
)
async def live(
    station: Here,
    _: Inspector,
    product: Annotated[str | None, Query(pattern="^[0-9a-f]{32}$")] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=200, description="Go on after this event.")
    ] = None,
) -> StreamingResponse:
    """Every verdict as it comes, as server-sent events: `event: verdict`, `data` as the rows of the
    history. A reader that sends the id of its last event gets all that it has missed."""
    station.live.check_room()
    cursor = last_event_id if last_event_id else await run_in_threadpool(_newest, station)
    await run_in_threadpool(_read, station, product, cursor)  # refuses a wrong id
    headers = {"x-accel-buffering": "no"}
    events = _events(station, product, cursor)
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def _events(station: Station, product: str | None, cursor: str) -> AsyncIterator[str]:
    loop, wake = asyncio.get_running_loop(), asyncio.Event()
    end, sent = time.monotonic() + MAX_STREAM, time.monotonic()
    # an event of its own, so that a reader knows where to go on before the first verdict
    yield f"retry: 1000\nevent: start\nid: {cursor}\ndata: {{}}\n\n"
    with station.live.following(lambda: loop.call_soon_threadsafe(wake.set)):
        while not station.live.closed and time.monotonic() < end:
            wake.clear()
            found = await run_in_threadpool(_read, station, product, cursor)
            for cursor, row in found:
                yield f"event: verdict\nid: {cursor}\ndata: {json.dumps(row)}\n\n"
            if len(found) == EVENTS_AT_ONCE:
                continue
            patience = HEARTBEAT if station.store.database.is_embedded else SHARED_DELAY
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(wake.wait(), patience)
            if found:
                sent = time.monotonic()
            elif time.monotonic() - sent >= HEARTBEAT:
                sent = time.monotonic()
                yield ": still here\n\n"


def _read(station: Station, product: str | None, cursor: str) -> list[tuple[str, HistoryRow]]:
    database = station.store.database
    before = None if database.is_embedded else now() - int(SHARED_DELAY * 1e6)
    with database.reading() as session:
        return following(session, Filter(product, until=before), cursor, EVENTS_AT_ONCE)


def _newest(station: Station) -> str:
    with station.store.database.reading() as session:
        return newest(session)


@router.get("/watches")
def watches(station: Here, _: Inspector) -> list[WatchedFolderOut]:
    """The folders that the station watches: for which products, and whether that works. Only who
    starts the station chooses them."""
    return [folder.state for folder in station.folders]
