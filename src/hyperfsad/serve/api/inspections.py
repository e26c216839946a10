"""Inspections: verdicts on uploads, the history, and labels."""

from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, StreamingResponse

from ...errors import HyperfsadError, ImageError, UsageError
from ...results.result import AnomalyResult
from ...wording import visible
from ..labels import BAD
from ..pictures import Picture, checked_picture
from ..refusals import ForbiddenError, TooLargeError, problem
from ..schemas import (
    HistoryPage,
    InspectedOut,
    InspectionOut,
    InspectionRow,
    Labelling,
    RejectedImage,
)
from ..settings import ADMIN
from ..store.history import Filter, as_csv, as_parquet, page
from .context import (
    JPEG,
    UPLOADING,
    Here,
    Id,
    Inspector,
    answers,
    content,
    finished,
    form_of,
    in_engine,
    jpeg,
)
from .uploads import received

router = APIRouter(tags=["inspections"], responses=answers(404))
PARQUET = "application/vnd.apache.parquet"


@router.post(
    "/products/{product_id}/inspections",
    status_code=201,
    responses=answers(*UPLOADING),
    openapi_extra=form_of("images"),
)
async def inspect(product_id: Id, request: Request, station: Here, _: Inspector) -> InspectedOut:
    """Inspects one image or several. Those that are not a usable picture are named in `rejected`;
    if none is usable, the answer is 422."""
    station.engine.check_room()
    _name, detector, revision = await run_in_threadpool(station.products.detector, product_id)
    limits = station.settings.limits
    most = min(limits.images, station.engine.max_queue)
    async with received(request, station, max_files=most) as form:
        if not form.uploads:
            raise UsageError("upload-missing", field="images")
        errors: list[tuple[str, HyperfsadError | str]] = []
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
            if isinstance(result, AnomalyResult) and result.error is None:
                judged.append((picture, result))
            elif isinstance(result, AnomalyResult | ImageError):
                told = result.error if isinstance(result, AnomalyResult) else result
                errors.append((picture.name, told or ""))
            else:
                raise result
        request.app.state.metrics.rejected.inc(len(errors))
        if not judged:
            first = errors[0][1]
            if isinstance(first, HyperfsadError):
                raise ImageError(first.code, **first.facts)
            raise ImageError("images-unusable", reason=first)
        added = await run_in_threadpool(station.inspections.add, product_id, revision, judged)
    rejected = [RejectedImage(name=name, error=_told(error)) for name, error in errors]
    return InspectedOut(inspections=added, rejected=rejected)


def _told(error: HyperfsadError | str) -> str:
    return error if isinstance(error, str) else str(problem(error)["detail"])


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
    times = microseconds(since), microseconds(until)
    return Filter(product, verdict, label, *times, min_score, max_score)


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
    _: Inspector,
    wanted: Wanted,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> HistoryPage:
    """The history, the latest first. Pages stay stable while inspections arrive."""
    with station.store.database.reading() as session:
        rows, following = page(session, wanted, cursor, limit)
    return HistoryPage(inspections=[InspectionRow(**row) for row in rows], next=following)


@router.get(
    "/exports/inspections.csv",
    response_class=StreamingResponse,
    responses=content("text/csv", "The table."),
)
def export(station: Here, _: Inspector, wanted: Wanted) -> StreamingResponse:
    """The history as a table; text that a spreadsheet would run is guarded by an apostrophe."""
    rows = as_csv(station.store.database, wanted)
    return _download(rows, "inspections.csv", "text/csv; charset=utf-8")


@router.get(
    "/exports/inspections.parquet",
    response_class=StreamingResponse,
    responses=content(PARQUET, "The table."),
)
def export_parquet(station: Here, _: Inspector, wanted: Wanted) -> StreamingResponse:
    """The history as Parquet, with types."""
    return _download(as_parquet(station.store.database, wanted), "inspections.parquet", PARQUET)


def _download(rows: Any, name: str, kind: str) -> StreamingResponse:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(rows, media_type=kind, headers=headers)


@router.get("/inspections/{inspection_id}")
def get_inspection(inspection_id: Id, station: Here, _: Inspector) -> InspectionOut:
    """One inspection."""
    return station.inspections.get(inspection_id)


@router.get(
    "/inspections/{inspection_id}/original",
    response_class=FileResponse,
    responses=answers(410) | content("image/*", "The file as it was uploaded."),
)
def original(inspection_id: Id, station: Here, _: Inspector) -> FileResponse:
    """The image as it was uploaded."""
    path, kind = station.inspections.original(inspection_id)
    return FileResponse(path, media_type=kind)


@router.get("/inspections/{inspection_id}/thumbnail", response_class=Response, responses=JPEG)
def thumbnail(inspection_id: Id, station: Here, _: Inspector) -> Response:
    """A small picture of the image; always kept."""
    return jpeg(station.inspections.thumbnail(inspection_id))


@router.get("/inspections/{inspection_id}/picture", response_class=Response, responses=JPEG)
def picture(inspection_id: Id, station: Here, _: Inspector) -> Response:
    """The image as a JPEG, large ones made smaller; the thumbnail where the original is gone."""
    return jpeg(station.inspections.picture(inspection_id))


@router.get(
    "/inspections/{inspection_id}/heatmap",
    response_class=Response,
    responses=content("image/png", "The map."),
)
def heat_map(inspection_id: Id, station: Here, _: Inspector) -> Response:
    """The map alone, with transparency, to be stretched over the image."""
    return Response(station.inspections.heat_map(inspection_id), media_type="image/png")


@router.get("/inspections/{inspection_id}/overlay", response_class=Response, responses=JPEG)
def overlay(inspection_id: Id, station: Here, _: Inspector) -> Response:
    """The heat map over the image, with contours and a legend."""
    return jpeg(station.inspections.overlay(inspection_id))


Pixel = Annotated[
    float | None,
    Query(ge=0, le=1e6, allow_inf_nan=False, description="In pixels; default: the map's peak."),
]


def place(x: Pixel = None, y: Pixel = None) -> tuple[float | None, float | None]:
    """A place in the image."""
    return x, y


Place = Annotated[tuple[float | None, float | None], Depends(place)]


@router.get("/inspections/{inspection_id}/evidence", responses=answers(410))
async def evidence(
    inspection_id: Id, request: Request, station: Here, _: Inspector, place: Place
) -> dict[str, Any]:
    """Why the map has its value at a place: the normal patches that rebuilt it. The product's
    detector answers as it is now."""
    return await in_engine(request, station.inspections.evidence, inspection_id, *place)


@router.get(
    "/inspections/{inspection_id}/evidence.jpg",
    response_class=Response,
    responses=answers(410) | JPEG,
)
async def evidence_picture(
    inspection_id: Id, request: Request, station: Here, _: Inspector, place: Place
) -> Response:
    """The evidence at a place as a picture."""
    draw = station.inspections.evidence_picture
    return jpeg(await in_engine(request, draw, inspection_id, *place))


@router.put("/inspections/{inspection_id}/label", tags=["labels"], responses=answers(409, 410))
async def label(
    inspection_id: Id, labelling: Labelling, request: Request, station: Here, actor: Inspector
) -> InspectionOut:
    """Says what the part really is. `fine` teaches it to the product, which needs the role admin,
    unless `learn` is false; `bad` keeps it as a defect for the evaluation."""
    labels = station.labels
    if labelling.kind == BAD:
        defect = visible(" ".join((labelling.defect or "").split())) or None
        return await run_in_threadpool(labels.bad, actor, inspection_id, defect)
    if labelling.defect is not None:
        raise UsageError("fine-with-defect")
    if labelling.learn and actor.role != ADMIN:
        raise ForbiddenError("teaching-needs-admin")
    return await in_engine(request, labels.fine, actor, inspection_id, labelling.learn)


@router.delete("/inspections/{inspection_id}/label", tags=["labels"], responses=answers(409, 410))
async def undo(
    inspection_id: Id, request: Request, station: Here, actor: Inspector
) -> InspectionOut:
    """Takes the label back; what the product has learnt because of it is forgotten."""
    known = await run_in_threadpool(station.inspections.get, inspection_id)
    if known.learnt and actor.role != ADMIN:
        raise ForbiddenError("forgetting-needs-admin")
    return await in_engine(request, station.labels.undo, actor, inspection_id)
