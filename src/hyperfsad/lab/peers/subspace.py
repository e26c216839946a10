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

import torch
from torch import Tensor

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
    mean_: Tensor
    """μ, (D,)."""
    components_: Tensor
    """C, (D, r), orthonormal columns."""

    def learn(self) -> None:
        """Fits the subspace."""
        features = torch.stack(self.memory_.patches).mean(dim=0)
        self.mean_, self.components_ = principal_subspace(features, self.variance)

    def patch_scores(self, image: ImageTokens) -> Tensor:
        """The squared norm of the residual."""
        centred = torch.stack(image.patches).mean(dim=0) - self.mean_
        residual = centred - (centred @ self.components_) @ self.components_.T
        return residual.square().sum(dim=1)


def principal_subspace(features: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The mean of the rows, and the fewest principal axes that hold that share of their variance.

    In float64 and on the CPU, which every device has, some rows at a time.
    """
    parts = torch.split(features, max(1, SIMILARITIES_AT_ONCE // features.shape[1]))
    mean = torch.stack([part.cpu().double().sum(dim=0) for part in parts]).sum(dim=0)
    mean /= len(features)
    scatter = torch.zeros(len(mean), len(mean), dtype=torch.float64)
    for part in parts:
        centred = part.cpu().double() - mean
        scatter += centred.T @ centred
    variances, axes = torch.linalg.eigh(scatter)
    held = variances.clamp(min=0).flip(0).cumsum(dim=0)
    count = int((held < share * held[-1]).sum()) + 1
    return mean.to(features), axes.flip(1)[:, :count].to(features)
