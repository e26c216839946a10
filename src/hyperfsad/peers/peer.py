"""What the peers share besides fitting and predicting."""

from abc import abstractmethod

from torch import Tensor

from ..detector.base import FewShotDetector
from ..encoders.tokens import ImageTokens, Tokens
from ..method.scoring import BranchScores, Pooling, TokenScore
from .scale import good_scale


class Peer(FewShotDetector):
    """Another training-free few-shot detector on the same frozen tokens; none scores the CLS."""

    @abstractmethod
    def patch_scores(self, image: ImageTokens) -> Tensor:
        """The score of each patch, (N,), higher is more anomalous."""

    def image_score(self, anomaly_map: Tensor, image: ImageTokens) -> float:
        """The mean of the largest hundredth of the map, unless a method says otherwise."""
        return top_percent(anomaly_map)

    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        """The map and the score of each image; all of the score is the map's."""
        grid, scores = self.settings.grid, []
        for image in tokens.images():
            anomaly_map = self.patch_scores(image).reshape(grid, grid)
            branches = BranchScores.of_map(self.image_score(anomaly_map, image))
            scores.append(TokenScore(anomaly_map.cpu().numpy(), branches))
        return scores

    def colour_scale(self) -> tuple[float, float]:
        """From how the method scores good parts that it has not seen."""
        return good_scale(self)


def top_percent(anomaly_map: Tensor) -> float:
    """The mean of the largest hundredth, rounded down as in the authors' code, at least one."""
    return float(Pooling("top-1%", count=max(1, anomaly_map.numel() // 100))(anomaly_map))
