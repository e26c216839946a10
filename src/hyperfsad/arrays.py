"""One formula for every array: numpy by default, and torch where the tokens live on its devices.

The method is written against the Python array API standard, `xp = namespace(x)`. What the standard
lacks stands here, with one way for numpy and one for torch. torch is never imported: whoever has a
tensor has imported it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, is_torch_array, to_device
from array_api_compat import device as device
from numpy.typing import NDArray

Array: TypeAlias = Any
"""Of numpy, or of another library that follows the standard; all arrays of one call are of one."""

GATHERED_AT_ONCE = 1 << 18
"""Values of rows that are gathered at a time: 1 MB in float32, which stays in the cache."""


_STANDARD = hasattr(np, "cumulative_sum")
"""Whether this numpy, from 2.1 on, has the names of the standard itself; loading others takes
time."""


def namespace(*arrays: Array) -> Any:
    """The functions of the library that made these arrays, by the names of the standard.

    Sorting with `descending` is left to `descending` here.
    """
    if _STANDARD and all(map(is_numpy, arrays)):
        return np
    return array_namespace(*arrays)


def is_numpy(array: Array) -> bool:
    """Whether numpy made it."""
    return isinstance(array, np.ndarray)


def in_plain_memory(array: Array) -> bool:
    """Whether `to_numpy` copies nothing."""
    return is_numpy(array) or (is_torch_array(array) and array.device.type == "cpu")


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
    """The same values, row after row in memory, where the library says how they lie."""
    if is_torch_array(array):
        return array.contiguous()
    return np.ascontiguousarray(array) if is_numpy(array) else array


def wide(array: Array) -> Array:
    """The array in float64; in float32 where its device has nothing wider (MPS)."""
    xp = namespace(array)
    narrow = str(device(array)).startswith("mps")
    return xp.astype(array, xp.float32 if narrow else xp.float64, copy=False)


def blocks(start: int, stop: int, step: int) -> list[slice]:
    """The rows from `start` to `stop`, so many at a time; one empty block where there are none."""
    starts = range(start, max(stop, start + 1), step)
    return [slice(first, min(first + step, stop)) for first in starts]


def single(array: Array) -> Array:
    """Half precision made float32, since numpy multiplies nothing narrower with any speed."""
    xp = namespace(array)
    halved = xp.isdtype(array.dtype, "real floating") and xp.finfo(array.dtype).bits < 32
    return xp.astype(array, xp.float32) if halved else array


def positive(array: Array) -> Array:
    """[x]₊, the larger of each value and 0; what is no number stays none."""
    xp = namespace(array)
    return xp.maximum(array, like(0, array, array.dtype))


def at_most(array: Array, most: float) -> Array:
    """The smaller of each value and `most`."""
    return namespace(array).minimum(array, like(most, array, array.dtype))


def clipped(array: Array, least: float, most: float) -> Array:
    """Each value within these bounds."""
    xp = namespace(array)
    return at_most(xp.maximum(array, like(least, array, array.dtype)), most)


def padded(array: Array, before: int, after: int, axis: int) -> Array:
    """With zeros before and after along an axis."""
    xp = namespace(array)
    # the sum has the right lengths, also those that a graph leaves open
    zero = xp.zeros_like(xp.sum(array, axis=axis, keepdims=True), dtype=array.dtype)
    return xp.concat([*[zero] * before, array, *[zero] * after], axis=axis)


def gathered(values: Array, index: Array) -> Array:
    """Values at some places of the last axis, (…, few) from (…, M)."""
    if is_torch_array(values):
        return values.gather(-1, index)
    return namespace(values).take_along_axis(values, index, axis=-1)


def scattered(index: Array, values: Array, width: int) -> Array:
    """Values (N, few) at their places of rows that are 0 elsewhere, (N, width)."""
    if is_torch_array(values):
        return values.new_zeros(values.shape[0], width).scatter_(-1, index, values)
    plain = to_numpy(values)
    found = np.zeros((len(plain), width), dtype=plain.dtype)
    np.put_along_axis(found, to_numpy(index), plain, axis=-1)
    return like(found, values)


def largest_at(places: Array, values: Array, size: int) -> Array:
    """The largest of the values at each place, (size,); 0 where there is none above it."""
    if is_torch_array(values):
        return values.new_zeros(size).scatter_reduce(0, places, values, "amax")
    plain = to_numpy(values)
    found = np.zeros(size, dtype=plain.dtype)
    np.maximum.at(found, to_numpy(places), plain)
    return like(found, values)


def put(array: Array, index: Array, values: Any) -> Array:
    """The array with other rows at some places; in place, where its library can do that."""
    if is_numpy(array) or is_torch_array(array):
        array[index] = values
        return array
    changed = np.array(to_numpy(array))
    changed[to_numpy(index)] = to_numpy(values)
    return like(changed, array)


def middle(whole: Array) -> Array:
    """The median of an odd number of whole numbers below 2^15, over the last axis."""
    half = whole.shape[-1] // 2
    if is_torch_array(whole):
        return whole.float().topk(half + 1, dim=-1).values[..., -1].long()
    if not is_numpy(whole):
        return namespace(whole).sort(whole, axis=-1)[..., half]
    narrow = whole.astype(np.int16)  # ten times as fast as int64
    return np.partition(narrow, half, axis=-1)[..., half].astype(np.int64)


def descending(values: Array) -> Array:
    """The places of the values of each row as they fall; of equals the first comes first."""
    return namespace(values).argsort(-values, axis=-1, stable=True)


def top_k(values: Array, count: int) -> tuple[Array, Array]:
    """The largest of each row, falling from left to right, and their places (of the last axis)."""
    if is_torch_array(values):
        found = values.topk(count, dim=-1)
        return found.values, found.indices
    xp = namespace(values)
    if hasattr(xp, "top_k"):  # of a graph (`export/nodes.py`), which would sort whole rows
        found = xp.top_k(values, count)
        return found[0], found[1]
    if is_numpy(values) and count < values.shape[-1]:
        some = np.argpartition(values, values.shape[-1] - count, axis=-1)[..., -count:]
        some.sort(axis=-1)  # so that of equals the first comes first
        order = np.argsort(-np.take_along_axis(values, some, -1), axis=-1, kind="stable")
        index = np.take_along_axis(some, order, -1)
    else:
        index = descending(values)[..., :count]
    return xp.take_along_axis(values, index, axis=-1), index


def weighted_rows(rows: Array, index: Array, weights: Array) -> Array:
    """Σ_j w_j·p_j over a few rows of (M, D) for each query, (N, D) from (N, few)."""
    if is_torch_array(rows):
        from torch.nn.functional import embedding_bag

        return embedding_bag(index, rows, per_sample_weights=weights, mode="sum")
    xp, few, width = namespace(rows), index.shape[1], rows.shape[1]

    def added(part: slice) -> Array:
        picked = xp.take(rows, xp.reshape(index[part, :], (-1,)), axis=0)
        return (weights[part, None, :] @ xp.reshape(picked, (-1, few, width)))[:, 0, :]

    step = max(1, GATHERED_AT_ONCE // (few * width))
    return xp.concat([added(part) for part in blocks(0, index.shape[0], step)])
