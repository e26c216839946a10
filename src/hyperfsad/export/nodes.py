"""Arrays that are nodes of an OpenVINO graph: a formula that is called with them draws the graph.

A namespace like that of the array API standard, with what our formulas ask for. The number of
images, the first axis of what depends on the input, is open: its length is None.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..encoders.runtime import import_openvino

openvino = import_openvino()
ops = openvino.opset13

int64 = np.dtype("int64")
float32 = np.dtype("float32")


class Node:
    """One array of a graph."""

    __array_ufunc__ = None  # so that numpy leaves `constant * node` to us
    device = "cpu"

    def __init__(self, output: Any) -> None:
        """`output` is OpenVINO's own: of a node, which may have several."""
        self.output = output

    def __array_namespace__(self, api_version: str | None = None) -> ModuleType:
        return sys.modules[__name__]

    @property
    def shape(self) -> tuple[Any, ...]:
        """The lengths of its axes; None is the number of images."""
        sizes = self.output.get_partial_shape()
        return tuple(None if size.is_dynamic else size.get_length() for size in sizes)

    @property
    def ndim(self) -> int:
        return len(self.output.get_partial_shape())

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.output.get_element_type().to_dtype()
        return np.dtype(found)

    @property
    def mT(self) -> Node:  # noqa: N802 (the standard's name)
        return matrix_transpose(self)

    def __add__(self, other: Any) -> Node:
        return _of_two(ops.add, self, other)

    def __radd__(self, other: Any) -> Node:
        return _of_two(ops.add, other, self)

    def __sub__(self, other: Any) -> Node:
        return _of_two(ops.subtract, self, other)

    def __rsub__(self, other: Any) -> Node:
        return _of_two(ops.subtract, other, self)

    def __mul__(self, other: Any) -> Node:
        return _of_two(ops.multiply, self, other)

    def __rmul__(self, other: Any) -> Node:
        return _of_two(ops.multiply, other, self)

    def __truediv__(self, other: Any) -> Node:
        return _of_two(ops.divide, self, other)

    def __floordiv__(self, other: Any) -> Node:
        return _of_two(ops.divide, self, other)  # of whole numbers that are never below 0

    def __mod__(self, other: Any) -> Node:
        return _of_two(ops.floor_mod, self, other)

    def __matmul__(self, other: Any) -> Node:
        return matmul(self, other)

    def __neg__(self) -> Node:
        return Node(ops.negative(self.output).output(0))

    def __gt__(self, other: Any) -> Node:
        return _of_two(ops.greater, self, other)

    def __ge__(self, other: Any) -> Node:
        return _of_two(ops.greater_equal, self, other)

    def __lt__(self, other: Any) -> Node:
        return _of_two(ops.less, self, other)

    def __le__(self, other: Any) -> Node:
        return _of_two(ops.less_equal, self, other)

    def __eq__(self, other: Any) -> Node:  # type: ignore[override]
        return _of_two(ops.equal, self, other)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Any) -> Node:
        return _of_two(ops.logical_and, self, other)

    def __or__(self, other: Any) -> Node:
        return _of_two(ops.logical_or, self, other)

    def __invert__(self) -> Node:
        return Node(ops.logical_not(self.output).output(0))

    def __getitem__(self, key: Any) -> Node:
        keys = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in keys:
            place = keys.index(Ellipsis)
            missing = self.ndim - len([each for each in keys if each is not None]) + 1
            keys[place : place + 1] = [slice(None)] * missing
        found, axis = self, 0
        for each in keys:
            if each is None:
                found = expand_dims(found, axis=axis)
            elif isinstance(each, slice):
                found = _sliced(found, each, axis)
            else:
                found = Node(ops.gather(found.output, _index(each), _index(axis)).output(0))
                continue
            axis += 1
        return found


def asarray(values: Any, dtype: Any = None, device: Any = None) -> Node:
    """A constant; a node stays what it is."""
    if isinstance(values, Node):
        return values if dtype is None else astype(values, dtype)
    return Node(_constant(values, dtype))


def arange(start: int, stop: int | None = None, step: int = 1, **how: Any) -> Node:
    return asarray(np.arange(start, stop, step, dtype=how.get("dtype")))


def full_like(x: Node, value: float, **how: Any) -> Node:
    return where(x == x, asarray(value, how.get("dtype", x.dtype)), value)


def ones_like(x: Node, **how: Any) -> Node:
    return full_like(x, 1, **how)


def zeros_like(x: Node, **how: Any) -> Node:
    return full_like(x, 0, **how)


def astype(x: Node, dtype: Any, copy: object = True) -> Node:
    if x.dtype == dtype:
        return x
    return Node(ops.convert(x.output, _name(np.dtype(dtype))).output(0))


def reshape(x: Node, shape: Sequence[Any]) -> Node:
    """One axis at most may be open: the images, or -1."""
    wanted = list(shape)
    if None in wanted and -1 in wanted:
        known = [
            int(np.prod([size for size in each if size not in (None, -1)]))
            for each in (x.shape, wanted)
        ]
        wanted[wanted.index(-1)] = known[0] // known[1]
    target = _index([-1 if size is None else size for size in wanted])
    return Node(ops.reshape(x.output, target, special_zero=False).output(0))


def expand_dims(x: Node, axis: int = 0) -> Node:
    return Node(ops.unsqueeze(x.output, _index(axis)).output(0))


def permute_dims(x: Node, axes: Sequence[int]) -> Node:
    return Node(ops.transpose(x.output, _index(axes)).output(0))


def matrix_transpose(x: Node) -> Node:
    axes = list(range(x.ndim))
    return permute_dims(x, [*axes[:-2], axes[-1], axes[-2]])


def concat(arrays: Sequence[Any], axis: int = 0) -> Node:
    return Node(ops.concat([asarray(each).output for each in arrays], axis).output(0))


def stack(arrays: Sequence[Any], axis: int = 0) -> Node:
    return concat([expand_dims(each, axis=axis) for each in arrays], axis=axis)


def broadcast_to(x: Any, shape: Sequence[int]) -> Node:
    target = _index([1 if size is None else size for size in shape])
    return Node(ops.broadcast(asarray(x).output, target, broadcast_spec="BIDIRECTIONAL").output(0))


def take(x: Node, indices: Any, axis: int = 0) -> Node:
    return Node(ops.gather(x.output, asarray(indices).output, _index(axis)).output(0))


def take_along_axis(x: Node, indices: Any, axis: int = -1) -> Node:
    place = axis % x.ndim
    return Node(ops.gather_elements(x.output, asarray(indices).output, place).output(0))


def where(condition: Any, one: Any, other: Any) -> Node:
    first, second = _alike(one, other)
    return Node(ops.select(asarray(condition).output, first, second).output(0))


def sum(x: Node, axis: Any = None, keepdims: object = False) -> Node:
    return _reduced(ops.reduce_sum, x, axis, keepdims)


def mean(x: Node, axis: Any = None, keepdims: object = False) -> Node:
    return _reduced(ops.reduce_mean, x, axis, keepdims)


def max(x: Node, axis: Any = None, keepdims: object = False) -> Node:
    return _reduced(ops.reduce_max, x, axis, keepdims)


def min(x: Node, axis: Any = None, keepdims: object = False) -> Node:
    return _reduced(ops.reduce_min, x, axis, keepdims)


def any(x: Node, axis: Any = None, keepdims: object = False) -> Node:
    return _reduced(ops.reduce_logical_or, x, axis, keepdims)


def all(x: Node, axis: Any = None, keepdims: object = False) -> Node:
    return _reduced(ops.reduce_logical_and, x, axis, keepdims)


def cumulative_sum(x: Node, axis: int = -1, **how: Any) -> Node:
    return Node(ops.cum_sum(x.output, _index(axis)).output(0))


def argmax(x: Node, axis: int = -1, keepdims: object = False) -> Node:
    """The place of the largest, of equals the first; by comparing, a tenth of what TopK takes."""
    after = x.ndim - 1 - axis % x.ndim
    places = np.arange(x.shape[axis], dtype=np.float32).reshape(-1, *[1] * after)
    largest = x == max(x, axis=axis, keepdims=True)
    found = min(where(largest, places, np.float32(x.shape[axis])), axis=axis, keepdims=keepdims)
    return astype(found, int64)


def top_k(x: Node, count: int) -> tuple[Node, Node]:
    """The largest of each row, falling, and their places; of equals any, in any order.

    OpenVINO takes sixty times as long to find 128 of 4,096 in the order of their places.
    """
    found = ops.topk(x.output, _index(count), x.ndim - 1, "max", "value", _name(int64))
    return Node(found.output(0)), Node(found.output(1))


def sort(x: Node, axis: int = -1, descending: object = False, **how: Any) -> Node:
    order, place = "max" if descending else "min", axis % x.ndim
    count = _index(x.shape[place])
    return Node(ops.topk(x.output, count, place, order, "value").output(0))


def sqrt(x: Node) -> Node:
    return Node(ops.sqrt(x.output).output(0))


def maximum(one: Any, other: Any) -> Node:
    return _of_two(ops.maximum, one, other)


def minimum(one: Any, other: Any) -> Node:
    return _of_two(ops.minimum, one, other)


def matmul(one: Any, other: Any) -> Node:
    first, second = _alike(one, other)
    return Node(ops.matmul(first, second, False, False).output(0))


def vecdot(one: Any, other: Any, axis: int = -1) -> Node:
    return sum(one * other, axis=axis)


def while_loop(
    step: Callable[..., tuple[Node, ...]], going: Node, fixed: Sequence[Node], state: Sequence[Node]
) -> list[Node]:
    """`*state, going = step(*fixed, *state)` for as long as it is going, which may be never."""
    inputs = [*fixed, *state]
    body = [ops.parameter(each.output.get_partial_shape(), _name(each.dtype)) for each in inputs]
    found = step(*(Node(each.output(0)) for each in body))
    results = [each.output for each in found]
    loop = ops.loop(_index(np.iinfo(np.int64).max), going.output)
    loop.set_function(openvino.Model(results, body))
    loop.set_special_body_ports([-1, len(results) - 1])
    for given, inner in zip(fixed, body, strict=False):
        loop.set_invariant_input(inner, given.output)
    for place, (given, inner) in enumerate(zip(state, body[len(fixed) :], strict=True)):
        loop.set_merged_input(inner, given.output, results[place])
    return [Node(loop.get_iter_value(each, -1)) for each in results[:-1]]


def _constant(values: ArrayLike, dtype: Any = None) -> Any:
    array = np.asarray(values, dtype=dtype, order="C")
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    return openvino.op.Constant(array, shared_memory=True).output(0)


def _index(values: Any) -> Any:
    return ops.constant(np.asarray(values, dtype=np.int64)).output(0)


def _name(dtype: np.dtype[Any]) -> Any:
    return openvino.Type(dtype)


def _alike(one: Any, other: Any) -> tuple[Any, Any]:
    """The outputs of two arrays in one type; plain numbers take that of the other."""
    nodes = [each for each in (one, other) if isinstance(each, Node | np.ndarray | np.generic)]
    kinds = [each.dtype for each in nodes] or [float32]
    if len(kinds) == 2:
        common = (
            np.dtype("float32") if "f" in {kinds[0].kind, kinds[1].kind} else np.result_type(*kinds)
        )
    else:
        wide = isinstance(one, float) or isinstance(other, float)
        common = float32 if wide else kinds[0]
    return asarray(one, common).output, asarray(other, common).output


def _of_two(operation: Any, one: Any, other: Any) -> Node:
    return Node(operation(*_alike(one, other)).output(0))


def _reduced(operation: Any, x: Node, axis: Any, keepdims: object) -> Node:
    axes = range(x.ndim) if axis is None else np.atleast_1d(axis)
    found = operation(x.output, _index(list(axes)), keep_dims=keepdims is True)
    return Node(found.output(0))


def _sliced(x: Node, part: slice, axis: int) -> Node:
    if part == slice(None):
        return x
    step = part.step or 1
    ends = (0, np.iinfo(np.int64).max) if step > 0 else (-1, np.iinfo(np.int64).min)
    start = ends[0] if part.start is None else part.start
    stop = ends[1] if part.stop is None else part.stop
    where = [_index([each]) for each in (start, stop, step, axis)]
    return Node(ops.slice(x.output, *where).output(0))
