"""Inspections: verdicts on uploads, and the history."""

from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, StreamingResponse

from ...errors import ImageError, UsageError
from ...results.result import AnomalyResult
from ..pictures import Picture, Upload, try_picture
from ..store.history import Filter, exported, page
from ..store.parquet import parquet
from .context import UPLOADING, Here, Id, Inspector, answers, called, finished, form_of
from .schemas import Evidence, HistoryPage, Inspected, InspectionOut, Rejected, Row
from .uploads import received

router = APIRouter(tags=["inspections"])

JPEG: dict[int | str, Any] = {200: {"content": {"image/jpeg": {}}, "description": "The picture."}}
PNG: dict[int | str, Any] = {200: {"content": {"image/png": {}}, "description": "The picture."}}


@router.post(
    "/products/{product_id}/inspections",
    status_code=201,
    responses=answers(*UPLOADING),
    openapi_extra=form_of(),
)
async def inspect(product_id: Id, request: Request, here: Here, _: Inspector) -> Inspected:
    """Judges one image or several. Those that are no usable picture are named in `rejected`; if
    none is usable, the answer is 422."""
    station = here.station
    station.engine.check_room()
    _name, detector, revision = await run_in_threadpool(station.products.detector, product_id)
    limits = station.settings.limits
    most = min(limits.images, station.engine.max_queue)
    async with received(request, station.store.files, limits, most=most) as form:
        if not form.uploads:
            raise UsageError("Send at least one picture in the field images.")
        with station.engine.reserved(len(form.uploads)) as places:
            checked = [
                (upload, await run_in_threadpool(try_picture, upload, limits))
                for upload in form.uploads
            ]
            pictures = [picture for _, picture in checked if isinstance(picture, Picture)]
            waiting = places.inspect(detector, pictures)
        rejected = [_rejected(upload, told) for upload, told in checked if isinstance(told, str)]
        results = await finished(request, waiting)
        judged: list[tuple[Picture, AnomalyResult]] = []
        for picture, result in zip(pictures, results, strict=True):
            if isinstance(result, AnomalyResult) and result.error is None:
                judged.append((picture, result))
            elif isinstance(result, AnomalyResult | ImageError):
                told = str(result.error if isinstance(result, AnomalyResult) else result)
                rejected.append(_rejected(picture.upload, told))
            else:
                raise result
        here.metrics.rejected.inc(len(rejected))
        if not judged:
            raise ImageError(rejected[0].error)
        kept = await run_in_threadpool(station.inspections.add, product_id, revision, judged)
    return Inspected(inspections=[InspectionOut(**one) for one in kept], rejected=rejected)


def _rejected(upload: Upload, error: str) -> Rejected:
    return Rejected(name=upload.name, error=error)


Since = Annotated[datetime | None, Query(description="From this time on.")]
Until = Annotated[datetime | None, Query(description="Before this time.")]


def wanted(
    product: Annotated[str | None, Query(pattern="^[0-9a-f]{32}$")] = None,
    verdict: Literal["good", "anomalous", "unjudged"] | None = None,
    label: Literal["fine", "bad"] | None = None,
    since: Since = None,
    until: Until = None,
    min_score: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    max_score: Annotated[float | None, Query(allow_inf_nan=False)] = None,
) -> Filter:
    """Which inspections; times without a zone are UTC."""
    return Filter(product, verdict, label, micro(since), micro(until), min_score, max_score)


Wanted = Annotated[Filter, Depends(wanted)]


def micro(time: datetime | None) -> int | None:
    """A time as the store has it."""
    if time is None:
        return None
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
    try:
        return int(zoned.timestamp() * 1e6)
    except (OverflowError, ValueError):
        raise UsageError(f"The time {time.isoformat()} is out of range.") from None


@router.get("/inspections", responses=answers())
def history(
    here: Here,
    _: Inspector,
    wanted: Wanted,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> HistoryPage:
    """The history, the latest first. Pages stay stable while inspections arrive."""
    with here.station.store.database.reading() as session:
        rows, following = page(session, wanted, cursor, limit)
    return HistoryPage(inspections=[Row(**row) for row in rows], next=following)


@router.get(
    "/exports/inspections.csv",
    response_class=StreamingResponse,
    responses={**answers(), 200: {"content": {"text/csv": {}}, "description": "The table."}},
)
def export(here: Here, _: Inspector, wanted: Wanted) -> StreamingResponse:
    """The history as a table; text that a spreadsheet would run is guarded by an apostrophe."""
    headers = {"content-disposition": 'attachment; filename="inspections.csv"'}
    rows = exported(here.station.store.database, wanted)
    return StreamingResponse(rows, media_type="text/csv; charset=utf-8", headers=headers)


@router.get(
    "/exports/inspections.parquet",
    response_class=StreamingResponse,
    responses={
        **answers(),
        200: {"content": {"application/vnd.apache.parquet": {}}, "description": "The table."},
    },
)
def export_parquet(here: Here, _: Inspector, wanted: Wanted) -> StreamingResponse:
    """The history as Parquet, with types."""
    headers = {"content-disposition": 'attachment; filename="inspections.parquet"'}
    rows = parquet(here.station.store.database, wanted)
    return StreamingResponse(rows, media_type="application/vnd.apache.parquet", headers=headers)


@router.get("/inspections/{inspection_id}", responses=answers(404))
def get_inspection(inspection_id: Id, here: Here, _: Inspector) -> InspectionOut:
    """One inspection."""
    return InspectionOut(**here.station.inspections.get(inspection_id))


@router.get(
    "/inspections/{inspection_id}/original",
    response_class=FileResponse,
    responses={
        **answers(404, 410),
        200: {"content": {"image/*": {}}, "description": "The file as it was uploaded."},
    },
)
def original(inspection_id: Id, here: Here, _: Inspector) -> FileResponse:
    """The image as it was uploaded."""
    path, kind = here.station.inspections.original(inspection_id)
    return FileResponse(path, media_type=kind)


@router.get(
    "/inspections/{inspection_id}/thumbnail",
    response_class=Response,
    responses={**answers(404), **JPEG},
)
def thumbnail(inspection_id: Id, here: Here, _: Inspector) -> Response:
    """A small picture of the image; always kept."""
    return Response(here.station.inspections.thumbnail(inspection_id), media_type="image/jpeg")


@router.get(
    "/inspections/{inspection_id}/picture",
    response_class=Response,
    responses={**answers(404), **JPEG},
)
def picture(inspection_id: Id, here: Here, _: Inspector) -> Response:
    """The image as a JPEG, large ones made smaller; the thumbnail where the original is gone."""
    return Response(here.station.inspections.picture(inspection_id), media_type="image/jpeg")


@router.get(
    "/inspections/{inspection_id}/heatmap",
    response_class=Response,
    responses={**answers(404), **PNG},
)
def heat_map(inspection_id: Id, here: Here, _: Inspector) -> Response:
    """The map alone, with transparency, to be stretched over the image."""
    return Response(here.station.inspections.heat_map(inspection_id), media_type="image/png")


@router.get(
    "/inspections/{inspection_id}/overlay",
    response_class=Response,
    responses={**answers(404), **JPEG},
)
def overlay(inspection_id: Id, here: Here, _: Inspector) -> Response:
    """The heat map over the image, with contours and a legend."""
    return Response(here.station.inspections.overlay(inspection_id), media_type="image/jpeg")


Where = Annotated[
    float | None,
    Query(ge=0, le=1e6, allow_inf_nan=False, description="In pixels; default: the map's peak."),
]


@router.get("/inspections/{inspection_id}/evidence", responses=answers(404, 410))
async def evidence(
    inspection_id: Id, request: Request, here: Here, _: Inspector, x: Where = None, y: Where = None
) -> Evidence:
    """Why the map has its value at a place: the normal patches that rebuilt it. The product's
    detector answers as it is now."""
    found = here.station.inspections.evidence
    return await called(request, here, lambda detectors: found(detectors, inspection_id, x, y))


@router.get(
    "/inspections/{inspection_id}/evidence.jpg",
    response_class=Response,
    responses={**answers(404, 410), **JPEG},
)
async def evidence_picture(
    inspection_id: Id, request: Request, here: Here, _: Inspector, x: Where = None, y: Where = None
) -> Response:
    """The evidence at a place as a picture."""
    draw = here.station.inspections.evidence_picture
    drawn = await called(request, here, lambda detectors: draw(detectors, inspection_id, x, y))
    return Response(drawn, media_type="image/jpeg")
