"""Writing and finding tensors of safetensors files in a stream, whatever their size.

The format is simple: eight bytes say how long the header is; the header is JSON, with the type, the
shape and the place of each tensor; then their bytes follow without gaps. Tensors have checksums of
their own; the rest, from the first byte to the last of the header, has a seal in its metadata: its
sha256, taken while the seal itself is all zeros.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import HyperfsadError

MAX_HEADER_BYTES = 4 << 20
"""Bytes: of some 20,000 images. A stranger's JSON takes up to thirty times its length in memory."""

SEAL = "seal"
_SEALED = re.compile(rb'"seal":"([0-9a-f]{64})"')
_UNSEALED = b'"seal":"' + b"0" * 64 + b'"'

TYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8", "U8": "|u1"}
"""The types of numbers that we write, and as numpy calls them."""
ITEM_BYTES = {kind: np.dtype(name).itemsize for kind, name in TYPES.items()}


@dataclass(frozen=True)
class StreamedTensor:
    """A tensor whose bytes come in pieces, row by row, little-endian."""

    kind: str
    shape: tuple[int, ...]
    pieces: Iterable[bytes | memoryview]

    @classmethod
    def of(cls, tensor: NDArray[Any]) -> "StreamedTensor":
        """One that is in memory already."""
        kinds = {np.dtype(name): kind for kind, name in TYPES.items()}
        values = np.ascontiguousarray(tensor)
        return cls(kinds[values.dtype], values.shape, [values.reshape(-1).view("u1").data])

    @property
    def length(self) -> int:
        """In bytes."""
        return ITEM_BYTES[self.kind] * math.prod(self.shape)


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file."""

    kind: str
    shape: tuple[int, ...]
    start: int
    """Where its bytes begin in the file."""

    @property
    def length(self) -> int:
        """In bytes."""
        return ITEM_BYTES[self.kind] * math.prod(self.shape)

    def read(self, file: IO[bytes]) -> NDArray[Any]:
        """Its values, from the opened file."""
        found = np.empty(self.shape, dtype=TYPES[self.kind])
        file.seek(self.start)
        if file.readinto(found.reshape(-1).view("u1").data) != found.nbytes:  # type: ignore[attr-defined]
            raise ValueError("a tensor ends after the file")
        return found


@dataclass(frozen=True)
class Head:
    """What stands before the tensors of a file."""

    metadata: dict[str, Any]
    tensors: dict[str, StoredTensor]


def are_unit(tokens: NDArray[np.floating[Any]], tolerance: float) -> bool:
    """Whether each row has about the length 1: zeros would match nothing, and NaN everything."""
    squares = np.einsum("...d,...d->...", tokens, tokens, dtype=np.float32, casting="same_kind")
    return bool((np.abs(np.sqrt(squares) - 1) < tolerance).all())


def write_tensors(
    path: Path, tensors: Mapping[str, StreamedTensor], metadata: Mapping[str, str]
) -> None:
    """Writes a file that safetensors reads; the tensors lie in their order here, but those of
    wide numbers first, so that all are aligned in memory. The header is sealed."""
    ordered = sorted(tensors.items(), key=lambda item: -ITEM_BYTES[item[1].kind])
    header: dict[str, object] = {"__metadata__": {**metadata, SEAL: "0" * 64}}
    end = 0
    for name, tensor in ordered:
        start, end = end, end + tensor.length
        header[name] = {
            "dtype": tensor.kind,
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise HyperfsadError(
            "header-too-large", given_mb=len(text) / 1e6, limit_mb=MAX_HEADER_BYTES / 1e6
        )
    with path.open("wb") as file:
        file.write(sealed(len(text).to_bytes(8, "little") + text))
        for name, tensor in ordered:
            written = 0
            for piece in tensor.pieces:
                written += file.write(piece)
            if written != tensor.length:
                raise ValueError(f"{name} has {written} bytes instead of {tensor.length}.")


def sealed(head: bytes) -> bytes:
    """What stands before the tensors, with its seal in the place of whatever is there."""
    blank = _SEALED.sub(_UNSEALED, head)
    digest = hashlib.sha256(blank).hexdigest().encode()
    return blank.replace(_UNSEALED, _UNSEALED.replace(b"0" * 64, digest))


def read_head(path: Path) -> Head:
    """What a file says of itself, before anything of it is believed; ValueError if it is damaged.

    A seal is checked where there is one: safetensors files of other programs have none.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
            raise ValueError("the length of its header is wrong")
        head = start + file.read(length)
    header = read_json(head[8:].decode("utf-8"))
    metadata = header.pop("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(metadata, dict):
        raise ValueError("its header is not an object")
    if SEAL in metadata and (len(_SEALED.findall(head)) != 1 or sealed(head) != head):
        raise ValueError("its header was changed since it was written")
    tensors = {name: _stored(name, entry, 8 + length, size) for name, entry in header.items()}
    if max((end for _, end in tensors.values()), default=8 + length) != size:
        raise ValueError("its tensors do not end where the file ends")
    return Head(metadata, {name: tensor for name, (tensor, _) in tensors.items()})


def _stored(name: str, entry: Any, origin: int, size: int) -> tuple[StoredTensor, int]:
    """A tensor, and where its bytes end in the file."""
    try:
        kind, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        whole = all(type(number) is int and number >= 0 for number in (*shape, start, end))
        width = ITEM_BYTES.get(kind)
    except (KeyError, TypeError, ValueError):
        raise ValueError("it describes a tensor wrongly") from None
    if not whole or len(shape) > 8 or not start <= end <= size - origin:
        raise ValueError("it describes a tensor that it does not hold")
    if width is not None and width * math.prod(shape) != end - start:
        raise ValueError("it describes a tensor of another size")
    return StoredTensor(kind, tuple(shape), origin + start), origin + end


def read_json(text: str) -> Any:
    """JSON from a stranger: no NaN, no numbers of a million digits, no endless nesting."""
    try:
        return json.loads(text, parse_constant=_no_number, parse_int=_short)
    except RecursionError:
        raise ValueError("its header is nested too deeply") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"its header holds {name}")


def _short(digits: str) -> int:
    if len(digits) > 25:
        raise ValueError("its header holds a number of too many digits")
    return int(digits)
