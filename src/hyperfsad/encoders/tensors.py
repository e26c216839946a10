"""The tensors of a folder with safetensors files, under one set of names, each read when it is
asked for."""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..disk.tensors import read_head
from ..errors import EncoderError
from .families import Rename, Tower

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True)
class StoredArray:
    """An array in a file; `read` gives it in float32, whatever the file holds."""

    file: Path
    kind: str
    shape: tuple[int, ...]
    start: int

    def read(self, rows: int | None = None) -> NDArray[np.float32]:
        """The array, or its first rows."""
        if self.kind not in _TYPES:
            raise ValueError(f"numbers of the type {self.kind} are not known")
        shape = self.shape if rows is None else (min(rows, self.shape[0]), *self.shape[1:])
        kind, count = np.dtype(_TYPES[self.kind]), math.prod(shape)
        with self.file.open("rb") as file:
            if self.start + count * kind.itemsize > os.fstat(file.fileno()).st_size:
                raise ValueError(f"an array of {shape} ends after the file")
            file.seek(self.start)
            found = np.fromfile(file, kind, count)
        if self.kind == "BF16":  # the upper half of a float32
            found = (found.astype("<u4") << 16).view("<f4")
        return found.astype(np.float32, copy=False).reshape(shape)

    def part(self, place: int, count: int) -> "StoredArray":
        """One of several arrays that lie in this one, row after row."""
        rows, rest = divmod(self.shape[0], count) if self.shape else (0, 1)
        if rest:
            raise ValueError(f"{self.shape} is not divided by {count}")
        shape = (rows, *self.shape[1:])
        width = np.dtype(_TYPES.get(self.kind, "u1")).itemsize
        return replace(self, shape=shape, start=self.start + place * math.prod(shape) * width)


@dataclass(frozen=True)
class NoArray:
    """What a file leaves out because it is zero."""

    shape: tuple[int, ...]

    def read(self, rows: int | None = None) -> NDArray[np.float32]:
        """Zeros."""
        return np.zeros(self.shape, np.float32)


Arrays: TypeAlias = Mapping[str, StoredArray | NoArray]


def stored_arrays(folder: Path) -> dict[str, StoredArray]:
    """All arrays of a folder by the names in its files; damage is a ValueError."""
    return {
        name: StoredArray(file, tensor.kind, tensor.shape, tensor.start)
        for file in _files(folder)
        for name, tensor in read_head(file).tensors.items()
    }


def _files(folder: Path) -> list[Path]:
    """The files that hold the model: those of the index, the usual one, or the only one."""
    index = folder / INDEX
    if index.is_file():
        named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if not all(isinstance(name, str) and Path(name).name == name for name in named):
            raise ValueError(f"{INDEX} names a file elsewhere")
        return [folder / name for name in sorted(named)]
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    found = sorted(folder.glob("*.safetensors"))
    if len(found) != 1:
        raise EncoderError("weights-files", folder=folder, count=len(found))
    return found


def named_arrays(
    stored: Mapping[str, StoredArray], names: Mapping[str, list[str]]
) -> dict[str, StoredArray | NoArray]:
    """The arrays under our names; of one that holds several, each by itself."""
    found: dict[str, StoredArray | NoArray] = {}
    for name, array in stored.items():
        parts = names[name]
        for place, part in enumerate(parts):
            found[part] = array if len(parts) == 1 else array.part(place, len(parts))
    return found


def our_names(name: str, renames: Iterable[Rename]) -> list[str]:
    """What a tensor is called here; several names where it holds several, row after row."""
    names = [name]
    for rule in renames:
        if re.fullmatch(rule.pattern, names[0]):
            found = re.sub(rule.pattern, rule.name, names[0])
            names = [found.replace("{}", part) for part in rule.parts] or [found]
    return names


@dataclass(frozen=True)
class TowerWeights:
    """A tower and its tensors."""

    tower: Tower
    arrays: Arrays

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        return self.arrays[name].read()

    def fingerprint(self, depth: int) -> str:
        """A hash of every vector and of the first row of every matrix, of the first blocks."""
        digest = hashlib.sha256()
        for name in self.tower.tensors(depth):
            array = self.arrays[name]
            digest.update(name.encode())
            digest.update(array.read(rows=1 if len(array.shape) > 1 else None).tobytes())
        return digest.hexdigest()

    def checksum(self, depth: int) -> str:
        """A hash of all numbers that the tokens of the first blocks depend on."""
        digest = hashlib.sha256()
        for name in self.tower.tensors(depth):
            digest.update(name.encode())
            digest.update(self[name].tobytes())
        return digest.hexdigest()
