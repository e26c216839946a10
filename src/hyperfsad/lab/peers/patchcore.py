"""PatchCore (Roth et al., "Towards Total Recall in Industrial Anomaly Detection", CVPR 2022).

Locally aware patch features (Equations 1 to 3: the mean of a 3×3 neighbourhood in each layer,
layers side by side), a greedy coreset of them as the memory (Equation 5, Algorithm 1), and the
Euclidean distance to its nearest member as a patch's score. The image's score is the largest
distance s* (Equation 6), weighted by Equation 7:

    s = (1 − exp‖q* − m*‖ / Σ_{m ∈ N_b(m*)} exp‖q* − m‖) · s*

with q* the patch of s*, m* its nearest member and N_b(m*) the b members nearest to m*, itself
among them. A coreset of 25 % is that of the few-shot table (Table S5), b = 9 anomalib's, 128
dimensions those of the authors' code (amazon-science/patchcore-inspection).

Different here: unit tokens of the selected layers instead of blocks 2 and 3 of a WideResNet-50, all
on one grid; at the border only patches that exist are averaged; a fixed first pick and projection.
"""

from typing import ClassVar

from ...arrays import Array, namespace
from ...encoders.encoder import ImageTokens
from .features import greedy_coreset, lengths, local_features, nearest_distance
from .peer import MethodOptions, Peer


class PatchCore(Peer):
    """Distance to a coreset of locally aware patch features."""

    OPTIONS: ClassVar[MethodOptions] = {
        "fraction": ("0 < fraction ≤ 1", lambda fraction: 0 < fraction <= 1),
        "neighbours": ("neighbours ≥ 2", lambda count: count >= 2),
    }
    smoothing = 4.0
    fraction: float = 0.25
    """The part of the patches that makes the coreset."""
    neighbours: int = 9
    """b of Equation 7."""
    coreset_: Array
    """M_C, (members, layers·D)."""

    def learn(self) -> None:
        """Keeps the coreset; never fewer members than Equation 7 asks for."""
        features = local_features(self.memory_.patches, self.encoding_.grid)
        count = max(int(self.fraction * len(features)), self.neighbours)
        self.coreset_ = features[greedy_coreset(features, count)]

    def patch_scores(self, image: ImageTokens) -> Array:
        """min_m‖q − m‖ over the coreset."""
        return nearest_distance(local_features(image.patches, self.encoding_.grid), self.coreset_)

    def image_score(self, anomaly_map: Array, image: ImageTokens) -> float:
        """The largest distance, lower where its nearest member has close neighbours."""
        features = local_features(image.patches, self.encoding_.grid)
        xp = namespace(features)
        query = features[int(xp.argmax(anomaly_map))]
        distances = lengths(self.coreset_ - query)
        closest = int(xp.argmin(distances))
        around = lengths(self.coreset_ - self.coreset_[closest])
        crowd = distances[xp.argsort(around)[: self.neighbours]]
        least = distances[closest]
        return float(least * (1 - 1 / xp.sum(xp.exp(crowd - least))))
