"""Trends of a product, and which good parts it lacks."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from .context import Here, Id, Inspector, answers, called
from .inspections import Since, Until, micro
from .schemas import CoverageOut, TrendOut

router = APIRouter(prefix="/products/{product_id}", tags=["trends"])


@router.get("/trend", responses=answers(404))
def trend(
    product_id: Id,
    here: Here,
    _: Inspector,
    step: Literal["hour", "day"] = "hour",
    since: Since = None,
    until: Until = None,
) -> TrendOut:
    """Quantiles of the scores in every hour or day, the share of anomalous parts, and whether
    normal has moved. Without times: the last 48 hours or 30 days."""
    return TrendOut(**here.station.trends.of(product_id, step, micro(since), micro(until)))


@router.get("/coverage", responses=answers(404))
async def coverage(
    product_id: Id,
    request: Request,
    here: Here,
    _: Inspector,
    chance: Annotated[float, Query(gt=0, lt=1)] = 0.95,
) -> CoverageOut:
    """How well the good parts cover a new good part, and what to add: more of those that few others
    resemble, and inspections that passed and resemble none."""
    advice = here.station.advisor.advice
    found = await called(request, here, lambda known: advice(known, product_id, chance))
    return CoverageOut(**found)
