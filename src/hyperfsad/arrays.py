"""One formula for every array: numpy by default, and torch where the tokens live on its devices.

The method is written against the Python array API standard, `xp = namespace(x)`. What the standard
lacks stands here, with one way for numpy and one for torch. torch is never imported: whoever has a
tensor has imported it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array, to_device
from numpy.typing import NDArray

Array: TypeAlias = Any
"""Of numpy, or of another library that follows the standard; all arrays of one call are of one."""


def namespace(*arrays: Array) -> Any:
    """The functions of the library that made these arrays, by the names of the standard."""
    return array_namespace(*arrays)


def is_numpy(array: Array) -> bool:
    """Whether it lies in plain memory, as the kernel needs it."""
    return isinstance(array, np.ndarray)


def to_numpy(array: Array) -> NDArray[Any]:
    """The same values in plain memory; not copied where they are there already."""
    if is_torch_array(array):
        array = array.detach().cpu()
    return np.asarray(array)


def like(values: Any, model: Array, dtype: Any = None) -> Array:
    """Numbers, or an array of numpy, as an array of the kind of `model`, on its device."""
    return namespace(model).asarray(values, dtype=dtype, device=device(model))


def on_device(array: Array, target: Any) -> Array:
    """The array on another device of its library; numpy has one only."""
    return to_device(array, target)


def contiguous(array: Array) -> Array:
    """The same values, row after row in memory."""
    return np.ascontiguousarray(array) if is_numpy(array) else array.contiguous()


def wide(array: Array) -> Array:
    """The array in float64; in float32 where its device has nothing wider (MPS)."""
    xp = namespace(array)
    narrow = str(device(array)).startswith("mps")
    return xp.astype(array, xp.float32 if narrow else xp.float64, copy=False)


def top_k(values: Array, count: int) -> tuple[Array, Array]:
    """The largest of each row, falling from left to right, and their places (of the last axis)."""
    if is_torch_array(values):
        found = values.topk(count, dim=-1)
        return found.values, found.indices
    xp = namespace(values)
    if is_numpy(values) and count < values.shape[-1]:
        some = np.argpartition(values, values.shape[-1] - count, axis=-1)[..., -count:]
        some.sort(axis=-1)  # so that of equals the first comes first
        order = np.argsort(-np.take_along_axis(values, some, -1), axis=-1, stable=True)
        index = np.take_along_axis(some, order, -1)
    else:
        index = xp.argsort(values, axis=-1, descending=True, stable=True)[..., :count]
    return xp.take_along_axis(values, index, axis=-1), index


def weighted_rows(rows: Array, index: Array, weights: Array) -> Array:
    """Σ_j w_j·p_j over a few rows of (M, D) for each query, (N, D) from (N, few)."""
    if is_torch_array(rows):
        from torch.nn.functional import embedding_bag

        return embedding_bag(index, rows, per_sample_weights=weights, mode="sum")
    xp = namespace(rows)
    picked = xp.reshape(xp.take(rows, xp.reshape(index, (-1,)), axis=0), (*index.shape, -1))
    return (weights[:, None, :] @ picked)[:, 0, :]
