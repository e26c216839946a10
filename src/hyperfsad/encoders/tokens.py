"""What an encoder gives: patch and CLS tokens of the selected layers, each of length 1."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ImageTokens:
    """The tokens of one image."""

    patches: tuple[Tensor, ...]
    """Q^l for each layer, (N, D)."""
    cls: Tensor
    """(layers, D)"""


@dataclass(frozen=True)
class Tokens:
    """The tokens of a batch of images."""

    patches: Tensor
    """(images, layers, patches, D), patches row by row."""
    cls: Tensor
    """(images, layers, D)"""

    @classmethod
    def joined(cls, batches: Sequence["Tokens"]) -> "Tokens":
        """One batch of all images."""
        return cls(
            torch.cat([batch.patches for batch in batches]),
            torch.cat([batch.cls for batch in batches]),
        )

    def images(self) -> Iterator[ImageTokens]:
        """The tokens of each image."""
        for patches, cls in zip(self.patches, self.cls, strict=True):
            yield ImageTokens(tuple(patches), cls)
