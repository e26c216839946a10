"""What runs an encoder. All engines give the same tokens of a precision but for rounding."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array


class TokenEngine(Protocol):
    """A frozen model, ready to run."""

    name: str

    @property
    def is_broken(self) -> bool:
        """Whether the process was forked since loading, and it would hang."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies weights and precision, whatever engine runs them."""
        ...

    @property
    def width(self) -> int:
        """D, the numbers of a token."""
        ...

    def tokens(self, pixels: NDArray[np.float32]) -> tuple[Array, Array]:
        """From (images, 3, side, side) to patch tokens (images, planes, patches, D) and CLS tokens
        (images, planes, D), of length 1 unless the settings say otherwise: arrays of numpy, or
        tensors on a device of torch."""
        ...
