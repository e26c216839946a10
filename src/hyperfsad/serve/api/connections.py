"""The machines that hear of the inspections, for an engineer."""

from typing import Annotated

from fastapi import APIRouter, Path

from ..refusals import MissingError
from ..schemas import ConnectionsOut, ConnectionTestOut
from .context import Admin, Here

router = APIRouter(tags=["connections"])


@router.get("/connections")
def connections(station: Here, _: Admin) -> ConnectionsOut:
    """The receivers that the station was started with, and whether each is connected."""
    return station.machines.states()


@router.post("/connections/{name}/test")
def test(name: Annotated[str, Path(max_length=40)], station: Here, _: Admin) -> ConnectionTestOut:
    """Connects to a receiver as the station would, and says in one sentence what is wrong."""
    try:
        return station.machines.test(name)
    except KeyError:
        raise MissingError("connection-unknown", name=name) from None
