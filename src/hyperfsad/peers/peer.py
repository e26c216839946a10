"""What the peers share besides fitting and predicting."""

from torch import Tensor

from ..detector.base import FewShotDetector
from ..encoders.tokens import ImageTokens
from ..method.scoring import Pooling
from .scale import good_scale


class Peer(FewShotDetector):
    """Another training-free few-shot detector on the same frozen tokens; none scores the CLS."""

    def image_score(self, anomaly_map: Tensor, image: ImageTokens) -> tuple[float, float, float]:
        """The mean of the largest hundredth of the map, unless a method says otherwise."""
        score = top_percent(anomaly_map)
        return score, score, 0.0

    def colour_scale(self) -> tuple[float, float]:
        """From how the method scores good parts that it has not seen."""
        return good_scale(self)


def top_percent(anomaly_map: Tensor) -> float:
    """The mean of the largest hundredth, rounded down as in the authors' code, at least one."""
    return float(Pooling("top-1%", count=max(1, anomaly_map.numel() // 100))(anomaly_map))
