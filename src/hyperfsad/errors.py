"""What can go wrong: an error carries a code and facts, and `wording` has the sentence for it."""

import reprlib
from collections.abc import Mapping
from typing import Any

from .wording import Worded, worded


class HyperfsadError(Worded, Exception):
    """The root of all errors that hyperfsad raises on purpose.

    `code` names what went wrong, `facts` what it concerns; `str` says it in one sentence.
    """

    def __init__(self, code: str, /, **facts: Any) -> None:
        super().__init__(code)
        self.code = code
        self.facts: Mapping[str, Any] = facts

    def __str__(self) -> str:
        return worded(self.code, self.facts)


class UsageError(HyperfsadError, ValueError):
    """A setting or an argument that cannot be used."""


class ImageError(HyperfsadError, ValueError):
    """An image that cannot be read or used."""


class NotFiniteError(ImageError):
    """An image whose scores came out as NaN or infinity: it gets no verdict."""


class EncoderError(HyperfsadError):
    """An encoder that cannot be found, fetched or loaded."""


class UnreachableError(EncoderError):
    """A source of weights that this machine cannot reach."""


class ConversionError(EncoderError):
    """A model that OpenVINO cannot run, or not exactly enough."""


class DetectorFileError(HyperfsadError, ValueError):
    """A detector file that is damaged, foreign or made by another encoder."""


class HyperfsadWarning(UserWarning):
    """Something was left out, and the work went on; its argument is a `Notice`."""


def brief(value: object) -> str:
    """A value that was given instead of the expected one, in a few words."""
    text = reprlib.repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(value).__name__}"


def first_line(error: BaseException) -> str:
    """The first line of another library's error, for use inside one of our sentences."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def reason(error: BaseException) -> str:
    """An error's text; for errors of the system, without number and path."""
    return getattr(error, "strerror", None) or first_line(error)
