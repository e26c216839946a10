"""Named users: only the role admin sees and changes them."""

from fastapi import APIRouter, Response

from ..schemas import NewUser, UserChange, UserList, UserOut
from .context import SIGNED_IN, Admin, Here, Id

router = APIRouter(prefix="/users", tags=["users"], dependencies=SIGNED_IN)


@router.get("")
def list_users(station: Here, _: Admin) -> UserList:
    """All users, by name."""
    return UserList(users=station.users.all())


@router.post("", status_code=201)
def add_user(wanted: NewUser, station: Here, actor: Admin) -> UserOut:
    """A new user. The first has to be an admin; from then on nobody is let in without a PIN or a
    token."""
    return station.users.add(actor, wanted.name, wanted.role, wanted.pin)


@router.patch("/{user_id}")
def change_user(user_id: Id, wanted: UserChange, station: Here, actor: Admin) -> UserOut:
    """Another role, or a new PIN, which also unlocks the name. The user has to sign in again."""
    return station.users.change(actor, user_id, wanted.role, wanted.pin)


@router.delete("/{user_id}", status_code=204)
def remove_user(user_id: Id, station: Here, actor: Admin) -> Response:
    """Removes a user, whose sessions end; what they did stays in the audit log."""
    station.users.remove(actor, user_id)
    return Response(status_code=204)
