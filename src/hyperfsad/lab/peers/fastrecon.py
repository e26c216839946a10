"""FastRecon (Fang et al., "Few-shot Industrial Anomaly Detection via Fast Feature Reconstruction",
ICCV 2023).

The features Q of an image, one row a patch, are rebuilt from a coreset S of the normal ones by the
regression with distribution regularisation

    W = argmin ‖Q − W S‖² + λ ‖W S − μ‖²  =  (Q + λ μ) Sᵀ ((1 + λ) S Sᵀ)⁻¹,    Q̂ = W S

where row i of μ is the mean of the normal features at the place of patch i. The score of a patch is
‖Q_i − Q̂_i‖, that of an image the largest. Whenever S Sᵀ has an inverse, Q̂ is the orthogonal
projection of (Q + λ μ) / (1 + λ) onto the span of S; that is computed, since it exists always.

Formula, λ = 2, 3×3 means and σ = 4 are those of the authors' code (FzJun26th/FastRecon), which
names a coreset of 0.1, of 1 and of 15 %; on four real products 15 % did better. Different here:
unit tokens of the selected layers instead of blocks 2 and 3 of a WideResNet-50; coreset and μ of
all support images, not of the last batch; a fixed first pick and projection.
"""

from typing import ClassVar

import numpy as np

from ...arrays import Array, like, namespace, to_numpy
from ...encoders.encoder import ImageTokens
from .features import greedy_coreset, lengths, local_features
from .peer import MethodOptions, Peer


class FastRecon(Peer):
    """Distance to a regularised reconstruction from the support."""

    OPTIONS: ClassVar[MethodOptions] = {
        "fraction": ("0 < fraction ≤ 1", lambda fraction: 0 < fraction <= 1),
        "regularisation": ("regularisation ≥ 0", lambda weight: weight >= 0),
    }
    smoothing = 4.0
    fraction: float = 0.15
    """The part of the normal patches that makes the coreset."""
    regularisation: float = 2.0
    """λ."""
    mean_: Array
    """μ, (N, layers·D)."""
    basis_: Array
    """Orthonormal rows that span the coreset S, (rank, layers·D)."""

    def features(self, layers: tuple[Array, ...]) -> Array:
        """Q or S before the coreset: means of 3×3 patches, layers side by side."""
        return local_features(layers, self.encoding_.grid)

    def learn(self) -> None:
        """Prepares μ and the span of S."""
        features = self.features(self.memory_.patches)
        count = max(1, int(self.fraction * len(features)))
        xp = namespace(features)
        images = xp.reshape(features, (len(self.memory_), -1, features.shape[1]))
        self.mean_ = xp.mean(images, axis=0)
        self.basis_ = span(features[greedy_coreset(features, count)])

    def patch_scores(self, image: ImageTokens) -> Array:
        """‖Q − Q̂‖, row by row."""
        queries = self.features(image.patches)
        blend = (queries + self.regularisation * self.mean_) / (1 + self.regularisation)
        rebuilt = (blend @ self.basis_.T) @ self.basis_
        return lengths(queries - rebuilt)

    def image_score(self, anomaly_map: Array, image: ImageTokens) -> float:
        """The largest distance."""
        return float(namespace(anomaly_map).max(anomaly_map))


def span(rows: Array) -> Array:
    """An orthonormal basis of the space that the rows span, one vector a row.

    In float64 and on the CPU, which every device has; directions that are only the rounding of
    float32 are left out.
    """
    wide = to_numpy(rows).astype(np.float64)
    _, spread, directions = np.linalg.svd(wide, full_matrices=False)
    smallest = spread[0] * max(rows.shape) * np.finfo(np.float32).eps
    return like(directions[spread > smallest], rows, rows.dtype)
