"""Random unit tokens in the shape of the small encoder: 4 layers on a grid of 6×6."""

import torch
from torch import Tensor

from hyperfsad.encoders.encoder import ImageTokens, Tokens
from hyperfsad.images.loading import NormalImage
from hyperfsad.method.memory import MemoryBank

GRID, LAYERS, SIZE = 6, 4, 16
PATCHES = GRID * GRID


def unit(*shape: int, seed: int) -> Tensor:
    """Random rows of length 1."""
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(*shape, generator=generator), dim=-1)


def random_bank(images: int, seed: int = 0) -> MemoryBank:
    """A bank of images that have nothing in common."""
    tokens = Tokens(
        unit(images, LAYERS, PATCHES, SIZE, seed=seed), unit(images, LAYERS, SIZE, seed=seed + 1)
    )
    return MemoryBank.of(tokens, [NormalImage(str(i), f"hash {i}") for i in range(images)])


def random_image(seed: int = 99) -> ImageTokens:
    """An image that no bank holds."""
    return ImageTokens(
        tuple(unit(LAYERS, PATCHES, SIZE, seed=seed)), unit(LAYERS, SIZE, seed=seed + 1)
    )


def image_of(bank: MemoryBank, index: int) -> ImageTokens:
    """One of the images of a bank."""
    start = index * PATCHES
    return ImageTokens(
        tuple(layer[start : start + PATCHES] for layer in bank.patches), bank.cls[index]
    )


def pooled_by_hand(layers: tuple[Tensor, ...], images: int) -> Tensor:
    """3×3 means at every place of every image, layers side by side, in float64."""
    rows = []
    for image in range(images):
        for row in range(GRID):
            for column in range(GRID):
                around = [
                    image * PATCHES + r * GRID + c
                    for r in range(max(0, row - 1), min(GRID, row + 2))
                    for c in range(max(0, column - 1), min(GRID, column + 2))
                ]
                rows.append(torch.cat([layer[around].double().mean(dim=0) for layer in layers]))
    return torch.stack(rows)
