"""The tiles of normal images: their tokens stay on disk, and are read tile by tile.

Those of one image of 12,000×9,000 pixels take 3.5 GB at half precision, which keeps maps the same
to four digits. While a detector learns they go to a temporary file. In a saved detector they are
tensors of its file, read at their place, since pages that are mapped count as memory: `tiles.<k>`
(tiles, layers, N, D), float16, for each normal image, and `tiles.<k>.crc32` (tiles,).
"""

import errno
import os
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, to_numpy
from ..disk.tensors import StoredTensor, StreamedTensor, are_unit, read_head
from ..errors import DetectorFileError, HyperfsadError, reason
from ..method.memory import MemoryBank
from .tiling import Tiling

UNIT_TOLERANCE = 0.1
"""How far the length of a token at half precision may be from 1."""


class TileFile:
    """Where tokens lie: in a detector file, opened when it is first read; without a path, in a
    temporary file that is gone when nothing refers to it any more, also after a crash."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = None if path is None else path.absolute()
        self.process = os.getpid()
        """Only it may append: a forked one would write to the same places."""
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._size = 0
        on_disk = os.access("/var/tmp", os.W_OK | os.X_OK)  # where /tmp may be memory
        self._folder = os.environ.get("TMPDIR") or (on_disk and "/var/tmp") or tempfile.gettempdir()
        if path is None:
            try:
                self._file = tempfile.TemporaryFile(  # noqa: SIM115 (it lives as long as this)
                    dir=self._folder, prefix="hyperfsad-"
                )
            except OSError as error:
                raise self._refusal(error) from error

    @property
    def name(self) -> str:
        """For people."""
        return str(self.path or f"The temporary file in {self._folder}")

    def append(self, content: bytes) -> int:
        """Writes at the end of a temporary file, and says where that was."""
        assert self._file is not None
        with self._lock:
            start = self._size
            try:
                self._file.seek(start)
                self._file.write(content)
                self._file.flush()
            except OSError as error:
                raise self._refusal(error) from error
            self._size += len(content)
        return start

    def read(self, start: int, length: int) -> bytes:
        """`length` bytes from a place on; where it can, without moving that of a forked process."""
        try:
            with self._lock:
                if self._file is None:
                    assert self.path is not None
                    self._file = self.path.open("rb")
                if not hasattr(os, "pread"):
                    self._file.seek(start)
                    return self._file.read(length)
                parts: list[bytes] = []
                while length > 0 and (part := os.pread(self._file.fileno(), length, start)):
                    parts.append(part)
                    start, length = start + len(part), length - len(part)
                return b"".join(parts)
        except OSError as error:
            raise DetectorFileError(
                "tile-unreadable", file=self.name, reason=reason(error)
            ) from error

    def is_at(self, path: Path) -> bool:
        """Whether writing to a path would replace this file."""
        try:
            return self.path is not None and self.path.samefile(path)
        except OSError:
            return False

    def close(self) -> None:
        """Lets a detector file be replaced; it is opened again when it is next read."""
        with self._lock:
            if self._file is not None and self.path is not None:
                self._file.close()
                self._file = None

    def __deepcopy__(self, _: object) -> "TileFile":
        """What is written is never changed, so all copies may read it."""
        return self

    def __getstate__(self) -> Path | bytes:
        """What is pickled: where the file lies; all of a temporary one, which has no name."""
        return self.path or self.read(0, self._size)

    def __setstate__(self, state: Path | bytes) -> None:
        self.__init__(None if isinstance(state, bytes) else state)  # type: ignore[misc]
        if isinstance(state, bytes):
            self.append(state)

    def _refusal(self, error: OSError) -> HyperfsadError:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else reason(error).lower()
        return HyperfsadError("tile-spool-full", folder=self._folder, reason=why)


@dataclass(frozen=True)
class NormalTiles:
    """The tiles of one normal image."""

    tiling: Tiling
    file: TileFile
    start: int
    """Where the first tile lies in the file; the others follow it."""
    shape: tuple[int, int, int]
    """Of one tile's tokens: (layers, patches, D)."""
    crc32: tuple[int, ...]
    """Of each tile, checked whenever it is read: a whole file of gigabytes never is."""

    def __len__(self) -> int:
        return len(self.tiling)

    @property
    def tile_bytes(self) -> int:
        """What a tile takes on disk."""
        return 2 * int(np.prod(self.shape))

    def tokens(self, index: int) -> NDArray[np.float32]:
        """The tokens of a tile, (layers, patches, D)."""
        stored = np.frombuffer(self.content(index), dtype="<f2")
        tokens = stored.reshape(self.shape).astype(np.float32)
        if not are_unit(tokens, UNIT_TOLERANCE):
            raise self._damaged()
        return tokens

    def content(self, index: int) -> bytes:
        """The bytes of a tile, as they were written."""
        size = self.tile_bytes
        found = self.file.read(self.start + index * size, size)
        if zlib.crc32(found) != self.crc32[index]:
            raise self._damaged()
        return found

    def contents(self) -> Iterator[bytes]:
        """The bytes of all tiles, one after the other."""
        return (self.content(index) for index in range(len(self)))

    def _damaged(self) -> DetectorFileError:
        return DetectorFileError("tile-damaged", file=self.file.name)


def write_tiles(spool: TileFile, tiling: Tiling, tiles: Iterable[Array]) -> NormalTiles:
    """Writes the tokens (layers, patches, D) of all tiles of an image, in their order.

    Nothing else must be written to the spool in between.
    """
    starts, crc32, shape = [], [], (0, 0, 0)
    for tokens in tiles:
        layers, patches, width = tokens.shape
        shape = (layers, patches, width)
        content = to_numpy(tokens).astype("<f2").tobytes()
        starts.append(spool.append(content))
        crc32.append(zlib.crc32(content))
    assert len(starts) == len(tiling)
    return NormalTiles(tiling, spool, starts[0], shape, tuple(crc32))


def tile_streams(images: Sequence[NormalTiles]) -> dict[str, StreamedTensor]:
    """The tiles of each image, read one by one while they are written."""
    streams = {}
    for number, image in enumerate(images):
        shape = (len(image), *image.shape)
        crc32 = np.array(image.crc32, dtype="<i8").tobytes()
        streams[f"tiles.{number}.crc32"] = StreamedTensor("I64", (len(image),), [crc32])
        streams[f"tiles.{number}"] = StreamedTensor("F16", shape, image.contents())
    return streams


def replaced_files(images: Sequence[NormalTiles], path: Path) -> list[TileFile]:
    """The files that tiles are read from and that writing to a path would replace."""
    files = {id(image.file): image.file for image in images}.values()
    return [file for file in files if file.is_at(path)]


def stored_tiles(
    path: Path, opened: IO[bytes], bank: MemoryBank, header: dict[str, Any]
) -> tuple[NormalTiles, ...]:
    """Where the tiles lie; each is checked when it is read."""
    side, sizes = header["tiles"]["side"], header["tiles"]["sizes"]
    grid = header["encoder"]["resolution"] // header["encoder"]["patch"]
    one = (bank.cls.shape[1], grid**2, bank.cls.shape[2])
    places, file = read_head(path).tensors, TileFile(path)
    if len(sizes) != len(bank) or side < grid:
        raise ValueError("it has tiles of other images than it remembers")
    found = []
    for number, (width, height) in enumerate(sizes):
        place = places[f"tiles.{number}"]
        count = Tiling.count((width, height), side, grid)  # before the tiles are laid out
        if place != StoredTensor("F16", (count, *one), place.start):
            raise ValueError(f"its tensor tiles.{number} does not fit its settings")
        tiling = Tiling.of((width, height), side, grid)
        crc32 = tuple(places[f"tiles.{number}.crc32"].read(opened).tolist())
        if len(crc32) != len(tiling):
            raise ValueError(f"its tensor tiles.{number}.crc32 does not fit its settings")
        found.append(NormalTiles(tiling, file, place.start, one, crc32))
    return tuple(found)
