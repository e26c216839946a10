"""The multi-layer memory bank (Section 4.1 of the paper): what normal looks like."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..encoders.tokens import Tokens
from ..images.loading import NormalImage
from ..views.tile_files import NormalTiles


@dataclass(frozen=True)
class MemoryBank:
    """Patch and CLS tokens of the normal images, per layer; never changed, only joined."""

    patches: tuple[Tensor, ...]
    """P^l for each layer, (K·N, D): image after image, in each its patches row by row."""
    cls: Tensor
    """The tokens C^l of all layers, (K, layers, D)."""
    images: tuple[NormalImage, ...]
    """Of each entry: an image stands here once for each of its views."""
    tiles: tuple[NormalTiles, ...] = ()
    """Of each image its tiles, where a detector cuts images into tiles; their tokens stay on
    disk."""

    @classmethod
    def of(cls, tokens: Tokens, images: Sequence[NormalImage]) -> "MemoryBank":
        """The bank of a few encoded images; each layer can be let go on its own."""
        layers = tokens.patches.unbind(dim=1)
        patches = tuple(layer.flatten(0, 1).clone() for layer in layers)
        return cls(patches, tokens.cls, tuple(images))

    @classmethod
    def joined(cls, banks: "list[MemoryBank]") -> "MemoryBank":
        """One bank of all images; joined in turns or all at once, it is the same.

        The list is emptied, and its banks are let go layer by layer, so that hundreds of images
        never need twice their memory.
        """
        images = tuple(image for bank in banks for image in bank.images)
        tiles = tuple(each for bank in banks for each in bank.tiles)
        tokens = torch.cat([bank.cls for bank in banks])
        layers = [list(layer) for layer in zip(*(bank.patches for bank in banks), strict=True)]
        banks.clear()
        patches = []
        for layer in layers:
            patches.append(torch.cat(layer))
            layer.clear()
        return cls(tuple(patches), tokens, images, tiles)

    def __len__(self) -> int:
        """The number of entries; K, unless images are remembered in several views."""
        return len(self.images)

    @property
    def normal_images(self) -> tuple[NormalImage, ...]:
        """The K normal images, each once."""
        return tuple(self.images[views[0]] for views in self.views)

    @property
    def views(self) -> list[list[int]]:
        """The places in the bank of each normal image: itself first, then its turned views."""
        groups: dict[str, list[int]] = {}
        for index, image in enumerate(self.images):
            groups.setdefault(image.sha256, []).append(index)
        return list(groups.values())

    def without(self, *places: int) -> "MemoryBank":
        """The bank as if the images at these places had never been in it."""
        kept = [index for index in range(len(self)) if index not in places]
        return MemoryBank(
            tuple(torch.cat([self._rows(bank, index) for index in kept]) for bank in self.patches),
            self.cls[kept],
            tuple(self.images[index] for index in kept),
            tuple(self.tiles[index] for index in kept if self.tiles),
        )

    def patches_of(self, place: int) -> tuple[Tensor, ...]:
        """The patch tokens of the image at a place, (N, D) for each layer."""
        return tuple(self._rows(bank, place) for bank in self.patches)

    def first(self, count: int) -> "MemoryBank":
        """The bank of its first entries alone."""
        if count >= len(self):
            return self
        rows = count * (self.patches[0].shape[0] // len(self))
        patches = tuple(bank[:rows] for bank in self.patches)
        return MemoryBank(patches, self.cls[:count], self.images[:count], self.tiles[:count])

    def to(self, device: torch.device) -> "MemoryBank":
        """The bank on another device."""
        patches = tuple(bank.to(device) for bank in self.patches)
        return MemoryBank(patches, self.cls.to(device), self.images, self.tiles)

    def _rows(self, layer: Tensor, place: int) -> Tensor:
        size = layer.shape[0] // len(self)
        return layer[place * size : (place + 1) * size]
