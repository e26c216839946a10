"""The tensors and nodes of an ONNX file, without the package onnx.

A file is one message of protocol buffers: fields, each with a number and a wire type. What is not
needed is skipped. Nothing that a file says is believed before it was checked against its bytes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import EncoderError

Message: TypeAlias = "list[tuple[int, int | memoryview]]"
"""Fields by their numbers, in order: a number, or bytes."""

# numbers of fields, of onnx.proto
_GRAPH = 7
_NODE, _INITIALIZER = 1, 5
_INPUT, _OUTPUT, _NODE_NAME, _OPERATION = 1, 2, 3, 4
_DIMS, _TYPE, _TENSOR_NAME, _RAW, _ELSEWHERE = 1, 2, 8, 9, 14

_TYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8"}
_LISTED = {4: "<f4", 10: "<f8"}
"""The fields that list numbers of fixed width, instead of raw bytes."""
_LISTED_SHORT = (5, 7)
"""Those that list whole numbers of any width."""


@dataclass(frozen=True)
class OnnxNode:
    """One operation."""

    operation: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class OnnxGraph:
    """What a file holds."""

    nodes: tuple[OnnxNode, ...]
    tensors: dict[str, NDArray[np.generic]]
    """The initialisers by name; they share the memory of the file's content."""


def read_graph(content: bytes) -> OnnxGraph:
    """The graph of a file; one EncoderError for whatever is wrong with it."""
    try:
        graph = _bytes(_fields(memoryview(content)), _GRAPH)
        nodes, tensors = [], {}
        for number, value in _fields(graph):
            if number == _NODE:
                nodes.append(_node(_fields(_message(value))))
            elif number == _INITIALIZER:
                name, array = _tensor(_fields(_message(value)))
                tensors[name] = array
    except (ValueError, OverflowError) as error:
        raise EncoderError("onnx-damaged", reason=str(error)) from error
    return OnnxGraph(tuple(nodes), tensors)


def _fields(message: memoryview) -> Message:
    """The fields of a message."""
    found: Message = []
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = _varint(message, place)
            found.append((number, value))
            continue
        if kind == 2:
            length, place = _varint(message, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        if length > len(message) - place:
            raise ValueError("a field reaches beyond the end")
        found.append((number, message[place : place + length]))
        place += length
    return found


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place after it."""
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise ValueError("a number reaches beyond the end")
        byte = message[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & (1 << 64) - 1, place
    raise ValueError("a number is too long")


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number where a message was expected")
    return value


def _bytes(message: Message, field: int) -> memoryview:
    """A field that stands there once; empty where it is missing."""
    found = [_message(value) for number, value in message if number == field]
    if len(found) > 1:
        raise ValueError(f"field {field} stands there twice")
    return found[0] if found else memoryview(b"")


def _texts(message: Message, field: int) -> tuple[str, ...]:
    return tuple(str(_message(value), "utf-8") for number, value in message if number == field)


def _text(message: Message, field: int) -> str:
    return str(_bytes(message, field), "utf-8")


def _node(message: Message) -> OnnxNode:
    return OnnxNode(
        _text(message, _OPERATION),
        _text(message, _NODE_NAME),
        _texts(message, _INPUT),
        _texts(message, _OUTPUT),
    )


def _numbers(message: Message, field: int) -> Iterator[int]:
    """Whole numbers with a sign, one a field or many in one."""
    for number, value in message:
        if number != field:
            continue
        if isinstance(value, int):
            yield _signed(value)
            continue
        place = 0
        while place < len(value):
            found, place = _varint(value, place)
            yield _signed(found)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _tensor(message: Message) -> tuple[str, NDArray[np.generic]]:
    """The name and the values of an initialiser."""
    name = _text(message, _TENSOR_NAME)
    kind, *_ = [*_numbers(message, _TYPE), 0]
    shape = tuple(_numbers(message, _DIMS))
    if kind not in _TYPES or min(shape, default=0) < 0 or len(shape) > 8:
        raise ValueError(f"{name!r} has a type or a shape that is not known")
    if any(_numbers(message, _ELSEWHERE)):
        raise ValueError(f"the values of {name!r} lie in another file")
    values = _values(message, np.dtype(_TYPES[kind]))
    if values.size != math.prod(shape):
        raise ValueError(f"{name!r} has {values.size} values instead of {math.prod(shape)}")
    return name, values.reshape(shape)


def _values(message: Message, kind: "np.dtype[np.generic]") -> NDArray[np.generic]:
    if any(number == _RAW for number, _ in message):
        return np.frombuffer(_bytes(message, _RAW), kind)
    for field, width in _LISTED.items():
        listed = [_message(value) for number, value in message if number == field]
        if listed:
            return np.frombuffer(b"".join(listed), width).astype(kind)
    whole = [each for field in _LISTED_SHORT for each in _numbers(message, field)]
    if kind == np.float16:  # as the bits of whole numbers
        return np.array(whole, np.int64).astype(np.uint16).view(np.float16)
    return np.array(whole, np.int64).astype(kind)
