"""What a product has learnt: its pictures, and how far they reach."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool

from .context import Here, Id, Inspector, answers, called
from .inspections import JPEG
from .schemas import GoodPart, GoodParts, Levels

router = APIRouter(prefix="/products/{product_id}", tags=["products"])

Hash = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="sha256 of the uploaded file.")]


@router.get("/images", responses=answers(404))
def good_parts(product_id: Id, here: Here, _: Inspector) -> GoodParts:
    """The pictures that a product has learnt."""
    found = here.station.good_parts.all(product_id)
    return GoodParts(images=[GoodPart(**one) for one in found])


@router.get(
    "/images/{image}/thumbnail",
    response_class=Response,
    responses={**answers(404, 410), **JPEG},
)
def good_part(product_id: Id, image: Hash, here: Here, _: Inspector) -> Response:
    """A small picture of a good part."""
    found = here.station.good_parts.thumbnail(product_id, image)
    return Response(found, media_type="image/jpeg")


@router.get("/levels", responses=answers(404))
async def levels(product_id: Id, request: Request, here: Here, _: Inspector) -> Levels:
    """How far good parts reach against the thresholds: those of the calibration, otherwise each
    learnt one while it is left out."""
    station = here.station
    _name, path, _revision = await run_in_threadpool(station.products.detector, product_id)
    found = station.good_parts.levels
    return Levels(**await called(request, here, lambda detectors: found(detectors, path)))
