"""What the station refuses, each with its HTTP status, and how errors are worded for clients."""

import errno
import os
import sqlite3
from collections.abc import Mapping
from typing import Any, TypeVar

from ..errors import HyperfsadError
from ..messages import Notice
from ..wording import STATION

Said = TypeVar("Said", HyperfsadError, Notice)

POSTGRESQL_FULL = "53100"
"""Its code for a full disk."""


class RefusedError(HyperfsadError):
    """A request that is refused; the fact `retry_after` says in how many seconds to try again."""

    status = 400


def _refused_with(status: int) -> type[RefusedError]:
    return type(f"Refused{status}Error", (RefusedError,), {"status": status})


NotSignedInError = _refused_with(401)
ForbiddenError = _refused_with(403)
MissingError = _refused_with(404)
TooSlowError = _refused_with(408)
ConflictError = _refused_with(409)
GoneError = _refused_with(410)
TooLargeError = _refused_with(413)
WrongTypeError = _refused_with(415)
TooOftenError = _refused_with(429)
BusyError = _refused_with(503)
FullError = _refused_with(507)


def is_full(error: BaseException | None) -> bool:
    """Whether a full disk is behind an error, at any depth."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if isinstance(error, sqlite3.OperationalError) and "disk is full" in str(error):
            return True
        if getattr(error, "sqlstate", None) == POSTGRESQL_FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


def public(error: Said, names: Mapping[str, str] | None = None) -> Said:
    """The same error or notice without paths of this machine, and nested ones in its words.

    A path becomes what `names` calls it, or the name of its file.
    """

    def shown(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [shown(each) for each in value]
        if isinstance(value, HyperfsadError | Notice):
            return station_text(value)
        if not isinstance(value, str | os.PathLike):
            return value if value is None or isinstance(value, bool | int | float) else str(value)
        text = os.fspath(value)
        name = os.path.basename(text) if os.path.isabs(text) else text
        return (names or {}).get(text, name)

    return type(error)(error.code, **{name: shown(value) for name, value in error.facts.items()})


def problem(error: HyperfsadError) -> dict[str, Any]:
    """An error as the API reports it: the sentence, and for programs its code and facts."""
    shown = public(error)
    return {"detail": station_text(shown), "code": shown.code, "facts": dict(shown.facts)}


def station_text(said: HyperfsadError | str) -> str:
    """An error or a notice in the station's words."""
    return said.worded(STATION) if isinstance(said, HyperfsadError | Notice) else said
