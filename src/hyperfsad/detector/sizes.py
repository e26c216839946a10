"""Why a detector file is as large as it is: nearly all of it is patch tokens of good parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..disk.tensors import StoredTensor
from ..wording import count
from .file import UNLABELLED, DetectorFile


@dataclass(frozen=True)
class MemorySize:
    """What the memory of one product is made of."""

    good_parts: int
    orientations: int
    """In which each is remembered."""
    patches: int
    """Of one orientation."""
    layers: int
    width: int
    """Numbers of a token."""
    bytes: int
    """Of the patch tokens of good parts, and no more."""
    tiles: int
    """Bytes of the tiles of good parts."""
    unlabelled: int
    """Bytes of the tokens of unlabelled parts."""

    @property
    def number_bytes(self) -> int:
        """Of each number: 2 at half precision, otherwise 4."""
        tokens = self.good_parts * self.orientations * self.patches * self.layers
        return self.bytes // (tokens * self.width)

    @property
    def words(self) -> str:
        """The sum that explains the size."""
        factors = [
            count(self.good_parts, "good part"),
            f"{self.orientations} orientations" if self.orientations > 1 else "",
            f"{self.patches:,} patches",
            count(self.layers, "layer"),
            f"{self.width} numbers",
            f"{self.number_bytes} bytes",
        ]
        parts = [f"{' × '.join(filter(None, factors))} = {self.bytes / 1e6:.1f} MB"]
        for what, size in (("tiles", self.tiles), ("unlabelled parts", self.unlabelled)):
            parts += [f"{what} {size / 1e6:.1f} MB"] if size else []
        return "; ".join(parts)


def memory_sizes(opened: DetectorFile) -> list[MemorySize]:
    """Of each product of a file."""
    return [_size(*each) for each in zip(opened.headers, opened.tensors, strict=True)]


def _size(header: dict[str, Any], tensors: Mapping[str, StoredTensor]) -> MemorySize:
    encoder, images = header["encoder"], header["normal_images"]

    def taken(start: str) -> int:
        return sum(one.length for name, one in tensors.items() if name.startswith(start))

    return MemorySize(
        good_parts=len(images),
        orientations=images[0]["entries"],
        patches=(encoder["resolution"] // encoder["patch"]) ** 2,
        layers=len(encoder["layers"]),
        width=tensors["cls"].shape[-1],
        bytes=taken("patches."),
        tiles=taken("tiles."),
        unlabelled=taken(UNLABELLED),
    )
