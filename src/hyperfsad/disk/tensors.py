"""Writing and finding tensors of safetensors files in a stream, whatever their size.

The format is simple: eight bytes say how long the header is; the header is JSON, with the type, the
shape and the place of each tensor; then their bytes follow without gaps.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

SIZES = {"F32": 4, "F16": 2, "I64": 8, "U8": 1}
"""Bytes of a number of each type that we write."""


@dataclass(frozen=True)
class StreamedTensor:
    """A tensor whose bytes come in pieces, row by row, little-endian."""

    kind: str
    shape: tuple[int, ...]
    pieces: Iterable[bytes | memoryview]

    @classmethod
    def of(cls, tensor: "Tensor") -> "StreamedTensor":
        """One that is in memory already."""
        values = tensor.cpu().contiguous().numpy()
        kinds = {"float32": "F32", "uint8": "U8"}
        return cls(kinds[values.dtype.name], values.shape, [values.reshape(-1).view("u1").data])

    @property
    def length(self) -> int:
        """In bytes."""
        return SIZES[self.kind] * math.prod(self.shape)


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file."""

    kind: str
    shape: tuple[int, ...]
    start: int
    """Where its bytes begin in the file."""


def write_tensors(
    path: Path, tensors: Mapping[str, StreamedTensor], metadata: Mapping[str, str]
) -> None:
    """Writes a file that safetensors reads; the tensors lie in their order here, but those of
    wide numbers first, so that all are aligned in memory."""
    ordered = sorted(tensors.items(), key=lambda item: -SIZES[item[1].kind])
    header: dict[str, object] = {"__metadata__": dict(metadata)}
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
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name, tensor in ordered:
            written = 0
            for piece in tensor.pieces:
                written += file.write(piece)
            if written != tensor.length:
                raise ValueError(f"{name} has {written} bytes instead of {tensor.length}.")


def stored_tensors(path: Path) -> dict[str, StoredTensor]:
    """Where each tensor lies, in a file that safetensors has found sound."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    return {
        name: StoredTensor(
            entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0]
        )
        for name, entry in header.items()
        if name != "__metadata__"
    }
