"""Random tokens, and their formulas written out, for tests."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def unit(values: Any) -> NDArray[np.float32]:
    """Rows of the length 1."""
    found = np.asarray(values, dtype=np.float64)
    return np.asarray(found / np.linalg.norm(found, axis=-1, keepdims=True), np.float32)


def cosines(one: Any, other: Any) -> NDArray[np.float64]:
    """The cosine of each row with its own of the others."""
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return np.asarray((one * other).sum(axis=-1) / lengths)
