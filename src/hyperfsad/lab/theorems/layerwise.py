"""What the memory bank says of an image, layer by layer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...arrays import namespace
from ...encoders.encoder import ImageTokens
from ...method.lookups import LOOKUPS, in_chunks
from ...method.matching import MemoryLayer
from ...method.memory import MemoryBank
from ...method.scoring import BranchScores, branch_weights, cls_distances
from ...quality.tokens import Array, numbers

PROVEN_MARGIN = 1e-5
"""Scores are float32 sums over unit tokens; what is proven of them is lowered by this much."""


@dataclass(frozen=True)
class Discrepancies:
    """The layer-wise discrepancies of one image (Equation 24 of the paper) and its places."""

    name: str
    distances: Array
    """d: 1 − cos(q, ε) of every patch, (layers, N)."""
    cls: Array
    """g: 1 − max⟨c, c_k⟩, (layers,)."""

    @property
    def peak(self) -> int:
        """t*: where the map is highest, one patch for all layers."""
        return int(self.distances.mean(axis=0).argmax())

    def of_layers(self, places: Sequence[int]) -> "Discrepancies":
        """Those of some layers alone, given by their places, not by their block numbers."""
        return Discrepancies(self.name, self.distances[list(places)], self.cls[list(places)])

    def score(self, lam: float) -> float:
        """S_image with max pooling."""
        peak = float(self.distances.mean(axis=0).max())
        values = {"map": peak, "cls": float(self.cls.mean())}
        return BranchScores(values, branch_weights(lam)).total


class LayerwiseMatcher:
    """Compares images with a memory bank, layer by layer."""

    def __init__(self, bank: MemoryBank, lookup: str = "sparsemax") -> None:
        self.bank = bank
        self.lookup = lookup
        self._layers = [MemoryLayer(layer, lookup) for layer in bank.patches]

    def discrepancies(self, name: str, image: ImageTokens) -> Discrepancies:
        """d of every patch and g of the image, in every layer."""
        layers = zip(image.patches, self._layers, strict=True)
        distances = [numbers(layer.distances(query)) for query, layer in layers]
        cls = cls_distances(image.cls, self.bank.cls)
        return Discrepancies(name, np.stack(distances), numbers(cls))

    def reach(self, image: ImageTokens) -> Array:
        """ε of Theorem 1 in every layer: the farthest normal patch that any patch draws on."""
        xp, farthest = namespace(image.cls), []
        for query, memory in zip(image.patches, self.bank.patches, strict=True):
            similar = (part @ memory.T for part in in_chunks(query, memory))
            least = min(float(xp.min(z[LOOKUPS[self.lookup](z) > 0])) for z in similar)
            farthest.append(math.sqrt(max(0.0, 2 - 2 * least)))
        return np.array(farthest)
