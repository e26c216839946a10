"""Random unit tokens that satisfy the premises of the theorems by construction."""

import numpy as np
from numpy.typing import DTypeLike

from hyperfsad.encoders.encoder import ImageTokens
from hyperfsad.images.loading import NormalImage
from hyperfsad.lab.theorems.layerwise import Discrepancies
from hyperfsad.method.memory import MemoryBank
from hyperfsad.quality.tokens import Array


def unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


class World:
    """Tokens around a common axis, as a layer's tokens are: memory, good images, bad images.

    Patches and CLS tokens of good images lie near stored ones. A bad image has one patch, the same
    in all layers, that points away from the axis, and a CLS token away from the memory.
    """

    def __init__(self, seed: int, layers: int, width: int, images: int, spread: float) -> None:
        self.random = np.random.default_rng(seed)
        self.spread = spread
        self.patches = 4
        self.axis = unit(self.noise(layers, width))
        self.rows = [
            unit(axis + spread * unit(self.noise(images * self.patches, width)))
            for axis in self.axis
        ]
        self.cls = unit(self.axis + spread * unit(self.noise(images, layers, width)))

    def noise(self, *shape: int) -> Array:
        return self.random.standard_normal(shape)

    def bank(self, dtype: DTypeLike = np.float64) -> MemoryBank:
        names = tuple(NormalImage(str(index), str(index)) for index in range(len(self.cls)))
        return MemoryBank(
            tuple(rows.astype(dtype) for rows in self.rows), self.cls.astype(dtype), names
        )

    def good(self, dtype: DTypeLike = np.float64) -> ImageTokens:
        step = 0.3 * self.spread
        chosen = [int(self.random.integers(len(self.cls)))] * self.patches
        patches = [
            unit(rows[chosen] + step * unit(self.noise(self.patches, rows.shape[1])))
            for rows in self.rows
        ]
        cls = unit(self.cls[chosen[0]] + step * unit(self.noise(*self.axis.shape)))
        return ImageTokens(tuple(layer.astype(dtype) for layer in patches), cls.astype(dtype))

    def bad(self, dtype: DTypeLike = np.float64) -> ImageTokens:
        image = self.good()
        away = unit(self.noise(*self.axis.shape) - 0.5 * self.axis)
        place = int(self.random.integers(self.patches))
        for layer, token in zip(image.patches, away, strict=True):
            layer[place] = token
        cls = unit(self.axis + 3 * self.spread * unit(self.noise(*self.axis.shape)))
        return ImageTokens(tuple(layer.astype(dtype) for layer in image.patches), cls.astype(dtype))


def some_discrepancies(
    seed: int, images: int, layers: int, shift: float = 0.0
) -> list[Discrepancies]:
    """Discrepancies of images, without tokens behind them."""
    random = np.random.default_rng(seed)
    return [
        Discrepancies(str(index), random.random((layers, 5)) + shift, random.random(layers) + shift)
        for index in range(images)
    ]


def cls_tokens(seed: int, images: int, layers: int, spread: float = 1.0) -> Array:
    """CLS tokens around a common axis, (images, layers, 4)."""
    random = np.random.default_rng(seed)
    rows = np.eye(4)[0] + spread * random.standard_normal((images, layers, 4))
    return np.asarray(rows / np.linalg.norm(rows, axis=2, keepdims=True))
