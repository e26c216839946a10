"""Random unit tokens in the shape of the small encoder: 4 layers on a grid of 6×6."""

import numpy as np
from numpy.typing import NDArray

from hyperfsad.encoders.encoder import ImageTokens, Tokens
from hyperfsad.images.loading import NormalImage
from hyperfsad.method.memory import MemoryBank

GRID, LAYERS, SIZE = 6, 4, 16
PATCHES = GRID * GRID

Floats = NDArray[np.float32]


def unit(*shape: int, seed: int) -> Floats:
    """Random rows of length 1."""
    rows = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return of_length_1(rows)


def of_length_1(rows: Floats) -> Floats:
    """The same directions."""
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def distances(rows: Floats, others: Floats) -> NDArray[np.float64]:
    """The Euclidean distance of each row to each of the others, in float64."""
    apart = rows[:, None].astype(np.float64) - others[None]
    return np.asarray(np.linalg.norm(apart, axis=-1))


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


def pooled_by_hand(layers: tuple[Floats, ...], images: int) -> NDArray[np.float64]:
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
                means = [layer[around].mean(axis=0, dtype=np.float64) for layer in layers]
                rows.append(np.concatenate(means))
    return np.stack(rows)
