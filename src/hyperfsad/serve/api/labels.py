"""Labels: "this is fine" and "this is bad"."""

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from ...errors import UsageError
from ...messages import visible
from ..faults import ForbiddenError
from ..labels import BAD
from ..settings import ADMIN
from .context import Here, Id, Inspector, answers, called
from .schemas import InspectionOut, Labelling

router = APIRouter(prefix="/inspections/{inspection_id}/label", tags=["labels"])


@router.put("", responses=answers(404, 409, 410, 507))
async def label(
    inspection_id: Id, labelling: Labelling, request: Request, here: Here, actor: Inspector
) -> InspectionOut:
    """Says what the part really is. `fine` teaches it to the product, which needs the role admin,
    unless `learn` is false; `bad` keeps it as a defect for the evaluation."""
    labels = here.station.labels
    if labelling.kind == BAD:
        defect = visible(" ".join((labelling.defect or "").split())) or None
        found = await run_in_threadpool(labels.bad, actor, inspection_id, defect)
        return InspectionOut(**found)
    if labelling.defect is not None:
        raise UsageError("A part that is fine has no defect.")
    if labelling.learn and actor.role != ADMIN:
        raise ForbiddenError("Teaching a product needs the role admin; set learn to false.")
    learn, fine = labelling.learn, labels.fine
    return InspectionOut(
        **await called(request, here, lambda found: fine(found, actor, inspection_id, learn))
    )


@router.delete("", responses=answers(404, 409, 410, 507))
async def undo(inspection_id: Id, request: Request, here: Here, actor: Inspector) -> InspectionOut:
    """Takes the label back; what the product has learnt because of it is forgotten."""
    known = await run_in_threadpool(here.station.inspections.get, inspection_id)
    if known["learnt"] and actor.role != ADMIN:
        raise ForbiddenError("The product has learnt this image; only the role admin can undo it.")
    back = here.station.labels.undo
    return InspectionOut(
        **await called(request, here, lambda found: back(found, actor, inspection_id))
    )
