"""From a memory to verdicts: the thresholds of a detector, and what it calls another product."""

import math
from typing import TypeVar

from ..decisions.routing import foreign_distance
from ..decisions.thresholds import FALSE_ALARM_RATE, Calibration, check_rate, from_support
from ..errors import NotFiniteError, UsageError
from ..images.reading import Images, check_images, distinct_images
from ..method.scoring import TokenScore
from ..results.answering import unjudged
from ..views import View
from .base import FewShotDetector
from .calibrating import calibrated
from .recipes import find_recipe
from .remarks import about_learnt, about_strangers, about_support

Self = TypeVar("Self", bound="JudgingDetector")


class JudgingDetector(FewShotDetector):
    """A few-shot detector that finds its thresholds from good parts alone."""

    recipe: str
    view_: View
    """How images are looked at; after `fit` it knows the memory bank."""

    def calibrate(
        self: Self,
        images: "Images | None" = None,
        *,
        false_alarm_rate: float = FALSE_ALARM_RATE,
        keep_odd: bool = False,
    ) -> Self:
        """Sets the thresholds between good and anomalous.

        `images` are good parts that were not learnt: with 1/α − 1 of them or more (19 for 5 %) at
        most a share α of good parts is called anomalous, on average over the draw of these images.
        One that stands far apart from all others is left out and named, unless `keep_odd`: it would
        set the threshold alone. Without images the thresholds are an estimate from the normal ones.
        """
        self.require_fitted()
        check_rate(false_alarm_rate)
        if images is not None:
            check_images(images)
        found = self.view_.leave_one_out(self.progress)
        support = from_support(found, false_alarm_rate, find_recipe(self.recipe).lone)
        self._tell(about_learnt(found, [image.name for image in self.support_]))
        if images is not None:
            further = self._further(images)
            reach = [(name, support.strength(one.score, one.peak)) for name, one in further]
            limit = math.inf if self.foreign_ is None else self.foreign_
            foreign = [name for name, one in further if one.branches.values["cls"] > limit]
            self._tell(about_strangers(foreign))
            self._decide(calibrated(reach, false_alarm_rate, support, keep_odd, self.notify))
            return self
        self._tell(about_support(found))
        self._decide(support)
        return self

    def move_threshold(self, threshold: float) -> None:
        """Sets the threshold by hand; that of the map moves by the same factor, since the verdict
        comes from both."""
        if not 0 < threshold < math.inf:
            raise UsageError(f"The threshold is above 0, not {threshold:g}.")
        before = self.threshold_
        if self.map_threshold_ is not None and before is not None and before > 0:
            self.map_threshold_ *= threshold / before
        self.threshold_ = threshold

    def _further(self, images: Images) -> list[tuple[str, TokenScore]]:
        """The scores of good parts; a learnt one is left out with a warning."""
        known = {image.sha256: image.name for image in self.memory_.images}
        found = distinct_images(
            images,
            self._prepared,
            self.skipped_,
            known,
            count=self._read_ahead,
        )
        scores: list[tuple[str, TokenScore]] = []
        for _, image in found:
            try:
                scores += [(image.name, one) for one in self.score_images([image])]
            except NotFiniteError as error:
                raise unjudged(image.name, error) from error
            del image  # a large picture goes before the next is read
        return scores

    def _decide(self, calibration: Calibration | None) -> None:
        self.calibration_ = calibration
        self.threshold_ = None if calibration is None else calibration.threshold
        self.map_threshold_ = None if calibration is None else calibration.map_threshold

    def _decided_again(self: Self, calibration: Calibration | None) -> Self:
        """After the memory has changed: an estimate is made again, a calibration is stale."""
        if calibration is None:
            return self
        if calibration.method == "support":
            return self.calibrate(false_alarm_rate=calibration.rate)
        self.calibration_ = calibration.outdated()
        return self

    def _know_strangers(self) -> None:
        """Finds out how far an image may be from the good parts before it shows another product."""
        share = find_recipe(self.recipe).foreign
        self.foreign_ = foreign_distance(self.memory_, self.encoder_.empty_cls, share)

    def _tell(self, note: str | None) -> None:
        if note:
            self.notify(note)
