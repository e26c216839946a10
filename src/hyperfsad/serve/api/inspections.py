"""Inspections: verdicts on uploads, the history, verdicts as they come, and labels."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import datetime, timezone
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, StreamingResponse

from ...errors import HyperfsadError, ImageError, UsageError
from ...messages import Notice
from ...results.result import AnomalyResult
from ..labels import BAD
from ..pictures import Picture, checked_picture
from ..refusals import ConflictError, ForbiddenError, TooLargeError, problem, station_text
from ..schemas import (
    HistoryPage,
    InspectedOut,
    InspectionOut,
    InspectionRow,
    Labelling,
    RejectedImage,
    WatchedFolderOut,
)
from ..settings import ADMIN
from ..station import Station
from ..store.history import Filter, as_csv, as_json_lines, following, newest, page, place
from .context import (
    JPEG,
    SIGNED_IN,
    Here,
    Id,
    Inspector,
    content,
    finished,
    form_of,
    in_engine,
    jpeg,
)
from .readers import LiveResponse, Readers
from .uploads import received

router = APIRouter(tags=["inspections"], dependencies=SIGNED_IN)

HEARTBEAT = 15.0
"""Seconds after which a sign of life is sent, so that no proxy closes the connection."""
OTHERS_CHECK = 2.0
"""Seconds between two looks for the verdicts of other stations with the same database."""
MAX_STREAM = 3600.0
"""Seconds after which a reader has to ask again, with rights that are still good."""
EVENTS_AT_ONCE = 100
LIVE_CHECK = 0.1
"""Seconds between two looks whether there is a new verdict."""


INSPECTED = form_of("images", fields={"type": "string", "description": "JSON, such as {}."})


@router.post("/products/{product_id}/inspections", status_code=201, openapi_extra=INSPECTED)
async def inspect(
    product_id: Id,
    request: Request,
    station: Here,
    idempotency_key: Annotated[
        str | None, Header(pattern="^[0-9a-f]{32}$", description="Of one image: its own id.")
    ] = None,
) -> InspectedOut:
    """Inspects one image or several. Those that are not a usable picture are named in `rejected`;
    if none is usable, the answer is 422. An image that is sent again with the same key is in the
    history once. `fields` is a JSON object with values of the product's own fields, for all images;
    what is not given is read from their names."""
    arrived = time.monotonic()
    station.engine.check_room()
    _, detector, revision = await run_in_threadpool(station.products.detector, product_id)
    limits = station.settings.limits
    most = min(limits.images, station.engine.max_queue)
    async with received(request, station, texts=("fields",), max_files=most) as form:
        if not form.uploads:
            raise UsageError("upload-missing", field="images")
        if idempotency_key is not None and len(form.uploads) > 1:
            raise UsageError("key-with-several")
        sent = form.texts.get("fields", "")
        fields = await run_in_threadpool(station.products.given_values, product_id, sent)
        errors: list[tuple[str, HyperfsadError]] = []
        pictures: list[Picture] = []
        with station.engine.reserved(len(form.uploads)) as enter:
            for upload in form.uploads:
                try:
                    pictures.append(await run_in_threadpool(checked_picture, upload, limits))
                except (ImageError, TooLargeError) as error:
                    errors.append((upload.name, error))
            waiting = enter(detector, pictures)
        judged: list[tuple[Picture, AnomalyResult]] = []
        results = await finished(request, waiting)
        for picture, result in zip(pictures, results, strict=True):
            if isinstance(result, ImageError):
                errors.append((picture.name, result))
            elif isinstance(result, BaseException):
                said = station_text(Notice("picture-unjudged"))
                failed = station.machines.failed
                await run_in_threadpool(failed, product_id, picture.name, said, arrived)
                raise result
            elif result.error is not None:
                errors.append((picture.name, ImageError("images-unusable", reason=result.error)))
            else:
                judged.append((picture, result))
        station.metrics.rejected.inc(len(errors))
        for name, wrong in errors:
            said = problem(wrong)["detail"]
            await run_in_threadpool(station.machines.failed, product_id, name, said, arrived)
        if not judged:
            raise ImageError(errors[0][1].code, **errors[0][1].facts)
        add = station.inspections.add
        keep = partial(add, arrived=arrived, fields=fields)
        added = await run_in_threadpool(keep, product_id, revision, judged, idempotency_key)
        if not added:
            known = await run_in_threadpool(station.inspections.get, idempotency_key or "")
            if (known.product_id, known.image) != (product_id, judged[0][0].upload.sha256):
                raise ConflictError("key-known")
            added = [known]
    rejected = [RejectedImage(name=name, error=problem(error)["detail"]) for name, error in errors]
    return InspectedOut(inspections=added, rejected=rejected)


ProductId = Annotated[str | None, Query(pattern="^[0-9a-f]{32}$")]
Since = Annotated[datetime | None, Query(description="From this time on.")]
Until = Annotated[datetime | None, Query(description="Before this time.")]


def wanted(
    product: ProductId = None,
    verdict: Literal["good", "anomalous", "unjudged"] | None = None,
    label: Literal["fine", "bad"] | None = None,
    since: Since = None,
    until: Until = None,
    min_level: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    max_level: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    value: Annotated[
        str | None, Query(max_length=100, description="With which a field's value begins.")
    ] = None,
    field: Annotated[str | None, Query(max_length=30, description="Which field it is.")] = None,
    defect: Annotated[str | None, Query(max_length=100, pattern="^[^\\x00]*$")] = None,
) -> Filter:
    """Which inspections; times without a zone are UTC."""
    times = microseconds(since), microseconds(until)
    return Filter(product, verdict, label, *times, min_level, max_level, value, field, defect)


Wanted = Annotated[Filter, Depends(wanted)]


def microseconds(time: datetime | None) -> int | None:
    """A time as the store has it."""
    if time is None:
        return None
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
    try:
        return int(zoned.timestamp() * 1e6)
    except (OverflowError, ValueError):
        raise UsageError("time-range", given=time.isoformat()) from None


@router.get("/inspections")
def history(
    station: Here,
    wanted: Wanted,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> HistoryPage:
    """The history, the latest first. Pages stay stable while inspections arrive."""
    with station.store.database.reading() as session:
        rows, following = page(session, wanted, cursor, limit)
    return HistoryPage(inspections=rows, next=following)


@router.get("/exports/inspections.csv", **content("text/csv", "The table."))
def export(station: Here, wanted: Wanted) -> Response:
    """The history as a table; text that a spreadsheet would run is guarded by an apostrophe."""
    rows = as_csv(station.store.database, wanted)
    headers = {"content-disposition": 'attachment; filename="inspections.csv"'}
    return StreamingResponse(rows, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/exports/inspections.jsonl", **content("application/x-ndjson", "The rows."))
def export_json(station: Here, wanted: Wanted) -> Response:
    """The history as JSON, one inspection a row, as the history shows it."""
    rows = as_json_lines(station.store.database, wanted)
    headers = {"content-disposition": 'attachment; filename="inspections.jsonl"'}
    return StreamingResponse(rows, media_type="application/x-ndjson", headers=headers)


@router.get("/live", tags=["live"], **content("text/event-stream", "Events without end."))
async def live(
    station: Here,
    request: Request,
    actor: Inspector,
    product: ProductId = None,
    last_event_id: Annotated[
        str | None, Header(max_length=200, description="Go on after this event.")
    ] = None,
) -> Response:
    """Every verdict as it comes, as server-sent events: `event: verdict`, `data` as the rows of the
    history. A reader that sends the id of its last event gets all that it has missed."""
    readers: Readers = request.app.state.readers
    readers.enter(actor.role, actor.client)
    try:
        latest = await run_in_threadpool(newest, station.store.database)
        # a copy of the store that was put back may not have got so far
        last = min(place(last_event_id), latest) if last_event_id else latest
    except BaseException:
        readers.leave(actor.role, actor.client)
        raise
    return LiveResponse(_events(station, product, last), readers, actor.role, actor.client)


async def _events(station: Station, product: str | None, last: int) -> AsyncIterator[str]:
    """Nothing waits in memory, so a slow reader costs nothing, and one that was away reads on."""
    end, sent = time.monotonic() + MAX_STREAM, time.monotonic()
    patience = HEARTBEAT if station.store.database.is_embedded else OTHERS_CHECK
    # an event of its own, so that a reader knows where to go on before the first verdict
    yield f"retry: 1000\nevent: start\nid: {last}\ndata: {{}}\n\n"
    while not station.ending.is_set() and time.monotonic() < end:
        count, began = station.inspections.count, time.monotonic()
        found = await run_in_threadpool(_read, station, product, last)
        for last, row in found:
            yield f"event: verdict\nid: {last}\ndata: {row.model_dump_json()}\n\n"
        if found:
            sent = time.monotonic()
        elif time.monotonic() - sent >= HEARTBEAT:
            sent = time.monotonic()
            yield ": still here\n\n"
        while (
            len(found) < EVENTS_AT_ONCE
            and station.inspections.count == count
            and not station.ending.is_set()
            and time.monotonic() - began < patience
        ):
            await asyncio.sleep(LIVE_CHECK)


def _read(station: Station, product: str | None, last: int) -> list[tuple[int, InspectionRow]]:
    with station.store.database.reading() as session:
        return following(session, Filter(product), last, EVENTS_AT_ONCE)


@router.get("/watches", tags=["live"])
def watches(station: Here) -> list[WatchedFolderOut]:
    """The folders that the station watches: for which products, and whether that works. Only who
    starts the station chooses them."""
    return [folder.state for folder in station.folders]


@router.get("/inspections/{inspection_id}")
def get_inspection(inspection_id: Id, station: Here) -> InspectionOut:
    """One inspection."""
    return station.inspections.get(inspection_id)


@router.get(
    "/inspections/{inspection_id}/original", **content("image/*", "The file as it was uploaded.")
)
def original(inspection_id: Id, station: Here) -> Response:
    """The image as it was uploaded."""
    path, kind = station.inspections.original(inspection_id)
    return FileResponse(path, media_type=kind)


@router.get("/inspections/{inspection_id}/thumbnail", **JPEG)
def thumbnail(inspection_id: Id, station: Here) -> Response:
    """A small picture of the image; always kept."""
    return jpeg(station.inspections.detail(inspection_id).thumbnail)


@router.get("/inspections/{inspection_id}/picture", **JPEG)
def picture(inspection_id: Id, station: Here) -> Response:
    """The image as a JPEG, large ones made smaller; the thumbnail where the original is gone."""
    return jpeg(station.inspections.picture(inspection_id))


@router.get("/inspections/{inspection_id}/heatmap", **content("image/png", "The map."))
def heat_map(inspection_id: Id, station: Here) -> Response:
    """The map alone, with transparency, to be stretched over the image."""
    return Response(station.inspections.heat_map(inspection_id), media_type="image/png")


@router.get("/inspections/{inspection_id}/overlay", **JPEG)
def overlay(inspection_id: Id, station: Here) -> Response:
    """The heat map over the image, with contours and a legend."""
    return jpeg(station.inspections.overlay(inspection_id))


Pixel = Annotated[
    float | None,
    Query(ge=0, le=1e6, allow_inf_nan=False, description="In pixels; default: the map's peak."),
]


@router.get("/inspections/{inspection_id}/evidence")
async def evidence(
    inspection_id: Id, request: Request, station: Here, x: Pixel = None, y: Pixel = None
) -> dict[str, Any]:
    """Why the map has its value at a place: the normal patches that rebuilt it. The product's
    detector answers as it is now."""
    found = await in_engine(request, station.inspections.evidence, inspection_id, x, y)
    return dict(found.to_dict())


@router.get("/inspections/{inspection_id}/evidence.jpg", **JPEG)
async def evidence_picture(
    inspection_id: Id, request: Request, station: Here, x: Pixel = None, y: Pixel = None
) -> Response:
    """The evidence at a place as a picture."""
    draw = station.inspections.evidence_picture
    return jpeg(await in_engine(request, draw, inspection_id, x, y))


@router.put("/inspections/{inspection_id}/label", tags=["labels"])
async def label(
    inspection_id: Id, labelling: Labelling, request: Request, station: Here, actor: Inspector
) -> InspectionOut:
    """Says what the part really is. `fine` teaches it to the product, which needs the role admin,
    unless `learn` is false; `bad` keeps it as a defect for the evaluation. With `defect` the
    product names parts like it from then on, which changes no verdict; a part that is bad already
    gets the name, or another one. A part that was
    anomalous or looks like another product is taught only with `confirm`: without it, the answer is
    409, and its facts tell both thresholds and how many of the latest verdicts would change."""
    labels = station.labels
    if labelling.kind == BAD:
        defect = " ".join((labelling.defect or "").split())
        if not defect:
            return await run_in_threadpool(labels.bad, actor, inspection_id)
        return await in_engine(request, labels.name, actor, inspection_id, defect, labelling.at)
    if labelling.defect is not None or labelling.at is not None:
        raise UsageError("fine-with-defect")
    if labelling.learn and actor.role != ADMIN:
        raise ForbiddenError("teaching-needs-admin")
    teaching = {"learn": labelling.learn, "confirm": labelling.confirm}
    return await in_engine(request, labels.fine, actor, inspection_id, **teaching)


@router.delete("/inspections/{inspection_id}/label", tags=["labels"])
async def undo(
    inspection_id: Id, request: Request, station: Here, actor: Inspector
) -> InspectionOut:
    """Takes the label back; what the product has learnt because of it is forgotten."""
    return await in_engine(request, station.labels.undo, actor, inspection_id)
