"""The multi-layer memory bank (Section 4.1 of the paper): what normal looks like."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..arrays import Array, like, namespace, on_device
from ..encoders.encoder import Tokens
from ..images.loading import NormalImage


@dataclass(frozen=True)
class MemoryBank:
    """Patch and CLS tokens of the normal images, per layer; never changed, only joined."""

    patches: tuple[Array, ...]
    """P^l for each layer, (K·N, D): image after image, in each its patches row by row."""
    cls: Array
    """The tokens C^l of all layers, (K, layers, D)."""
    images: tuple[NormalImage, ...]
    """Of each entry: an image stands here once for each of its orientations."""
    extras: tuple[Any, ...] = ()
    """What a view keeps of each entry beside these tokens; carried along, never read here."""

    @classmethod
    def of(cls, tokens: Tokens, images: Sequence[NormalImage]) -> "MemoryBank":
        """The bank of a few encoded images; each layer can be let go on its own."""
        xp = namespace(tokens.patches)
        width = tokens.patches.shape[-1]
        patches = tuple(
            xp.reshape(tokens.patches[:, layer, :, :], (-1, width), copy=True)
            for layer in range(tokens.patches.shape[1])
        )
        return cls(patches, tokens.cls, tuple(images))

    @classmethod
    def joined(cls, banks: "list[MemoryBank]") -> "MemoryBank":
        """One bank of all images; joined in turns or all at once, it is the same.

        The list is emptied, and its banks are let go layer by layer, so that hundreds of images
        never need twice their memory.
        """
        images = tuple(image for bank in banks for image in bank.images)
        extras = tuple(each for bank in banks for each in bank.extras)
        xp = namespace(banks[0].cls)
        tokens = xp.concat([bank.cls for bank in banks])
        layers = [list(layer) for layer in zip(*(bank.patches for bank in banks), strict=True)]
        banks.clear()
        patches = []
        for layer in layers:
            patches.append(xp.concat(layer))
            layer.clear()
        return cls(tuple(patches), tokens, images, extras)

    def __len__(self) -> int:
        """The number of entries; K, unless images are remembered in several orientations."""
        return len(self.images)

    @property
    def normal_images(self) -> tuple[NormalImage, ...]:
        """The K normal images, each once."""
        return tuple(self.images[entries[0]] for entries in self.entries)

    @property
    def entries(self) -> list[list[int]]:
        """The entries of each normal image: itself first, then its other orientations."""
        groups: dict[str, list[int]] = {}
        for index, image in enumerate(self.images):
            groups.setdefault(image.sha256, []).append(index)
        return list(groups.values())

    def without(self, *entries: int) -> "MemoryBank":
        """The bank as if these entries had never been in it."""
        kept = [index for index in range(len(self)) if index not in entries]
        xp = namespace(self.cls)
        return MemoryBank(
            tuple(xp.concat([self._rows(bank, index) for index in kept]) for bank in self.patches),
            xp.take(self.cls, like(kept, self.cls), axis=0),
            tuple(self.images[index] for index in kept),
            tuple(self.extras[index] for index in kept if self.extras),
        )

    def patches_of(self, entry: int) -> tuple[Array, ...]:
        """The patch tokens of an entry, (N, D) for each layer."""
        return tuple(self._rows(bank, entry) for bank in self.patches)

    def tokens_of(self, entry: int) -> Tokens:
        """The tokens of an entry, as a batch of one image."""
        xp = namespace(self.cls)
        patches = xp.astype(xp.stack(self.patches_of(entry)), xp.float32)
        return Tokens(patches[None, ...], self._cls(entry))

    def only(self, entry: int) -> "MemoryBank":
        """The bank of one entry alone."""
        return MemoryBank(self.patches_of(entry), self._cls(entry), (self.images[entry],))

    def first(self, count: int) -> "MemoryBank":
        """The bank of its first entries alone."""
        if count >= len(self):
            return self
        rows = count * (self.patches[0].shape[0] // len(self))
        patches = tuple(bank[:rows, :] for bank in self.patches)
        return MemoryBank(patches, self.cls[:count, ...], self.images[:count], self.extras[:count])

    def half(self) -> "MemoryBank":
        """The bank in half the room, its patches in float16."""
        xp = namespace(self.cls)
        patches = tuple(xp.astype(bank, xp.float16) for bank in self.patches)
        return MemoryBank(patches, self.cls, self.images, self.extras)

    def rounded(self) -> "MemoryBank":
        """The bank with patches that `half` keeps exactly, still in float32."""
        xp = namespace(self.cls)
        patches = tuple(xp.astype(layer, xp.float32) for layer in self.half().patches)
        return MemoryBank(patches, self.cls, self.images, self.extras)

    def to(self, device: str) -> "MemoryBank":
        """The bank on another device."""
        patches = tuple(on_device(bank, device) for bank in self.patches)
        return MemoryBank(patches, on_device(self.cls, device), self.images, self.extras)

    def _cls(self, entry: int) -> Array:
        return self.cls[entry : entry + 1, ...]

    def _rows(self, layer: Array, entry: int) -> Array:
        size = layer.shape[0] // len(self)
        return layer[entry * size : (entry + 1) * size, :]
