"""What one setting finds: good parts that were held out, and defects on such parts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PIL import Image

from ...decisions.thresholds import FALSE_ALARM_RATE, good_part_level
from ...detector.hyperfsad import HyperFSAD
from ...images.loading import load_image
from .defects import draw_defect
from .settings import Setting

FOLDS = 4
"""Groups of good parts that are held out in turn."""


@dataclass(frozen=True)
class Sketch:
    """A defect to be drawn, always the same."""

    kind: str
    share: float
    """Its size over the shorter side of the picture."""
    clear: bool
    seed: int


@dataclass(frozen=True)
class Sample:
    """One picture that is judged."""

    path: str
    part: int
    """The good part behind it, which its detector has not learnt; of a real bad part, any."""
    bad: bool = False
    sketch: Sketch | None = None
    """The defect that is drawn on it."""

    def picture(self) -> Image.Image:
        """The picture; a drawn defect is drawn again, since all of them would fill the memory."""
        image = load_image(self.path).rgb()
        if self.sketch is None:
            return image
        kind, share, clear = self.sketch.kind, self.sketch.share, self.sketch.clear
        return draw_defect(image, kind, share, clear, self.sketch.seed).image


@dataclass(frozen=True)
class Trial:
    """How far the samples reach with a setting."""

    setting: Setting
    samples: tuple[Sample, ...]
    strengths: tuple[float, ...]

    @property
    def level(self) -> float:
        """The strength that 5 % of good parts may exceed: settings are compared at this rate."""
        good = [strength for sample, strength in self._pairs() if not sample.bad]
        return good_part_level(good, FALSE_ALARM_RATE)

    @property
    def defects(self) -> list[tuple[Sample, bool]]:
        """The samples with a defect, and whether each was found at that rate."""
        level = self.level
        return [(sample, strength > level) for sample, strength in self._pairs() if sample.bad]

    @property
    def share_found(self) -> float:
        """Of the defects."""
        found = [found for _, found in self.defects]
        return sum(found) / len(found)

    @property
    def found_by_itself(self) -> int:
        """Defects above the threshold that the detector sets by itself."""
        return sum(strength > 1 for sample, strength in self._pairs() if sample.bad)

    @property
    def false_alarms(self) -> int:
        """Good parts above the threshold that the detector sets by itself."""
        return sum(strength > 1 for sample, strength in self._pairs() if not sample.bad)

    def found(self, *, kind: str | None = None, share: float | None = None) -> tuple[int, int]:
        """How many drawn defects of a kind and of a size were found, and of how many."""
        chosen = [
            found
            for sample, found in self.defects
            if sample.sketch is not None
            and kind in (None, sample.sketch.kind)
            and share in (None, sample.sketch.share)
        ]
        return sum(chosen), len(chosen)

    def _pairs(self) -> "Iterable[tuple[Sample, float]]":
        return zip(self.samples, self.strengths, strict=True)


class Judges:
    """Detectors that have each not learnt some of the good parts."""

    def __init__(self, detector: HyperFSAD) -> None:
        """`detector` was fitted on all of them."""
        entries = detector.memory_.entries
        self.folds = min(FOLDS, len(entries))
        self._detectors: list[HyperFSAD] = []
        for fold in range(self.folds):
            held_out = [entry for part in entries[fold :: self.folds] for entry in part]
            self._detectors.append(detector.leaving_out(held_out).calibrate())

    def strength(self, sample: Sample) -> float:
        """How far a sample reaches, by a detector that has not learnt the part behind it."""
        result = self._detectors[sample.part % self.folds].predict(sample.picture())
        assert result.strength is not None
        return result.strength


def try_setting(
    setting: Setting, detector: HyperFSAD, samples: Sequence[Sample], shown: Iterable[Sample]
) -> Trial:
    """Judges every sample; `shown` passes them on one by one, and may show how far it is."""
    judges = Judges(detector)
    return Trial(setting, tuple(samples), tuple(judges.strength(sample) for sample in shown))
