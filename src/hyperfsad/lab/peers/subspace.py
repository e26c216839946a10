"""SubspaceAD (Lendering, Akdag and Bondarev, CVPR 2026, arXiv 2602.23013).

A patch is described by the mean of its tokens over the layers. Principal component analysis of the
normal patches gives their mean μ and the fewest components C that hold a share τ of the variance;
the score of a patch is the squared norm of what the subspace leaves of it:

    S(x) = ‖(x − μ) − C Cᵀ (x − μ)‖²

and that of an image the mean of the largest hundredth (tail value at risk). τ = 0.99, the hundredth
and σ = 4 were found in copies of the authors' code (CLendering/SubspaceAD), not in the paper.

Different here: unit tokens of the selected layers instead of raw ones of DINOv2-G at 672 px; the
image's score is taken on the patch grid; no random rotations (`authors.py` has their settings).
"""

from typing import ClassVar

import numpy as np

from ...arrays import Array, like, namespace, to_numpy
from ...encoders.encoder import ImageTokens
from ...method.lookups import SIMILARITIES_AT_ONCE
from .peer import ROTATIONS_OPTION, MethodOptions, Peer


class SubspaceAD(Peer):
    """Squared distance to the principal subspace of the normal patches."""

    OPTIONS: ClassVar[MethodOptions] = {
        "rotations": ROTATIONS_OPTION,
        "variance": ("0 < variance < 1", lambda share: 0 < share < 1),
    }
    smoothing = 4.0
    variance: float = 0.99
    """τ."""
    mean_: Array
    """μ, (D,)."""
    components_: Array
    """C, (D, r), orthonormal columns."""

    def learn(self) -> None:
        """Fits the subspace."""
        features = layer_mean(self.memory_.patches)
        self.mean_, self.components_ = principal_subspace(features, self.variance)

    def patch_scores(self, image: ImageTokens) -> Array:
        """The squared norm of the residual."""
        centred = layer_mean(image.patches) - self.mean_
        residual = centred - (centred @ self.components_) @ self.components_.T
        return namespace(residual).sum(residual * residual, axis=1)


def layer_mean(layers: tuple[Array, ...]) -> Array:
    """The mean of the tokens of each patch over the layers."""
    xp = namespace(*layers)
    return xp.mean(xp.stack(layers), axis=0)


def principal_subspace(features: Array, share: float) -> tuple[Array, Array]:
    """The mean of the rows, and the fewest principal axes that hold that share of their variance.

    In float64 and on the CPU, which every device has, some rows at a time.
    """
    rows, step = to_numpy(features), max(1, SIMILARITIES_AT_ONCE // features.shape[1])
    mean = rows.mean(axis=0, dtype=np.float64)
    scatter = np.zeros((len(mean), len(mean)))
    for start in range(0, len(rows), step):
        centred = rows[start : start + step] - mean
        scatter += centred.T @ centred
    variances, axes = np.linalg.eigh(scatter)
    held = np.cumsum(np.maximum(variances, 0)[::-1])
    count = int((held < share * held[-1]).sum()) + 1
    kept = np.ascontiguousarray(axes[:, ::-1][:, :count])
    return like(mean, features, features.dtype), like(kept, features, features.dtype)
