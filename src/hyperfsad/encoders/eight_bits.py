"""Products in 8 bits: the matrices are rounded once, the tokens while they are computed.

So nothing is calibrated on pictures, and one encoder serves all products. OpenVINO does the second
part where the CPU has the instructions for it (VNNI).
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .runtime import GROUP, CompileOptions, import_openvino, openvino_operations
from .specs import INT8

ROUNDED = 1e-4
"""How far the results of the probe are from float32 at least, once they were rounded."""


def rounded(matrix: NDArray[np.float32]) -> Any:
    """The node of a matrix (out, in) in 8 bits, each row on a scale of its own."""
    ops = openvino_operations()
    scales = np.maximum(np.abs(matrix).max(axis=1, keepdims=True), np.float32(1e-12)) / 127
    steps = np.rint(matrix / scales).astype(np.int8)
    return ops.multiply(ops.convert(ops.constant(steps), np.float32), ops.constant(scales))


@cache
def has_eight_bits(core: Any) -> bool:
    """Whether OpenVINO rounds tokens here. It does not say, so a small product is computed."""
    steps = np.linspace(-1, 1, GROUP, dtype=np.float32)
    tokens, matrix = np.sin(37 * steps + 1)[None], np.cos(np.outer(steps, 5 * steps))
    ops = openvino_operations()
    given = ops.parameter(list(tokens.shape), np.float32)
    product = ops.matmul(given, rounded(matrix), False, True)
    model = import_openvino().Model([product], [given], "probe")
    found, exact = (how.compile(core, model)(tokens)[0] for how in (_EIGHT, _PLAIN))
    return bool(np.abs(found - exact).max() > ROUNDED)


_PLAIN, _EIGHT = CompileOptions(1), CompileOptions(1, precision=INT8)
