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

import torch
from torch import Tensor
from torch.nn.functional import pad

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

    def patch_scores(self, image: ImageTokens) -> Tensor:
        """1 − the best similarity, mean over the layers."""
        alike = self.memory_.cls[:, -1] @ image.cls[-1]
        chosen = alike.topk(min(self.retrieved, len(alike))).indices.tolist()
        places = nearby(self.encoding_.grid, self.radius).to(alike.device)
        layers = []
        for query, layer in zip(image.patches, self.memory_.patches, strict=True):
            normal = layer.reshape(len(alike), *query.shape)
            best = torch.full_like(query[:, 0], -torch.inf)
            for place in places.T:
                for index in chosen:
                    similar = (query * normal[index, place]).sum(dim=-1)
                    best = torch.maximum(best, similar.where(place >= 0, -torch.inf))
            layers.append(best)
        return (1 - torch.stack(layers).mean(dim=0)).clamp(min=0)


def nearby(grid: int, radius: int) -> Tensor:
    """The places at most `radius` away from each place, a row each; −1 beyond the border."""
    reach = min(radius, grid - 1)
    framed = pad(torch.arange(grid * grid).reshape(grid, grid), (reach,) * 4, value=-1)
    side = 2 * reach + 1
    return framed.unfold(0, side, 1).unfold(1, side, 1).reshape(grid * grid, -1)
