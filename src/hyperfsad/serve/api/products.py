"""Products: create, list, change, rename, delete, download and upload; their versions."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse

from ...decisions.thresholds import FALSE_ALARM_RATE
from ...errors import UsageError
from ..advice import coverage_advice, good_part_levels
from ..pictures import Picture, checked_picture
from ..products import product_name
from ..refusals import GoneError
from ..schemas import (
    CoverageOut,
    GoodPartLevels,
    GoodPartList,
    ProductChange,
    ProductOut,
    ProductSettings,
    ProposalOut,
    Tracing,
    TrendOut,
    TrialOut,
    TrialWanted,
    VersionList,
)
from ..station import Station
from ..trends import Step, product_trend
from .context import JPEG, SIGNED_IN, Admin, Here, Id, content, form_of, in_engine, jpeg
from .inspections import Since, Until, microseconds
from .uploads import Form, received

router = APIRouter(prefix="/products", tags=["products"], dependencies=SIGNED_IN)

NAME: dict[str, Any] = {"type": "string", "maxLength": 100}
RATE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": FALSE_ALARM_RATE}
THRESHOLD = {"type": "number", "exclusiveMinimum": 0}
Part = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="As the list names it.")]
Revision = Annotated[int, Path(ge=1, lt=2**31)]
Latest = Annotated[str | None, Body(embed=True, pattern="^[0-9a-f]{32}$")]


@router.get("")
def list_products(station: Here) -> list[ProductOut]:
    """All products, by name."""
    return station.products.all()


@router.post(
    "", status_code=201, openapi_extra=form_of("name", "images", name=NAME, false_alarm_rate=RATE)
)
async def create_product(request: Request, station: Here, actor: Admin) -> ProductOut:
    """A new product from pictures of one to four good parts, or more."""
    station.engine.check_room()
    async with received(request, station, texts=("name", "false_alarm_rate")) as form:
        name = product_name(form.texts.get("name", ""))
        rate = form.number("false_alarm_rate", FALSE_ALARM_RATE)
        pictures = await _pictures(station, form)
        return await in_engine(request, station.products.create, actor, name, pictures, rate)


@router.post(
    "/upload",
    status_code=201,
    openapi_extra=form_of("name", "detector", file="detector", several=False, name=NAME),
)
async def upload_product(request: Request, station: Here, actor: Admin) -> ProductOut:
    """A new product from a detector file (.hfsad); every part of the file is checked."""
    station.engine.check_room()
    limits: Any = {"max_files": 1, "max_bytes": station.settings.limits.detector_bytes}
    async with received(request, station, file="detector", texts=("name",), **limits) as form:
        name = product_name(form.texts.get("name", ""))
        if not form.uploads:
            raise UsageError("upload-missing", field="detector")
        return await in_engine(request, station.products.upload, actor, name, form.uploads[0])


@router.get("/{product_id}")
def get_product(product_id: Id, station: Here) -> ProductOut:
    """One product."""
    return station.products.get(product_id)


@router.patch("/{product_id}")
def change_product(
    product_id: Id, wanted: ProductChange, station: Here, actor: Admin
) -> ProductOut:
    """Gives a product another name, or says whether it adapts by itself after 12, 24 and 48
    parts."""
    name = None if wanted.name is None else product_name(wanted.name)
    found = station.products.change(actor, product_id, name, wanted.adapt_automatically)
    station.adapting.consider(product_id)
    return found


@router.put("/{product_id}/fields")
def set_fields(product_id: Id, wanted: Tracing, station: Here, actor: Admin) -> ProductOut:
    """Gives a product fields of one's own, such as serial and lot, and a pattern by which they are
    read from names of files, such as `{serial}_{lot}_*`."""
    return station.products.trace(actor, product_id, wanted)


@router.get("/{product_id}/proposal")
def proposal(product_id: Id, station: Here) -> ProposalOut:
    """How many unlabelled parts a product may learn from, and whether it is time to."""
    return station.adapting.state(product_id)


@router.post("/{product_id}/proposal")
async def propose(product_id: Id, request: Request, station: Here, actor: Admin) -> ProposalOut:
    """What would change if a product learnt from its latest parts, 12 or more: the threshold, which
    of them look bad, and which past verdicts would change. Nothing is changed yet."""
    return await in_engine(request, station.adapting.propose, actor, product_id)


@router.post("/{product_id}/adapt")
async def adapt_product(
    product_id: Id, request: Request, station: Here, actor: Admin, latest: Latest = None
) -> ProductOut:
    """Learns from the latest parts, 12 or more; that is a new version. With `latest`, from those
    that the proposal counted."""
    return await in_engine(request, station.adapting.adapt, actor, product_id, latest)


@router.post("/{product_id}/trial")
async def try_settings(
    product_id: Id, wanted: TrialWanted, request: Request, station: Here, _: Admin
) -> TrialOut:
    """What other settings would change: the threshold, and the verdicts of the latest parts whose
    pictures are kept. Nothing is changed. With fewer `parts` at a time, and the cursor of the last
    answer, inspections go between."""
    return await in_engine(request, station.configuring.try_out, product_id, wanted)


@router.post("/{product_id}/settings")
async def configure_product(
    product_id: Id, wanted: ProductSettings, request: Request, station: Here, actor: Admin
) -> ProductOut:
    """Looks at parts with other settings from here on; that is a new version. The good parts are
    learnt again, and the threshold is estimated from them, or from the line."""
    return await in_engine(request, station.configuring.configure, actor, product_id, wanted)


@router.delete("/{product_id}", status_code=204)
def delete_product(product_id: Id, station: Here, actor: Admin) -> Response:
    """Deletes a product; its inspections stay in the history."""
    station.products.delete(actor, product_id)
    return Response(status_code=204)


@router.get("/{product_id}/images")
def good_parts(product_id: Id, station: Here) -> GoodPartList:
    """The good parts that a product has learnt."""
    return GoodPartList(images=station.products.good_parts(product_id))


@router.post("/{product_id}/images", openapi_extra=form_of("images", confirm={"type": "boolean"}))
async def extend_product(
    product_id: Id, request: Request, station: Here, actor: Admin
) -> ProductOut:
    """Teaches a product more good parts; doubtful ones only with `confirm`, as for labels."""
    station.engine.check_room()
    await run_in_threadpool(station.products.get, product_id)
    async with received(request, station, texts=("confirm",)) as form:
        pictures = await _pictures(station, form)
        confirm = form.texts.get("confirm", "").lower() == "true"
        extend = station.products.extend
        return await in_engine(request, extend, actor, product_id, pictures, confirm=confirm)


@router.get("/{product_id}/images/{part}/thumbnail", **JPEG)
def good_part(product_id: Id, part: Part, station: Here) -> Response:
    """A small picture of a good part."""
    return jpeg(station.products.good_part_thumbnail(product_id, part))


@router.get("/{product_id}/images/{part}/picture", **JPEG)
def good_part_picture(product_id: Id, part: Part, station: Here) -> Response:
    """A good part as a JPEG, large ones made smaller."""
    return jpeg(station.products.good_part_picture(product_id, part))


@router.delete("/{product_id}/images/{part}")
async def remove_part(
    product_id: Id, part: Part, request: Request, station: Here, actor: Admin
) -> ProductOut:
    """Forgets a good part: the product is as if it had never learnt it."""
    return await in_engine(request, station.products.remove, actor, product_id, part)


@router.get("/{product_id}/versions")
def versions(product_id: Id, station: Here) -> VersionList:
    """What the product was after each of its latest 20 changes."""
    return VersionList(versions=station.products.versions(product_id))


@router.post("/{product_id}/versions/{revision}/restore")
async def restore_version(
    product_id: Id, revision: Revision, request: Request, station: Here, actor: Admin
) -> ProductOut:
    """Brings a version back, with its good parts and thresholds; that is a new version."""
    return await in_engine(request, station.products.restore, actor, product_id, revision)


@router.get("/{product_id}/levels")
async def levels(product_id: Id, request: Request, station: Here) -> GoodPartLevels:
    """How far good parts reach against the thresholds: those of the calibration, otherwise each
    learnt one while it is left out."""
    _, path, _ = await run_in_threadpool(station.products.detector, product_id)
    return await in_engine(request, good_part_levels, path)


@router.post(
    "/{product_id}/calibration", openapi_extra=form_of(false_alarm_rate=RATE, threshold=THRESHOLD)
)
async def calibrate_product(
    product_id: Id, request: Request, station: Here, actor: Admin
) -> ProductOut:
    """Sets new thresholds: from further good parts, which are not learnt; without images from
    those that were learnt; or to a score that you give."""
    station.engine.check_room()
    await run_in_threadpool(station.products.get, product_id)
    async with received(request, station, texts=("false_alarm_rate", "threshold")) as form:
        threshold = form.number("threshold", 0.0) if form.texts.get("threshold") else None
        if threshold is not None and (form.uploads or form.texts.get("false_alarm_rate")):
            raise UsageError("threshold-or-images")
        return await in_engine(
            request,
            station.products.recalibrate,
            actor,
            product_id,
            await _pictures(station, form, least=0),
            rate=form.number("false_alarm_rate", FALSE_ALARM_RATE),
            threshold=threshold,
        )


@router.get("/{product_id}/detector", **content("application/octet-stream", "The file."))
def download_detector(product_id: Id, station: Here, _: Admin) -> Response:
    """The detector file, as `hyperfsad detect --detector` takes it."""
    name, path, _revision = station.products.detector(product_id)
    if not path.is_file():
        raise GoneError("detector-replaced")
    shown = re.sub(r"[/\\:]", "_", name)
    return FileResponse(path, media_type="application/octet-stream", filename=f"{shown}.hfsad")


@router.post("/{product_id}/evaluation")
async def evaluate_product(
    product_id: Id, request: Request, station: Here, _: Admin
) -> dict[str, Any]:
    """How good the verdicts are on the inspections that were labelled: the figures of
    `hyperfsad evaluate`. Good parts that the product has learnt are left out."""
    return await in_engine(request, station.labels.evaluate, product_id)


@router.get("/{product_id}/trend", tags=["trends"])
def trend(
    product_id: Id, station: Here, step: Step = "hour", since: Since = None, until: Until = None
) -> TrendOut:
    """Quantiles of the levels in every hour or day, the share of anomalous parts, and whether
    normal has moved. Without times: the last 48 hours or 30 days."""
    return product_trend(station.store, product_id, step, microseconds(since), microseconds(until))


@router.get("/{product_id}/coverage", tags=["trends"])
async def coverage(product_id: Id, request: Request, station: Here) -> CoverageOut:
    """How well the good parts cover a new good part, and what to add: more of those that few others
    resemble, and inspections that passed and resemble none."""
    return await in_engine(request, coverage_advice, station.products, product_id)


async def _pictures(station: Station, form: Form, least: int = 1) -> list[Picture]:
    """All pictures of a form, or the error of the first that is not one."""
    if len(form.uploads) < least:
        raise UsageError("upload-missing", field="images")
    limits = station.settings.limits
    return [await run_in_threadpool(checked_picture, upload, limits) for upload in form.uploads]
