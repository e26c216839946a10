"""What a watcher asks: detectors of all kinds, and whatever else judges pictures."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from ..report.journal import Stamp
from ..results.result import AnomalyResult

Keep: TypeAlias = Callable[[AnomalyResult, Stamp], None]
"""Keeps a result elsewhere before its picture counts as done."""


class Judge(Protocol):
    """What a watcher needs of a detector."""

    @property
    def encoder_(self) -> Any:
        """Loaded by the time this returns."""
        ...

    @property
    def threshold_(self) -> float | None:
        """Above it an image is anomalous."""
        ...

    def identity(self) -> str:
        """Changes with what it has learnt."""
        ...

    def predict(self, images: str, *, keep_pictures: bool) -> Any:
        """The result of a picture; anything else if it is not there any longer."""
        ...
