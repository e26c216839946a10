"""What every source of frames gives, and how one is used."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Pixels: TypeAlias = NDArray[np.uint8]
"""Height, width and, in colour, red, green and blue."""


@dataclass(frozen=True)
class Frame:
    """One frame; most are never wanted, so its pixels are converted only when they are."""

    number: int
    """Its place: in a file, or since the camera was opened."""
    time: float
    """Seconds by the source's clock, which a trigger goes by."""
    arrived: float
    """Seconds by our own clock (`time.monotonic`), from which a verdict may be late."""
    taken: int
    """Nanoseconds since 1970, UTC."""
    pixels: Callable[[], Pixels]


class Source(Protocol):
    """A camera or a video file."""

    @property
    def name(self) -> str:
        """What it is called on screens and in logs: the address without a password."""
        ...

    @property
    def live(self) -> bool:
        """Whether frames come when they come; otherwise they wait until they are wanted."""
        ...

    def frames(self) -> Generator[Frame | None, None, None]:
        """Opens it and gives each frame once; None says that there is none yet.

        Raises `HyperfsadError` when the source is lost; ends where a file ends.
        """
        ...
