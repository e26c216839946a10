"""A graph of OpenVINO as a file of ONNX, operation by operation; neither torch nor onnx is needed.

`RULES` says for each operation what it is in ONNX. Shapes are known but for the number of images.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import HyperfsadError
from ..version import __version__
from . import protobuf
from .protobuf import ELEMENTS, Message

OPSET, IR_VERSION = 18, 8
IMAGES = "images"
"""The name of the open axis."""


def write_onnx(model: Any, path: Path) -> None:
    """Writes a model of OpenVINO, whose inputs and outputs keep their names."""
    graph = Translation("", set())
    inputs = [_info(each.get_friendly_name(), each.output(0)) for each in model.get_parameters()]
    outputs = []
    for result in model.get_results():
        name, source = result.get_friendly_name(), result.input_value(0)
        outputs.append(_info(name, source))
    graph.translate(model)
    for result in model.get_results():
        graph.add("Identity", graph.name_of(result.input_value(0)), out=result.get_friendly_name())
    with path.open("wb") as file:
        whole = graph.message(inputs, outputs)
        for piece in protobuf.model(whole, OPSET, IR_VERSION, __version__):
            file.write(piece)


def _info(name: str, output: Any) -> Message:
    sizes = output.get_partial_shape()
    shape = [IMAGES if size.is_dynamic else size.get_length() for size in sizes]
    return protobuf.value_info(name, _element(output), shape)


def _element(output: Any) -> str:
    """The type of elements by numpy's name."""
    return str(np.dtype(output.get_element_type().to_dtype()).name)


class Translation:
    """The operations and constants of a graph of ONNX."""

    def __init__(self, prefix: str, used: set[str]) -> None:
        """`prefix` begins the names that are made here: those of a loop's body differ from those
        around it. `used` collects the names that any operation takes, also in a loop's body."""
        self.used = used
        self._nodes: list[Message] = []
        self._constants: dict[str, Message] = {}
        self._prefix, self._count = prefix, 0
        self._names: dict[tuple[str, int], str] = {}

    def translate(self, model: Any, given: Sequence[str] = ()) -> None:
        """All operations of a model; `given` are other names for its inputs than its own."""
        for place, parameter in enumerate(model.get_parameters()):
            own = parameter.get_friendly_name()
            self._names[own, 0] = given[place] if given else own
        for operation in model.get_ordered_ops():
            kind = operation.get_type_name()
            if kind in ("Parameter", "Result"):
                continue
            if kind not in RULES:
                raise HyperfsadError("export-failed", reason=f"ONNX has no rule for {kind}")
            found = RULES[kind](self, operation)
            for port, name in enumerate([found] if isinstance(found, str) else found):
                self._names[operation.get_friendly_name(), port] = name

    def name_of(self, output: Any) -> str:
        """The name of a value that was translated."""
        return self._names[output.get_node().get_friendly_name(), output.get_index()]

    def inputs(self, operation: Any) -> list[str]:
        """The names of what an operation takes."""
        return [self.name_of(each) for each in operation.input_values()]

    def new_name(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count}"

    def add(self, kind: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        """An operation of one output, and the name of that."""
        name = out or self.new_name()
        self._add(kind, inputs, [name], attributes)
        return name

    def several(self, kind: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """An operation of several outputs, and their names."""
        names = [self.new_name() for _ in range(count)]
        self._add(kind, inputs, names, attributes)
        return names

    def _add(
        self, kind: str, inputs: Sequence[str], names: list[str], attributes: dict[str, Any]
    ) -> None:
        self.used.update(inputs)
        self._nodes.append(protobuf.node(kind, inputs, names, attributes))

    def constant(self, values: Any, dtype: Any = None) -> str:
        name = self.new_name()
        self._constants[name] = protobuf.tensor(name, np.asarray(values, dtype=dtype))
        return name

    def axes(self, values: Any) -> str:
        """Whole numbers as a constant."""
        return self.constant(np.ravel(values), np.int64)

    def message(self, inputs: Sequence[Message], outputs: Sequence[Message]) -> Message:
        """The whole graph; what only rules have read is left out."""
        constants = [each for name, each in self._constants.items() if name in self.used]
        return protobuf.graph(self._nodes, constants, inputs, outputs)


def _known(operation: Any, place: int) -> NDArray[Any]:
    """The values of an input that is a constant."""
    values: NDArray[Any] = operation.input_value(place).get_node().data
    return values


def _same(kind: str, **attributes: Any) -> "Rule":
    """An operation that ONNX has, too."""
    return lambda to, op: to.add(kind, *to.inputs(op), **attributes)


def _constant(to: Translation, op: Any) -> str:
    return to.constant(op.data)


def _convert(to: Translation, op: Any) -> str:
    return to.add("Cast", *to.inputs(op), to=ELEMENTS[_element(op.output(0))])


def _mat_mul(to: Translation, op: Any) -> str:
    names, how = to.inputs(op), op.get_attributes()
    for place, key in enumerate(("transpose_a", "transpose_b")):
        if how[key]:
            names[place] = _turned(to, op.input_value(place))
    return to.add("MatMul", *names)


def _turned(to: Translation, matrices: Any) -> str:
    """Matrices with their last two axes exchanged; constants are written so."""
    axes = list(range(len(matrices.get_partial_shape())))
    axes[-2:] = axes[-1], axes[-2]
    if matrices.get_node().get_type_name() == "Constant":
        return to.constant(matrices.get_node().data.transpose(axes))
    return to.add("Transpose", to.name_of(matrices), perm=tuple(axes))


def _reshape(to: Translation, op: Any) -> str:
    return to.add("Reshape", to.inputs(op)[0], to.axes(_known(op, 1)))


def _transpose(to: Translation, op: Any) -> str:
    return to.add("Transpose", to.inputs(op)[0], perm=tuple(map(int, _known(op, 1))))


def _along(kind: str) -> "Rule":
    """An operation whose second input says the axes."""
    return lambda to, op: to.add(kind, to.inputs(op)[0], to.axes(_known(op, 1)))


def _with_axis(kind: str) -> "Rule":
    return lambda to, op: to.add(kind, *to.inputs(op), axis=int(op.get_attributes()["axis"]))


def _gather(to: Translation, op: Any) -> str:
    return to.add("Gather", *to.inputs(op)[:2], axis=_known(op, 2).item())


def _slice(to: Translation, op: Any) -> str:
    start, stop, step, axes = (_known(op, place) for place in range(1, 5))
    return to.add("Slice", to.inputs(op)[0], *map(to.axes, (start, stop, axes, step)))


def _split(to: Translation, op: Any) -> list[str]:
    """`Split` and `VariadicSplit`."""
    axis, count = _known(op, 1).item(), op.get_output_size()
    place = axis % len(op.input_value(0).get_partial_shape())
    sizes = [op.output(port).get_partial_shape()[place].get_length() for port in range(count)]
    return to.several("Split", [to.inputs(op)[0], to.axes(sizes)], count, axis=axis)


def _reduced(kind: str) -> "Rule":
    def rule(to: Translation, op: Any) -> str:
        keeps = int(op.get_attributes()["keep_dims"])
        return to.add(kind, to.inputs(op)[0], to.axes(_known(op, 1)), keepdims=keeps)

    return rule


def _any_or_all(kind: str) -> "Rule":
    """ONNX reduces numbers, not truths."""

    def rule(to: Translation, op: Any) -> str:
        numbers = to.add("Cast", to.inputs(op)[0], to=ELEMENTS["int32"])
        keeps = int(op.get_attributes()["keep_dims"])
        found = to.add(kind, numbers, to.axes(_known(op, 1)), keepdims=keeps)
        return to.add("Cast", found, to=ELEMENTS["bool"])

    return rule


def _top_k(to: Translation, op: Any) -> list[str]:
    how = op.get_attributes()
    inputs = [to.inputs(op)[0], to.axes(_known(op, 1))]
    largest = int(how["mode"] == "max")
    return to.several("TopK", inputs, 2, axis=int(how["axis"]), largest=largest)


def _broadcast(to: Translation, op: Any) -> str:
    return to.add("Expand", to.inputs(op)[0], to.axes(_known(op, 1)))


def _pad(to: Translation, op: Any) -> str:
    pads = np.concatenate([_known(op, 1), _known(op, 2)])
    return to.add("Pad", to.inputs(op)[0], to.axes(pads), *to.inputs(op)[3:])


def _gelu(to: Translation, op: Any) -> str:
    def scaled(values: str, by: float) -> str:
        return to.add("Mul", values, to.constant(by, np.float32))

    (x,) = to.inputs(op)
    if op.get_attributes()["approximation_mode"].lower() == "tanh":
        cube = to.add("Mul", x, to.add("Mul", x, x))
        share = to.add(
            "Tanh", scaled(to.add("Add", x, scaled(cube, 0.044715)), math.sqrt(2 / math.pi))
        )
    else:
        share = to.add("Erf", scaled(x, math.sqrt(0.5)))
    return scaled(to.add("Mul", x, to.add("Add", share, to.constant(1, np.float32))), 0.5)


def _swish(to: Translation, op: Any) -> str:
    x, *slope = to.inputs(op)
    return to.add("Mul", x, to.add("Sigmoid", to.add("Mul", x, *slope) if slope else x))


def _mvn(to: Translation, op: Any) -> str:
    """The normalisation of a layer, which goes on with its scale."""
    how, x = op.get_attributes(), to.inputs(op)[0]
    ones = np.ones(op.output(0).get_partial_shape()[-1].get_length(), np.float32)
    return to.add("LayerNormalization", x, to.constant(ones), axis=-1, epsilon=float(how["eps"]))


def _normalize_l2(to: Translation, op: Any) -> str:
    how, x = op.get_attributes(), to.inputs(op)[0]
    squares = to.add("ReduceSum", to.add("Mul", x, x), to.axes(_known(op, 1)), keepdims=1)
    join = {"max": "Max", "add": "Add"}[how["eps_mode"]]
    bounded = to.add(join, squares, to.constant(how["eps"], np.float32))
    return to.add("Div", x, to.add("Sqrt", bounded))


def _attention(to: Translation, op: Any) -> str:
    """softmax(scale · q·kᵀ)·v, without a mask."""
    query, _, value, *rest = to.inputs(op)
    width = op.input_value(0).get_partial_shape()[-1].get_length()
    scale = rest[1] if len(rest) > 1 else to.constant(1 / math.sqrt(width), np.float32)
    alike = to.add("MatMul", to.add("Mul", query, scale), _turned(to, op.input_value(1)))
    return to.add("MatMul", to.add("Softmax", alike, axis=-1), value)


def _convolution(to: Translation, op: Any) -> str:
    how = op.get_attributes()
    pads = (*how["pads_begin"], *how["pads_end"])
    return to.add("Conv", *to.inputs(op), strides=tuple(how["strides"]), pads=tuple(pads))


def _loop(to: Translation, op: Any) -> list[str]:
    """What the body takes from around it unchanged, it finds by its name."""
    names, inner = to.inputs(op), op.get_function()
    count = to.new_name()
    body = Translation(f"loop{count}_", to.used)
    iteration, before = body.new_name(), body.new_name()
    given = [""] * len(inner.get_parameters())
    merged = []
    for each in op.get_input_descriptions():
        if type(each).__name__ == "MergedInputDescription":
            merged.append(each)
            given[each.body_parameter_index] = body.new_name()
        else:
            given[each.body_parameter_index] = names[each.input_index]
    body.translate(inner, given)
    results = [each.input_value(0) for each in inner.get_results()]
    going = results[-1]  # as `nodes.while_loop` orders them
    inputs = [
        protobuf.value_info(iteration, "int64", []),
        protobuf.value_info(before, "bool", []),
        *(
            _info(given[each.body_parameter_index], results[each.body_value_index])
            for each in merged
        ),
    ]
    after = [results[each.body_value_index] for each in merged]
    outputs = [_info(body.name_of(each), each) for each in (going, *after)]
    found = body.message(inputs, outputs)
    states = [names[each.input_index] for each in merged]
    kept = to.several("Loop", ["", names[1], *states], len(merged), body=found)
    places = {each.body_value_index: name for each, name in zip(merged, kept, strict=True)}
    ordered = sorted(op.get_output_descriptions(), key=lambda each: each.output_index)
    return [places[each.body_value_index] for each in ordered]


Rule = Callable[[Translation, Any], str | list[str]]

RULES: dict[str, Rule] = {
    "Constant": _constant,
    "Convert": _convert,
    "Add": _same("Add"),
    "Subtract": _same("Sub"),
    "Multiply": _same("Mul"),
    "Divide": _same("Div"),
    "FloorMod": _same("Mod"),
    "Power": _same("Pow"),
    "Negative": _same("Neg"),
    "Abs": _same("Abs"),
    "Sqrt": _same("Sqrt"),
    "Maximum": _same("Max"),
    "Minimum": _same("Min"),
    "Greater": _same("Greater"),
    "GreaterEqual": _same("GreaterOrEqual"),
    "Less": _same("Less"),
    "LessEqual": _same("LessOrEqual"),
    "Equal": _same("Equal"),
    "LogicalAnd": _same("And"),
    "LogicalOr": _same("Or"),
    "LogicalNot": _same("Not"),
    "Select": _same("Where"),
    "Sigmoid": _same("Sigmoid"),
    "Softmax": _with_axis("Softmax"),
    "Concat": _with_axis("Concat"),
    "GatherElements": _with_axis("GatherElements"),
    "MatMul": _mat_mul,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _along("Unsqueeze"),
    "Squeeze": _along("Squeeze"),
    "CumSum": lambda to, op: to.add("CumSum", to.inputs(op)[0], to.constant(_known(op, 1))),
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "VariadicSplit": _split,
    "ReduceSum": _reduced("ReduceSum"),
    "ReduceMean": _reduced("ReduceMean"),
    "ReduceMax": _reduced("ReduceMax"),
    "ReduceMin": _reduced("ReduceMin"),
    "ReduceLogicalOr": _any_or_all("ReduceMax"),
    "ReduceLogicalAnd": _any_or_all("ReduceMin"),
    "TopK": _top_k,
    "Broadcast": _broadcast,
    "Pad": _pad,
    "Relu": _same("Relu"),
    "Gelu": _gelu,
    "Swish": _swish,
    "MVN": _mvn,
    "NormalizeL2": _normalize_l2,
    "ScaledDotProductAttention": _attention,
    "Convolution": _convolution,
    "Loop": _loop,
}
"""What each operation of OpenVINO is in ONNX."""
