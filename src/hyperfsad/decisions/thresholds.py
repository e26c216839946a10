"""The threshold between good and anomalous, from good parts alone.

Four methods; every result says which one it was:

- `support`: estimated from the normal images themselves by leave-one-out (see `views`), which are
  few and were not drawn at random.
- `line`: estimated from unlabelled parts of the line, most of which are good (`line.py`).
- `conformal`: from further good parts that the detector has not learnt. Split-conformal prediction
  bounds the false-alarm rate for any distribution, on average over the draw of these parts.
- `few`: there were further good parts, but fewer than the bound needs: an estimate from them.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from numbers import Real
from statistics import NormalDist, fmean
from typing import Any, Protocol, SupportsFloat, TypeAlias

from ..errors import UsageError, brief

FALSE_ALARM_RATE = 0.05
MIN_RATE = 1e-6
"""Fewer false alarms than one in a million are beyond what pictures of good parts can tell."""

USUAL_SPREAD, USUAL_WEIGHT = 0.1, 8
"""Relative standard deviation of good parts' scores, and how many images it outweighs: two to four
images tell little of their spread."""

SPREAD_MARGIN = 2.0
"""Standard deviations above the mean of those left out, for the usual rate."""

ALONE = 1.5
"""What each image says alone counts as K to the power of minus this among K images."""

ALIKE, DIFFERENT = 0.35, 0.6
"""Peaks of images left out, over their self-distances: below the first they are copies of one
picture, above the second different parts (nine products, K = 2 and 4: 0.67 to 2.0)."""

Lone: TypeAlias = tuple[float, float]
"""The thresholds of the score and of the map for one good part, over its self-distance."""

ROUNDING = 1e-9
"""The part that sets a threshold does not lie above it."""

THRESHOLD_METHODS = ("support", "line", "conformal", "few")


def level_of(
    score: float, threshold: float, peak: float = 0.0, map_threshold: float | None = None
) -> float:
    """How far an image reaches, where 1 is the limit: the larger of its score and its map's peak,
    each over its own threshold; infinite above a threshold of 0.

    With both thresholds multiplied by f, an image is anomalous where its level is above f.
    """
    own = _over(score, threshold)
    return own if map_threshold is None else max(own, _over(peak, map_threshold))


def _over(value: float, threshold: float) -> float:
    if threshold > 0:
        return value / threshold
    return math.inf if value > threshold else 0.0


@dataclass(frozen=True)
class Calibration:
    """The thresholds of a detector, and how they came about."""

    method: str
    threshold: float
    """An image with a higher score is called anomalous."""
    map_threshold: float
    """A place of the map above it is called a defect."""
    rate: float
    """The share of good parts that may be called anomalous."""
    images: int
    """How many good parts they come from."""
    scores: tuple[float, ...] = ()
    """The levels of good parts that were not learnt, rising; p-values are read from them."""
    stale: bool = False
    """Whether normal images were learnt since."""
    odd: int = 0
    """Further good parts that were left out, since they stood far apart from the others; of
    unlabelled parts those that look bad."""
    alike: bool = False
    """Whether the normal images are almost the same, and so say little of how good parts differ."""

    def level(self, score: float, peak: float) -> float:
        """How far an image reaches, by its score or by its map."""
        return level_of(score, self.threshold, peak, self.map_threshold)

    def p_value(self, score: float, peak: float) -> float | None:
        """The chance that a good part reaches as far: (1 + #{as far or farther}) / (n + 1).

        None where no other good parts were there to compare with.
        """
        if not self.scores or self.stale:
            return None
        value = self.level(score, peak) * (1 - ROUNDING)
        higher = len(self.scores) - bisect_left(self.scores, value)
        return (1 + higher) / (len(self.scores) + 1)

    @property
    def words(self) -> str:
        """How the threshold came about, in a few words."""
        percent = f"{100 * self.rate:g} %"
        of = "one good part" if self.images == 1 else f"{self.images} good parts"
        of += f" ({self.odd} odd left out)" if self.odd else ""
        if self.method == "conformal":
            text = f"conformal from {of}: at most {percent} false alarms on average"
        elif self.method == "line":
            of = "one unlabelled part" if self.images == 1 else f"{self.images} unlabelled parts"
            bad = f"{self.odd or 'none'} of which look{'s' if self.odd < 2 else ''} bad"
            text = f"estimate from {of}, {bad}, aiming at {percent} false alarms"
        elif self.method == "few":
            text = (
                f"estimate from {of}, which are fewer than the {needed(self.rate)} that"
                f" {percent} false alarms need"
            )
        else:
            alike = ", which are almost the same" if self.alike else ""
            text = f"estimate from the {of} it has learnt{alike}, aiming at {percent} false alarms"
        return text + ("; stale, normal images were added since" if self.stale else "")

    def outdated(self) -> "Calibration":
        """The same thresholds, marked as older than the memory bank."""
        return replace(self, stale=True)

    def to_dict(self) -> dict[str, Any]:
        """What a detector file keeps of it."""
        return {**asdict(self), "scores": list(self.scores)}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Calibration":
        """What `to_dict` gave, once the header of its file was checked."""
        kept = {each.name: stored[each.name] for each in fields(cls)}
        return cls(**{**kept, "scores": tuple(kept["scores"])})


class ScoredImage(Protocol):
    """What thresholds need of an image."""

    @property
    def score(self) -> float:
        """The image score."""

    @property
    def peak(self) -> float:
        """The largest value of the map."""


@dataclass(frozen=True)
class LeaveOneOut:
    """What the normal images of a detector show without further good parts."""

    scores: tuple[float, ...]
    """Of images while they were left out; a lone image has none."""
    peaks: tuple[float, ...]
    """Of their maps."""
    self_distances: tuple[float, ...]
    """How far the places of each image are from one another: the mean of its largest hundredths."""
    total: int
    """K, the number of normal images."""

    @classmethod
    def of(
        cls, held_out: Sequence[ScoredImage], self_distances: Iterable[SupportsFloat], total: int
    ) -> "LeaveOneOut":
        """From what each image showed while it was left out."""
        scores, peaks = (one.score for one in held_out), (one.peak for one in held_out)
        return cls(tuple(scores), tuple(peaks), tuple(map(float, self_distances)), total)

    @property
    def different(self) -> float:
        """How much the images differ: 0 copies of one picture, 1 different parts."""
        if not self.peaks:
            return 1.0
        ratio = math.exp(_mean_log(self.peaks) - _mean_log(self.self_distances))
        return min(max((ratio - ALIKE) / (DIFFERENT - ALIKE), 0.0), 1.0)

    @property
    def near_copies(self) -> bool:
        """Whether they are nearer to copies of one picture than to different parts."""
        return self.different < 0.5


def needed(rate: float) -> int:
    """How many good parts a bound on the false-alarm rate takes: n ≥ 1/α − 1."""
    return math.ceil(1 / rate - 1 - 1e-9)


def check_rate(rate: float) -> None:
    """Refuses a rate that is not a share of good parts."""
    if not isinstance(rate, Real) or not MIN_RATE <= rate < 1:
        raise UsageError("rate-range", least=MIN_RATE, given=brief(rate))


def from_good_parts(
    levels: Sequence[float], rate: float, support: Calibration, odd: int = 0
) -> Calibration:
    """Thresholds from further good parts: from how far each reaches against `support`.

    That one number bounds both score and map: both thresholds move by the same factor, so the bound
    holds for the verdict. `odd` parts were left out before.
    """
    check_rate(rate)
    if not levels:
        raise UsageError("no-good-parts")
    factor = good_part_level(levels, rate)
    return Calibration(
        "conformal" if len(levels) >= needed(rate) else "few",
        factor * support.threshold,
        factor * support.map_threshold,
        rate,
        len(levels),
        tuple(level / factor for level in sorted(levels)),
        odd=odd,
    )


def one_decides(count: int, rate: float) -> int | None:
    """Where the largest of `count` good parts alone sets a bounded threshold: how many it takes
    until a second one counts. None where it does already, or there is no bound."""
    enough = math.ceil(2 / rate - 1 - 1e-9)
    return enough if needed(rate) <= count < enough else None


def good_part_level(levels: Sequence[float], rate: float) -> float:
    """The level that a share `rate` of good parts may exceed, from the levels of a few.

    It is bounded where they are enough for that, otherwise estimated.
    """
    threshold = conformal_threshold if len(levels) >= needed(rate) else _few_threshold
    return max(threshold(levels, rate), 1e-6) * (1 + ROUNDING)


def conformal_threshold(values: Sequence[float], rate: float) -> float:
    """The ⌈(n + 1)(1 − α)⌉-th smallest: a further good part lies above it with chance α at most.

    That holds on average over the draw of the n, if all are exchangeable (Vovk, Gammerman and
    Shafer 2005; Papadopoulos et al. 2002).
    """
    place = math.ceil((len(values) + 1) * (1 - rate) - 1e-9)
    return sorted(values)[place - 1]


def from_support(found: LeaveOneOut, rate: float, lone: Lone) -> Calibration:
    """Thresholds from the normal images alone."""
    check_rate(rate)
    return Calibration(
        "support",
        _support_threshold(found, found.scores, rate, lone[0]),
        _support_threshold(found, found.peaks, rate, lone[1]),
        rate,
        found.total,
        alike=found.near_copies,
    )


def _support_threshold(
    found: LeaveOneOut, held_out: Sequence[float], rate: float, lone: float
) -> float:
    """Between two estimates of the logarithm; the more images, the more the second counts.

    A single image says how unlike its own places are; good parts differ from it by a multiple of
    that. Several images say how good parts score that were not learnt: the mean of those left out
    and a multiple of their spread above. Copies of one picture count as one.
    """
    level, spread = _mean_log(found.self_distances) + math.log(lone), USUAL_SPREAD
    if held_out:
        centre = _mean_log(held_out)
        spread = spread_of(held_out, centre)
        alone = (1 + found.different * (found.total - 1)) ** -ALONE
        level = alone * level + (1 - alone) * (centre + SPREAD_MARGIN * spread)
    usual = NormalDist().inv_cdf(1 - FALSE_ALARM_RATE)
    return math.exp(level + spread * (NormalDist().inv_cdf(1 - rate) - usual))


def _few_threshold(values: Sequence[float], rate: float) -> float:
    """The quantile of a log-normal distribution of which only a few values were seen."""
    centre = _mean_log(values)
    wider = math.sqrt(1 + 1 / len(values))
    return math.exp(centre + NormalDist().inv_cdf(1 - rate) * wider * spread_of(values, centre))


def spread_of(values: Sequence[float], centre: float) -> float:
    """Standard deviation of the logarithms, pulled towards what is usual while they are few."""
    seen = sum((log_of(value) - centre) ** 2 for value in values)
    usual = USUAL_WEIGHT * USUAL_SPREAD**2
    return math.sqrt((usual + seen) / (USUAL_WEIGHT + len(values) - 1))


def _mean_log(values: Sequence[float]) -> float:
    return fmean(map(log_of, values))


def log_of(value: float) -> float:
    """Good parts differ by factors, so scores are compared on this scale."""
    return math.log(max(value, 1e-6))  # copies of one picture are at no distance at all
