"""How well maps show where a defect is, where masks tell."""

import numpy as np

from ...errors import HyperfsadError
from ...results.result import AnomalyResult
from ..metrics import pixel_metrics, upsampled
from ..test_set import TestImage, load_mask

SHOWN = ("P-AUROC", "PRO", "P-AP")

SIDES = (256, 128, 64, 32)
MOST_PIXELS = 800 * 256**2
"""Of all maps together: 0.6 GB with what sorting them takes. More images are compared at a smaller
side."""


class PixelFigures:
    """Takes the map of one image after the other; memory is bounded however many there are."""

    def __init__(self, images: int) -> None:
        self.side = next((s for s in SIDES if images * s**2 <= MOST_PIXELS), SIDES[-1])
        self._maps = np.empty((images, self.side, self.side), dtype=np.float32)
        self._masks = np.empty(self._maps.shape, dtype=np.bool_)
        self._count = 0
        self.problem: str | None = None
        """The mask that could not be used; without it there are no figures."""

    def add(self, image: TestImage, result: AnomalyResult) -> None:
        """The map and the mask of an image that could be read."""
        if self.problem is not None:
            return
        try:
            self._masks[self._count] = load_mask(image, self.side)
        except HyperfsadError as error:
            self.problem = str(error)
            return
        self._maps[self._count] = upsampled(result.anomaly_map[None], self.side)[0]
        self._count += 1

    def metrics(self) -> dict[str, float | None] | None:
        """P-AUROC, PRO and P-AP, from 0 to 1; None where they are not defined."""
        if self.problem is not None or not self._masks[: self._count].any():
            return None
        found = pixel_metrics(self._maps[: self._count], self._masks[: self._count])
        return {name: found[name] for name in SHOWN}
