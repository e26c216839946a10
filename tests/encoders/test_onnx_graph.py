"""ONNX files are read as the package onnx reads them, and damage is one error."""

import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad.encoders import REGISTRY
from hyperfsad.encoders.onnx_graph import OnnxGraph, read_graph
from hyperfsad.errors import EncoderError
from tests.codes import raises


def read_by_onnx(content: bytes) -> Any:
    onnx = pytest.importorskip("onnx", reason="compares with onnx")
    return onnx.load_model_from_string(content).graph


def require_same(found: OnnxGraph, content: bytes) -> None:
    onnx = pytest.importorskip("onnx", reason="compares with onnx")
    expected = read_by_onnx(content)
    assert [
        (node.operation, node.name, list(node.inputs), list(node.outputs)) for node in found.nodes
    ] == [(node.op_type, node.name, list(node.input), list(node.output)) for node in expected.node]
    assert list(found.tensors) == [tensor.name for tensor in expected.initializer]
    for tensor in expected.initializer:
        array, ours = onnx.numpy_helper.to_array(tensor), found.tensors[tensor.name]
        assert ours.dtype == array.dtype
        assert ours.shape == array.shape
        assert ours.tobytes() == array.tobytes()


@pytest.mark.parametrize("name", ["clip-vitb16", "dinov2-vits14"])
def test_the_wheels_are_read_as_onnx_reads_them(name: str, wheel_of: Callable[[str], Path]) -> None:
    wheel = REGISTRY[name].wheel
    assert wheel is not None
    with zipfile.ZipFile(wheel_of(name)) as archive:
        content = archive.read(wheel.member)
    found = read_graph(content)
    assert len(found.tensors) > 100
    require_same(found, content)


VALUES = {
    "float32": [[1.5, -2.0], [3e30, 0.0]],
    "float64": [0.1, -1e300],
    "float16": [1.5, -0.25, 65504.0],
    "int64": [-1, 0, 2**62],
    "int32": [-(2**31), 7],
    "int8": [-128, 127, 0],
    "uint8": [0, 255],
    "bool": [True, False],
}


def model(raw: bool) -> bytes:
    """Every type of numbers, as raw bytes or as lists, a number alone and an empty array."""
    onnx = pytest.importorskip("onnx", reason="writes with onnx")
    tensors = []
    for kind, values in VALUES.items():
        array = np.array(values, kind)
        number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        listed = array.tobytes() if raw else array.flatten().tolist()
        tensors.append(onnx.helper.make_tensor(kind, number, array.shape, listed, raw=raw))
    tensors.append(onnx.numpy_helper.from_array(np.array(2.5, np.float32), "scalar"))
    tensors.append(onnx.numpy_helper.from_array(np.zeros((0, 3), np.float32), "empty"))
    nodes = [onnx.helper.make_node("Add", ["float32", "x"], ["y"], name="/blocks.0/Add")]
    graph = onnx.helper.make_graph(nodes, "graph", [], [], initializer=tensors)
    content: bytes = onnx.helper.make_model(graph).SerializeToString()
    return content


@pytest.mark.parametrize("raw", [False, True])
def test_every_type_is_read(raw: bool) -> None:
    require_same(read_graph(model(raw)), model(raw))


@pytest.mark.parametrize("raw", [False, True])
def test_damage_is_one_error_or_none(raw: bool) -> None:
    """Whatever is flipped or cut: never another exception, and never a long wait."""
    content, chance = model(raw), random.Random(3)
    for length in range(0, len(content), 3):
        _read(content[:length])
    for _ in range(3000):
        harmed = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            harmed[chance.randrange(len(harmed))] = chance.randrange(256)
        _read(bytes(harmed))


def _read(content: bytes) -> None:
    try:
        read_graph(content)
    except EncoderError as error:
        assert error.code == "onnx-damaged"  # noqa: PT017


def field(number: int, content: bytes) -> bytes:
    """A field of bytes, shorter than 128."""
    return bytes([number << 3 | 2, len(content)]) + content


def tensor(*fields: bytes) -> bytes:
    return field(7, field(5, b"".join(fields)))


@pytest.mark.parametrize(
    "content",
    [
        b"\xff" * 12,
        b"\x3a\xff\xff\xff\xff\x0f",
        b"\x3b",
        b"\x38\x01",
        field(7, b"") * 2,
        tensor(b"\x10\x01", b"\x08\x05", field(9, bytes(16))),
        tensor(b"\x10\x01", b"\x08" + b"\xff" * 9 + b"\x01", field(9, bytes(4))),
        tensor(b"\x10\x01", b"\x08\x02", field(9, bytes(7))),
        tensor(b"\x10\x63", b"\x08\x01", field(9, bytes(4))),
        tensor(b"\x10\x01", b"\x08\x01" * 9, field(9, bytes(4))),
        tensor(b"\x10\x01", b"\x08\x01", b"\x70\x01"),
        tensor(field(8, b"\xff\xfe")),
    ],
)
def test_what_a_file_says_is_checked_against_its_bytes(content: bytes) -> None:
    with raises(EncoderError, "onnx-damaged"):
        read_graph(content)
