"""RAD, retrieval-based anomaly detection (Zhang, Li, Henderson, Aragon-Camarasa and Long, "Is
Task-Specific Training Necessary for Anomaly Detection?", arXiv 2601.22763, 2026).

First the normal images whose CLS token of the last layer is most similar to the image's; then, in
each layer, the cosine distance of each patch to the nearest patch of those images within `radius`
places of its own; the mean over the layers; and as the image's score the mean of the largest
hundredth. Read in the authors' code (longkukuhi/RAD): 150 images and a radius of 1 for MVTec AD,
σ = 1 over 5×5 pixels. Different here: the selected layers of the chosen encoder, its square input
without a centre crop, the hundredth on the patch grid.
"""

from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ...arrays import Array, like, namespace, positive, top_k
from ...encoders.encoder import ImageTokens
from .peer import MethodOptions, Peer


class RAD(Peer):
    """Nearest patch near the same place, in the most similar normal images."""

    OPTIONS: ClassVar[MethodOptions] = {
        "retrieved": ("retrieved ≥ 1", lambda count: count >= 1),
        "radius": ("radius ≥ 0", lambda radius: radius >= 0),
    }
    smoothing = 1.0
    retrieved: int = 150
    """Images that are compared, at most."""
    radius: int = 1
    """How many places away a patch may be compared with."""

    def patch_scores(self, image: ImageTokens) -> Array:
        """1 − the best similarity, mean over the layers."""
        xp = namespace(image.cls)
        alike = self.memory_.cls[:, -1] @ image.cls[-1]
        chosen = top_k(alike, min(self.retrieved, len(alike)))[1].tolist()
        places = like(nearby(self.encoding_.grid, self.radius), alike)
        layers = []
        for query, layer in zip(image.patches, self.memory_.patches, strict=True):
            normal = xp.reshape(layer, (len(alike), *query.shape))
            best = xp.full_like(query[:, 0], -xp.inf)
            for place in places.T:
                for index in chosen:
                    similar = xp.sum(query * normal[index, place], axis=-1)
                    best = xp.maximum(best, xp.where(place >= 0, similar, -xp.inf))
            layers.append(best)
        return positive(1 - xp.mean(xp.stack(layers), axis=0))


def nearby(grid: int, radius: int) -> NDArray[np.int64]:
    """The places at most `radius` away from each place, a row each; −1 beyond the border."""
    reach = min(radius, grid - 1)
    framed = np.pad(np.arange(grid * grid).reshape(grid, grid), reach, constant_values=-1)
    side = 2 * reach + 1
    return sliding_window_view(framed, (side, side)).reshape(grid * grid, -1)
