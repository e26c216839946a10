"""Cameras: which one a product has, what it does, and shots on request."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from ..schemas import ShotOut, SourceIn, SourceOut
from .context import JPEG, SIGNED_IN, Admin, Here, Id, Inspector, jpeg

router = APIRouter(prefix="/products/{product_id}/source", tags=["cameras"], dependencies=SIGNED_IN)
Finding = Annotated[str | None, Query(pattern="^[a-z-]{1,40}$", description="Its code.")]


@router.get("")
def get_source(product_id: Id, station: Here) -> SourceOut | None:
    """The camera of a product and what it does; null where it has none."""
    return station.cameras.find(product_id)


@router.put("")
def set_source(product_id: Id, wanted: SourceIn, station: Here, actor: Admin) -> SourceOut:
    """Gives a product a camera and starts it; it starts again with the station. The address as it
    is shown keeps the password that it was given with."""
    return station.cameras.set(actor, product_id, wanted)


@router.delete("", status_code=204)
def remove_source(product_id: Id, station: Here, actor: Admin) -> Response:
    """Stops the camera of a product, for good."""
    station.cameras.remove(actor, product_id)
    return Response(status_code=204)


@router.post("/shots", status_code=202)
def shoot(product_id: Id, station: Here, _: Inspector) -> ShotOut:
    """Inspects the next frame that arrives, where the trigger is `software`. If the camera is lost
    before, there will be no inspection."""
    return ShotOut(inspection=station.cameras.of(product_id).ask())


@router.get("/picture", **JPEG)
def see(product_id: Id, station: Here, finding: Finding = None) -> Response:
    """What the camera sees now, or the picture that a finding was made from."""
    return jpeg(station.cameras.of(product_id).picture(finding))
