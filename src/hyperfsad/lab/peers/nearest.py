"""Nearest neighbour in the manner of AnomalyDINO (Damm et al., WACV 2025).

The score of a patch is its cosine distance to the most similar normal patch; the score of an image
is the mean of the largest hundredth of them (the empirical tail value at risk at 99 %). Checked
against the authors' code (dammsi/AnomalyDINO), not against the paper's own equations: one
neighbour, unit tokens, floor(N/100) patches, σ = 4 after upsampling, and, where orientations vary,
support images in eight of them with mirrored borders.

Different here: the mean over all selected layers of the chosen encoder instead of the last layer
of DINOv2; no foreground mask; the encoder's square input; bicubic instead of bilinear turning;
rotations are chosen by the caller, never by the category.
"""

from typing import Any

import torch
from torch import Tensor

from ...encoders import SUBSTITUTE
from ...encoders.encoder import ImageTokens
from .peer import Peer, best_similarity, check_peer_rotations


class NearestNeighbour(Peer):
    """Cosine distance to the nearest normal patch, mean over the layers."""

    smoothing = 4.0

    def __init__(self, backbone: str = SUBSTITUTE, *, rotations: int = 1, **common: Any) -> None:
        """`rotations` is 1, or 8 to remember each support image every 45 degrees."""
        super().__init__(backbone, **common)
        check_peer_rotations(rotations)
        self.rotations = rotations

    def patch_scores(self, image: ImageTokens) -> Tensor:
        """1 − max_m⟨q, m⟩, mean over the layers."""
        similarities = [
            best_similarity(query, normal)
            for query, normal in zip(image.patches, self.memory_.patches, strict=True)
        ]
        return (1 - torch.stack(similarities).mean(dim=0)).clamp(min=0)
