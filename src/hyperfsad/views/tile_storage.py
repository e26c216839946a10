"""Tiles in a detector file: `tiles.<k>` (tiles, layers, N, D), float16, for each normal image, and
`tiles.<k>.crc32` (tiles,)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..disk.tensors import StoredTensor, StreamedTensor, stored_tensors
from ..method.memory import MemoryBank
from .tile_files import NormalTiles, SavedFile
from .tiling import Tiling

LONGEST_SIDE = 1_000_000
"""Pixels along a side of a normal image; whoever claims more only wants our memory."""


def tile_streams(images: Sequence[NormalTiles]) -> dict[str, StreamedTensor]:
    """The tiles of each image, read one by one while they are written."""
    streams = {}
    for number, image in enumerate(images):
        shape = (len(image), *image.shape)
        crc32 = np.array(image.crc32, dtype="<i8").tobytes()
        streams[f"tiles.{number}.crc32"] = StreamedTensor("I64", (len(image),), [crc32])
        streams[f"tiles.{number}"] = StreamedTensor("F16", shape, image.contents())
    return streams


def replaced_files(images: Sequence[NormalTiles], path: Path) -> list[SavedFile]:
    """The files that tiles are read from and that writing to a path would replace."""
    files = {id(image.file): image.file for image in images}.values()
    return [file for file in files if isinstance(file, SavedFile) and file.is_at(path)]


def stored_tiles(
    path: Path, tensors: Any, bank: MemoryBank, header: dict[str, Any]
) -> tuple[NormalTiles, ...]:
    """Where the tiles lie; each is checked when it is read. `tensors` is the opened file."""
    side, sizes = int(header["tiles"]["side"]), header["tiles"]["sizes"]
    grid = header["encoder"]["resolution"] // header["encoder"]["patch"]
    one = (bank.cls.shape[1], grid**2, bank.cls.shape[2])
    places, file = stored_tensors(path), SavedFile(path)
    found = []
    for number, (width, height) in enumerate(sizes):
        if not (side >= grid and 0 < min(width, height) <= max(width, height) <= LONGEST_SIDE):
            raise ValueError("it speaks of tiles that no image has")
        tiling = Tiling.of((int(width), int(height)), side, grid)
        place = places[f"tiles.{number}"]
        if place != StoredTensor("F16", (len(tiling), *one), place.start):
            raise ValueError(f"its tensor tiles.{number} does not fit its settings")
        crc32 = tuple(map(int, tensors.get_tensor(f"tiles.{number}.crc32").tolist()))
        if len(crc32) != len(tiling):
            raise ValueError(f"its tensor tiles.{number}.crc32 does not fit its settings")
        found.append(NormalTiles(tiling, file, place.start, one, crc32))
    if len(found) != len(bank):
        raise ValueError("it has tiles of other images than it remembers")
    return tuple(found)
