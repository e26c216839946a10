"""What users of scikit-learn expect of a detector of outliers: its names, and its signs."""

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..images.loading import ChannelOrder
from ..images.reading import Images
from .protocols import Predictor


def score_samples(
    detector: Predictor, images: Images, channels: ChannelOrder
) -> NDArray[np.float64]:
    """The opposite of each score: the higher, the more normal."""
    return np.array([-one.score for one in detector.predict_many(images, channels=channels)])


def decision_function(
    detector: Predictor, images: Images, channels: ChannelOrder
) -> NDArray[np.float64]:
    """How far each image stays below the limit: 1 − level, so negative where it is anomalous."""
    found = []
    for result in detector.predict_many(images, channels=channels):
        _ = result.score  # which raises where the image could not be read
        if result.level is None:
            raise UsageError("detector-without-threshold")
        found.append(1 - result.level)
    return np.array(found, dtype=np.float64)
