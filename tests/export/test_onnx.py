"""Every operation that is translated to ONNX computes what it computes in OpenVINO."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad import HyperfsadError
from hyperfsad.export import nodes
from hyperfsad.export.nodes import Node, ops
from hyperfsad.export.onnx import RULES, write_onnx
from hyperfsad.export.openvino import model_of
from hyperfsad.export.writing import export
from tests.codes import raises
from tests.export.exporting import fitted, graph_of

SHAPE = (6, 8)
VALUES = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
KERNEL = np.random.default_rng(1).standard_normal((4, 3, 2, 2)).astype(np.float32)


def whole(x: Any) -> Any:
    return ops.convert(ops.multiply(ops.abs(x), np.float32(9)), "i64")


def pictures(x: Any) -> Any:
    return ops.reshape(x, np.array([-1, 3, 4, 4]), special_zero=False)


def attention(x: Any, *more: Any) -> Any:
    heads = ops.transpose(ops.reshape(x, np.array([0, 0, 2, 4]), special_zero=True), [0, 2, 1, 3])
    turned = ops.multiply(heads, np.float32(0.7))
    return ops.scaled_dot_product_attention(heads, turned, ops.negative(heads), *more)


def looped(x: Any) -> list[Any]:
    """Adds until all are large; the body finds what does not change by its name."""

    def step(by: Node, state: Node, times: Node) -> tuple[Node, Node, Node]:
        found = state + by
        return found, times + 1, nodes.any(found < 20)

    start = Node(x.output(0))
    state = [start, nodes.zeros_like(start)]
    found = nodes.while_loop(step, nodes.any(start < 20), [nodes.maximum(start, -start) + 1], state)
    return [each.output for each in found]


CASES: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: ops.divide(ops.subtract(ops.add(x, x), VALUES[:6]), VALUES[0]),
    "floor": lambda x: ops.floor_mod(whole(x), np.int64(4)),
    "whole division": lambda x: ops.divide(whole(x), np.int64(4)),
    "bounds": lambda x: ops.minimum(ops.maximum(x, np.float32(-0.5)), np.float32(0.5)),
    "root": lambda x: ops.sqrt(ops.abs(ops.negative(x))),
    "power": lambda x: ops.power(x, np.float32(2)),
    "more": lambda x: ops.convert(ops.greater(x, VALUES[0]), "f32"),
    "at least": lambda x: ops.convert(ops.greater_equal(x, x), "f32"),
    "less": lambda x: ops.convert(ops.less(x, VALUES[0]), "f32"),
    "at most": lambda x: ops.convert(ops.less_equal(x, x), "f32"),
    "equal": lambda x: ops.convert(ops.equal(whole(x), np.int64(3)), "f32"),
    "both": lambda x: ops.select(
        ops.logical_and(ops.greater(x, VALUES[0]), ops.logical_not(ops.less(x, VALUES[1]))),
        x,
        ops.negative(x),
    ),
    "either": lambda x: ops.select(
        ops.logical_or(ops.greater(x, VALUES[0]), ops.less(x, VALUES[1])), x, np.float32(0)
    ),
    "any": lambda x: ops.reduce_logical_or(ops.greater(x, np.float32(1)), [-1], keep_dims=False),
    "all": lambda x: ops.reduce_logical_and(ops.less(x, np.float32(1)), [-1], keep_dims=True),
    "sum": lambda x: ops.reduce_sum(x, [1], keep_dims=True),
    "mean": lambda x: ops.reduce_mean(x, [2], keep_dims=False),
    "largest": lambda x: ops.reduce_max(x, [1, 2], keep_dims=False),
    "least": lambda x: ops.reduce_min(x, [2], keep_dims=True),
    "running sum": lambda x: ops.cum_sum(x, np.int64(2)),
    "product": lambda x: ops.matmul(x, VALUES, False, False),
    "turned constant": lambda x: ops.matmul(x, VALUES, False, True),
    "turned input": lambda x: ops.matmul(x, x, True, False),
    "axes": lambda x: ops.squeeze(ops.unsqueeze(ops.transpose(x, [0, 2, 1]), [1]), [1]),
    "joined": lambda x: ops.concat([x, ops.sigmoid(x)], 2),
    "picked": lambda x: ops.gather(x, np.array([3, 0]), np.int64(1)),
    "one": lambda x: ops.gather(x, np.int64(2), np.int64(2)),
    "each": lambda x: ops.gather_elements(x, ops.floor_mod(whole(x), np.int64(8)), 2),
    "part": lambda x: ops.slice(x, [5], [0], [-2], [1]),
    "halves": lambda x: ops.split(x, 2, 2).output(1),
    "parts": lambda x: ops.variadic_split(x, 1, [1, 5]).output(1),
    "first": lambda x: ops.topk(x, 3, 2, "max", "value", "i64", stable=True).outputs(),
    "last": lambda x: ops.topk(x, 3, 1, "min", "value", "i64", stable=True).outputs(),
    "spread": lambda x: ops.broadcast(
        ops.unsqueeze(x, [1]), [1, 2, 1, 1], broadcast_spec="BIDIRECTIONAL"
    ),
    "padded": lambda x: ops.pad(x, [0, 2, 0], [0, 0, 1], "constant", np.float32(3)),
    "padded by zeros": lambda x: ops.pad(x, [0, 2, 0], [0, 0, 1], "constant"),
    "softmax": lambda x: ops.softmax(x, 2),
    "relu": ops.relu,
    "gelu": lambda x: ops.gelu(x, "erf"),
    "gelu by tanh": lambda x: ops.gelu(x, "tanh"),
    "swish": ops.swish,
    "swish of CLIP": lambda x: ops.swish(x, np.float32(1.702)),
    "layer norm": lambda x: ops.mvn(x, [2], True, 1e-5, "INSIDE_SQRT"),
    "length": lambda x: ops.normalize_l2(x, [2], 1e-24, "max"),
    "attention": attention,
    "patches": lambda x: ops.convolution(pictures(x), KERNEL, [2, 2], [0, 0], [0, 0], [1, 1]),
    "loop": looped,
}


def drawn(name: str, x: Any) -> list[Node]:
    found = CASES[name](x)
    outputs = found if isinstance(found, list) else [found]
    return [Node(each if hasattr(each, "get_index") else each.output(0)) for each in outputs]


@pytest.mark.parametrize("name", CASES)
def test_an_operation_computes_the_same(name: str, tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((4, *SHAPE)).astype(np.float32)
    by_kind = [
        graph_of(lambda node: drawn(name, node.output.get_node()), kind, tmp_path, x=SHAPE)(x=x)
        for kind in ("openvino", "onnx")
    ]
    for one, other in zip(*by_kind, strict=True):
        assert one.shape == other.shape
        assert np.allclose(one, other, rtol=1e-5, atol=1e-6)


def test_every_rule_is_tried() -> None:
    tried = set()
    for name in CASES:
        x = ops.parameter([-1, *SHAPE], np.float32)
        model = model_of({"x": x}, {str(n): each for n, each in enumerate(drawn(name, x))})
        tried |= {each.get_type_name() for each in model.get_ops()}
    assert set(RULES) == tried - {"Parameter", "Result"}


def test_a_file_is_valid(tiny: str, tmp_path: Path) -> None:
    checker = pytest.importorskip("onnx.checker")
    export(fitted(tiny, "default", 2), tmp_path / "model", "onnx")
    checker.check_model(tmp_path / "model" / "model.onnx", full_check=True)


def test_what_has_no_rule_is_refused(tmp_path: Path) -> None:
    x = ops.parameter([-1, *SHAPE], np.float32)
    model = model_of({"x": x}, {"y": Node(ops.erf(x).output(0))})
    with raises(HyperfsadError, "export-failed"):
        write_onnx(model, tmp_path / "model.onnx")
