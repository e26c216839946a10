"""Products: make, list, extend, recalibrate, rename, delete, carry away and bring."""

import re
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse

from ...decisions.thresholds import FALSE_ALARM_RATE
from ...errors import UsageError
from ..faults import GoneError
from ..pictures import Picture, checked_pictures
from ..products import product_name
from .context import UPLOADING, Admin, Here, Id, Inspector, answers, called, form_of
from .schemas import Evaluation, ProductOut, Renaming
from .uploads import Form, received

router = APIRouter(prefix="/products", tags=["products"])

NAME: dict[str, Any] = {"type": "string", "maxLength": 100}
RATE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": FALSE_ALARM_RATE}


@router.get("", responses=answers())
def list_products(here: Here, _: Inspector) -> list[ProductOut]:
    """All products, by name."""
    return [ProductOut(**product) for product in here.station.products.all()]


@router.post(
    "",
    status_code=201,
    responses=answers(*UPLOADING),
    openapi_extra=form_of(name={**NAME, "required": True}, false_alarm_rate=RATE),
)
async def create_product(request: Request, here: Here, actor: Admin) -> ProductOut:
    """A new product from pictures of one to four good parts, or more."""
    here.station.engine.check_room()
    texts = ("name", "false_alarm_rate")
    files, limits = here.station.store.files, here.station.settings.limits
    async with received(request, files, limits, texts=texts) as form:
        name, rate = product_name(form.texts.get("name", "")), _rate(form)
        pictures = await _pictures(here, form)
        create = here.station.products.create
        made = await called(
            request,
            here,
            lambda detectors: create(detectors, actor, name, pictures, rate),
        )
    return ProductOut(**made)


@router.post(
    "/upload",
    status_code=201,
    responses=answers(*UPLOADING),
    openapi_extra=form_of(file="detector", several=False, name={**NAME, "required": True}),
)
async def upload_product(request: Request, here: Here, actor: Admin) -> ProductOut:
    """A new product from a detector file (.hfsad); every part of the file is checked."""
    here.station.engine.check_room()
    files, limits = here.station.store.files, here.station.settings.limits
    accepted = received(
        request,
        files,
        limits,
        file="detector",
        texts=("name",),
        most=1,
        each=limits.detector_bytes,
    )
    async with accepted as form:
        name = product_name(form.texts.get("name", ""))
        if not form.uploads:
            raise UsageError("Send a detector file in the field detector.")
        upload, bring = form.uploads[0], here.station.products.bring
        made = await called(request, here, lambda detectors: bring(detectors, actor, name, upload))
    return ProductOut(**made)


@router.get("/{product_id}", responses=answers(404))
def get_product(product_id: Id, here: Here, _: Inspector) -> ProductOut:
    """One product."""
    return ProductOut(**here.station.products.get(product_id))


@router.patch("/{product_id}", responses=answers(404, 409))
def rename_product(product_id: Id, renaming: Renaming, here: Here, actor: Admin) -> ProductOut:
    """Gives a product another name."""
    name = product_name(renaming.name)
    return ProductOut(**here.station.products.rename(actor, product_id, name))


@router.delete("/{product_id}", status_code=204, responses=answers(404))
def delete_product(product_id: Id, here: Here, actor: Admin) -> Response:
    """Deletes a product; its inspections stay in the history."""
    here.station.products.delete(actor, product_id)
    return Response(status_code=204)


@router.post("/{product_id}/images", responses=answers(*UPLOADING), openapi_extra=form_of())
async def extend_product(product_id: Id, request: Request, here: Here, actor: Admin) -> ProductOut:
    """Teaches a product more good parts."""
    here.station.engine.check_room()
    await run_in_threadpool(here.station.products.get, product_id)
    files, limits = here.station.store.files, here.station.settings.limits
    async with received(request, files, limits) as form:
        pictures = await _pictures(here, form)
        extend = here.station.products.extend
        made = await called(
            request, here, lambda detectors: extend(detectors, actor, product_id, pictures)
        )
    return ProductOut(**made)


@router.post(
    "/{product_id}/calibration",
    responses=answers(*UPLOADING),
    openapi_extra=form_of(
        required=False,
        false_alarm_rate=RATE,
        threshold={"type": "number", "exclusiveMinimum": 0},
        keep_outliers={"type": "boolean", "default": False},
    ),
)
async def calibrate_product(
    product_id: Id, request: Request, here: Here, actor: Admin
) -> ProductOut:
    """Sets new thresholds: from further good parts, which are not learnt; without images from
    those that were learnt; or to a score that you give."""
    here.station.engine.check_room()
    await run_in_threadpool(here.station.products.get, product_id)
    texts = ("false_alarm_rate", "threshold", "keep_outliers")
    files, limits = here.station.store.files, here.station.settings.limits
    async with received(request, files, limits, texts=texts) as form:
        threshold = form.number("threshold", 0.0) if form.texts.get("threshold") else None
        if threshold is not None and (form.uploads or form.texts.get("false_alarm_rate")):
            raise UsageError("Give either a threshold, or good parts and a false_alarm_rate.")
        pictures = await _pictures(here, form, least=0)
        change = partial(
            here.station.products.recalibrate,
            actor=actor,
            product_id=product_id,
            pictures=pictures,
            rate=_rate(form),
            threshold=threshold,
            keep_outliers=form.flag("keep_outliers"),
        )
        made = await called(request, here, lambda detectors: change(detectors))
    return ProductOut(**made)


@router.get(
    "/{product_id}/detector",
    response_class=FileResponse,
    responses={
        **answers(404, 410),
        200: {"content": {"application/octet-stream": {}}, "description": "The file."},
    },
)
def download_detector(product_id: Id, here: Here, _: Admin) -> FileResponse:
    """The detector file, as `hyperfsad detect --detector` takes it."""
    name, path, _revision = here.station.products.detector(product_id)
    if not path.is_file():
        raise GoneError("The detector file was replaced this moment; ask again.")
    shown = re.sub(r"[/\\:]", "_", name)
    return FileResponse(path, media_type="application/octet-stream", filename=f"{shown}.hfsad")


@router.post("/{product_id}/evaluation", responses=answers(404))
async def evaluate_product(product_id: Id, request: Request, here: Here, _: Admin) -> Evaluation:
    """How good the verdicts are on the inspections that were labelled: the figures of
    `hyperfsad evaluate`. Good parts that the product has learnt are left out."""
    evaluated = here.station.labels.evaluated
    return await called(request, here, lambda detectors: evaluated(detectors, product_id))


def _rate(form: Form) -> float:
    return form.number("false_alarm_rate", FALSE_ALARM_RATE)


async def _pictures(here: Here, form: Form, least: int = 1) -> list[Picture]:
    if len(form.uploads) < least:
        raise UsageError("Send at least one picture in the field images.")
    limits = here.station.settings.limits
    return await run_in_threadpool(checked_pictures, form.uploads, limits)
