"""Nearest neighbour in the manner of AnomalyDINO (Damm et al., WACV 2025).

The score of a patch is its cosine distance to the most similar normal patch; the score of an image
is the mean of the largest hundredth of them (the empirical tail value at risk at 99 %). Checked
against the authors' code (dammsi/AnomalyDINO). Different here: the mean over all selected layers
instead of the last one; no foreground mask; square input; rotations are chosen by the caller.
"""

from typing import ClassVar

from ...arrays import Array, namespace, positive
from ...encoders.encoder import ImageTokens
from .features import best_similarity
from .peer import ROTATIONS_OPTION, MethodOptions, Peer


class NearestNeighbour(Peer):
    """Cosine distance to the nearest normal patch, mean over the layers."""

    OPTIONS: ClassVar[MethodOptions] = {"rotations": ROTATIONS_OPTION}
    smoothing = 4.0

    def patch_scores(self, image: ImageTokens) -> Array:
        """1 − max_m⟨q, m⟩, mean over the layers."""
        similarities = [
            best_similarity(query, normal)
            for query, normal in zip(image.patches, self.memory_.patches, strict=True)
        ]
        xp = namespace(*similarities)
        return positive(1 - xp.mean(xp.stack(similarities), axis=0))
