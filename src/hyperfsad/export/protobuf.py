"""The little of protocol buffers that a file of ONNX needs, written and never read.

A message is a list of pieces, so that gigabytes of constants are never joined in memory. The
numbers of fields stand in onnx.proto3 of the ONNX project.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Message: TypeAlias = list[bytes | memoryview]

ELEMENTS = {"float32": 1, "uint8": 2, "int32": 6, "int64": 7, "bool": 9, "float64": 11}
"""Types of elements by the names of numpy."""
_VARINT, _LENGTH, _FLOAT = 0, 2, 5


def field(number: int, value: int | float | str | bytes | Message) -> Message:
    """One field of a message; a message among others is a field, too."""
    if isinstance(value, int):
        return [_varint(number << 3 | _VARINT) + _varint(value)]
    if isinstance(value, float):
        return [_varint(number << 3 | _FLOAT) + struct.pack("<f", value)]
    pieces = (
        value if isinstance(value, list) else [value.encode() if isinstance(value, str) else value]
    )
    size = sum(memoryview(piece).nbytes for piece in pieces)
    return [_varint(number << 3 | _LENGTH) + _varint(size), *pieces]


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers are written as if they had 64 bits
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def joined(fields: Iterable[Message]) -> Message:
    """A message of several fields."""
    return [piece for each in fields for piece in each]


def tensor(name: str, values: NDArray[Any]) -> Message:
    """A constant (TensorProto)."""
    sizes = [field(1, size) for size in values.shape]
    content = np.ascontiguousarray(values).data.cast("B") if values.size else b""
    return joined(
        [*sizes, field(2, ELEMENTS[values.dtype.name]), field(8, name), field(9, [content])]
    )


def value_info(name: str, element: str, shape: Sequence[int | str]) -> Message:
    """The name, type and shape of an input or output (ValueInfoProto); a name is an open length."""
    lengths = [field(1, field(2 if isinstance(size, str) else 1, size)) for size in shape]
    kind = joined([field(1, ELEMENTS[element]), field(2, joined(lengths))])
    return joined([field(1, name), field(2, field(1, kind))])


def node(
    kind: str, inputs: Iterable[str], outputs: Iterable[str], attributes: Mapping[str, Any]
) -> Message:
    """One operation (NodeProto)."""
    parts = [field(1, each) for each in inputs] + [field(2, each) for each in outputs]
    parts += [field(3, next(iter(outputs), kind)), field(4, kind)]
    return joined([*parts, *(field(5, _attribute(*each)) for each in attributes.items())])


def _attribute(name: str, value: Any) -> Message:
    """A number, a text, whole numbers or a graph (AttributeProto)."""
    if isinstance(value, int):
        content, kind = field(3, value), 2
    elif isinstance(value, float):
        content, kind = field(2, value), 1
    elif isinstance(value, str):
        content, kind = field(4, value), 3
    elif isinstance(value, tuple):
        content, kind = joined(field(8, each) for each in value), 7
    else:
        content, kind = field(6, value), 5
    return joined([field(1, name), content, field(20, kind)])


def graph(
    nodes: Iterable[Message],
    constants: Iterable[Message],
    inputs: Iterable[Message],
    outputs: Iterable[Message],
) -> Message:
    """GraphProto."""
    parts = [(1, nodes), (5, constants), (11, inputs), (12, outputs)]
    fields = [field(number, each) for number, group in parts for each in group]
    return joined([field(2, "hyperfsad"), *fields])


def model(of_graph: Message, opset: int, ir_version: int, version: str) -> Message:
    """A whole file (ModelProto)."""
    imported = joined([field(1, ""), field(2, opset)])
    producer = [field(2, "hyperfsad"), field(3, version)]
    return joined([field(1, ir_version), *producer, field(7, of_graph), field(8, imported)])
