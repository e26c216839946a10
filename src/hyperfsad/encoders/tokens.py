"""What an encoder gives: patch and CLS tokens of the selected layers, each of length 1."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tokens:
    """The tokens of a batch of images, each of length 1."""

    patches: torch.Tensor
    """(images, layers, patches, D), patches row by row."""
    cls: torch.Tensor
    """(images, layers, D)"""


@dataclass(frozen=True)
class ImageTokens:
    """The tokens of one image."""

    patches: tuple[Tensor, ...]
    """Q^l for each layer, (N, D)."""
    cls: Tensor
    """(layers, D)"""
