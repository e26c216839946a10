"""RAD, retrieval-based anomaly detection (Zhang, Li, Henderson, Aragon-Camarasa and Long, "Is
Task-Specific Training Necessary for Anomaly Detection?", arXiv 2601.22763, 2026).

First the normal images whose CLS token of the last layer is most similar to the image's; then, in
each layer, the cosine distance of each patch to the nearest patch of those images within `radius`
places of its own; the mean over the layers; and as the image's score the mean of the largest
hundredth. All of it follows the authors' code (longkukuhi/RAD), the paper itself was not at hand.
Its settings are 150 images and a radius of 1 for MVTec AD, 900 and 2 for VisA; with a few shots
every image is retrieved anyway. σ = 1 over 5×5 pixels.

Different here: the selected layers of the chosen encoder instead of blocks 4, 7, 10 and 12 of
DINOv3 ViT-B/16; the encoder's square input without a centre crop; the hundredth is taken on the
patch grid instead of the smoothed map of 256×256.
"""

from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import Tensor

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
        chosen = alike.topk(min(self.retrieved, len(alike))).indices
        best = []
        for query, layer in zip(image.patches, self.memory_.patches, strict=True):
            normal = layer.reshape(len(alike), *query.shape)
            images = (normal[index] for index in chosen.tolist())
            best.append(best_nearby(query, images, self.encoding_.grid, self.radius))
        return (1 - torch.stack(best).mean(dim=0)).clamp(min=0)


def best_nearby(query: Tensor, images: Iterable[Tensor], grid: int, radius: int) -> Tensor:
    """The best similarity of each patch (N,) to patches of the images at most `radius` away.

    `query` and each image are (N, D). One image and one shift of the grid at a time.
    """
    here = query.reshape(grid, grid, -1)
    best = torch.full((grid, grid), -torch.inf, dtype=query.dtype, device=query.device)
    reach = min(radius, grid - 1)
    for image in images:
        there = image.reshape(grid, grid, -1)
        for down in range(-reach, reach + 1):
            rows, rows_there = _overlap(grid, down)
            for across in range(-reach, reach + 1):
                columns, columns_there = _overlap(grid, across)
                similarity = (here[rows, columns] * there[rows_there, columns_there]).sum(dim=-1)
                best[rows, columns] = torch.maximum(best[rows, columns], similarity)
    return best.flatten()


def _overlap(grid: int, shift: int) -> tuple[slice, slice]:
    """The places i of a line for which i + shift lies on it too, and those places i + shift."""
    first, last = max(0, -shift), grid - max(0, shift)
    return slice(first, last), slice(first + shift, last + shift)
