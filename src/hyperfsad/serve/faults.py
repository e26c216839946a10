"""What the station refuses, each with its HTTP status; the text is the answer's one sentence."""

import errno
import sqlite3

from ..errors import HyperfsadError

POSTGRESQL_FULL = "53100"
"""Its code for a full disk."""


class RefusedError(HyperfsadError):
    """A request that is not done."""

    status = 400
    retry_after: int | None = None
    """Seconds after which it is worth to try again."""


class NotSignedInError(RefusedError):
    status = 401


class ForbiddenError(RefusedError):
    status = 403


class MissingError(RefusedError):
    status = 404


class TooSlowError(RefusedError):
    status = 408


class ConflictError(RefusedError):
    status = 409


class GoneError(RefusedError):
    status = 410


class TooLargeError(RefusedError):
    status = 413


class WrongTypeError(RefusedError):
    status = 415


class TooOftenError(RefusedError):
    status = 429

    def __init__(self, text: str, retry_after: int) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class BusyError(RefusedError):
    status = 503

    def __init__(self, text: str, retry_after: int) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class FullError(RefusedError):
    status = 507


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
