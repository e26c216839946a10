"""The threshold between good and anomalous, from good parts alone.

Three methods; every result says which one it was:

- `support`: estimated from the normal images themselves by leave-one-out (see `views`), which are
  few and were not drawn at random.
- `conformal`: from further good parts that the detector has not learnt. Split-conformal prediction
  bounds the false-alarm rate for any distribution, on average over the draw of these parts.
- `few`: there were further good parts, but fewer than the bound needs: an estimate from them.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist, fmean
from typing import Any

from ..errors import UsageError

FALSE_ALARM_RATE = 0.05

LEARNING = 0.12
"""Scores of good parts fall with the number K of normal images, about as K to the power of minus
this (bottle, tile, bracket, cookie and chest X-ray, K = 1 to 4: 0.10 to 0.20)."""

USUAL_SPREAD, USUAL_WEIGHT = 0.08, 3
"""Relative standard deviation of good parts' scores, and how many images it outweighs: two to four
images tell little of their spread (on those five products: 0.04 to 0.13)."""

MARGIN = 1.2
"""Standard deviations above the mean of the images' worst showings, for the usual rate."""

LONE_MAP = 1.2
"""A map's highest place lies above its highest hundredths by about this much."""

METHODS = ("support", "conformal", "few")


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
    """How many good parts had a say."""
    scores: tuple[float, ...] = ()
    """Scores of good parts that were not learnt, rising; what p-values are read from."""
    stale: bool = False
    """Whether normal images were learnt since."""

    def p_value(self, score: float) -> float | None:
        """The chance that a good part scores as high or higher: (1 + #{scores ≥ it}) / (n + 1).

        None where no other good parts were there to compare with.
        """
        if not self.scores or self.stale:
            return None
        higher = len(self.scores) - bisect_left(self.scores, score)
        return (1 + higher) / (len(self.scores) + 1)

    @property
    def words(self) -> str:
        """How the threshold came about, in a few words."""
        percent = f"{100 * self.rate:g} %"
        of = f"{self.images} good part{'' if self.images == 1 else 's'}"
        if self.method == "conformal":
            text = f"conformal from {of}: at most {percent} false alarms on average"
        elif self.method == "few":
            text = (
                f"estimate from {of}, which are fewer than the {needed(self.rate)} that"
                f" {percent} false alarms need"
            )
        else:
            text = f"estimate from the {of} it has learnt, aiming at {percent} false alarms"
        return text + ("; stale, normal images were added since" if self.stale else "")

    def outdated(self) -> "Calibration":
        """The same thresholds, marked as older than the memory bank."""
        return replace(self, stale=True)

    def to_dict(self) -> dict[str, Any]:
        """What a detector file keeps of it."""
        return {**asdict(self), "scores": list(self.scores)}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Calibration":
        """What `to_dict` gave; anything else is a ValueError, KeyError or TypeError."""
        scores = tuple(float(score) for score in stored["scores"])
        rate, images = float(stored["rate"]), int(stored["images"])
        thresholds = float(stored["threshold"]), float(stored["map_threshold"])
        if stored["method"] not in METHODS or not 0 < rate < 1 or images < 1:
            raise ValueError("its calibration is not one that hyperfsad writes")
        if not all(map(math.isfinite, (*thresholds, *scores))) or list(scores) != sorted(scores):
            raise ValueError("the scores of its calibration are not finite and ascending")
        return cls(str(stored["method"]), *thresholds, rate, images, scores, bool(stored["stale"]))


@dataclass(frozen=True)
class SupportScores:
    """How the normal images score in one number: the image's score, or the map's peak."""

    perturbed: tuple[float, ...]
    """Of each image the worst of its perturbed copies, while the image is remembered."""
    held_out: tuple[float, ...]
    """Of each image the worst of itself and its perturbed copies, while it is left out."""


@dataclass(frozen=True)
class LeaveOneOut:
    """What the normal images of a detector show without further good parts."""

    scores: SupportScores
    peaks: SupportScores
    self_distances: tuple[float, ...]
    """How far the places of each image are from one another: the mean of its largest hundredths."""
    total: int
    """K, the number of normal images."""
    remembered: int
    """How many were remembered while others were left out."""


def needed(rate: float) -> int:
    """How many good parts a bound on the false-alarm rate takes: n ≥ 1/α − 1."""
    return math.ceil(1 / rate - 1 - 1e-9)


def check_rate(rate: float) -> None:
    """Refuses what is no share of good parts."""
    if not 0 < rate < 1:
        raise UsageError(f"The false-alarm rate lies between 0 and 1, not at {rate:g}.")


def from_good_parts(scores: Sequence[float], peaks: Sequence[float], rate: float) -> Calibration:
    """Thresholds from further good parts: their scores, and the peaks of their maps."""
    check_rate(rate)
    if not scores:
        raise UsageError("There is no good part to calibrate with.")
    enough = len(scores) >= needed(rate)
    threshold = conformal_threshold if enough else _few_threshold
    return Calibration(
        "conformal" if enough else "few",
        threshold(scores, rate),
        threshold(peaks, rate),
        rate,
        len(scores),
        tuple(sorted(scores)),
    )


def conformal_threshold(values: Sequence[float], rate: float) -> float:
    """The ⌈(n + 1)(1 − α)⌉-th smallest: a further good part lies above it with chance α at most.

    That holds on average over the draw of the n, if all are exchangeable (Vovk, Gammerman and
    Shafer 2005; Papadopoulos et al. 2002).
    """
    place = math.ceil((len(values) + 1) * (1 - rate) - 1e-9)
    return sorted(values)[place - 1]


def from_support(found: LeaveOneOut, rate: float) -> Calibration:
    """Thresholds from the normal images alone."""
    check_rate(rate)
    return Calibration(
        "support",
        _support_threshold(found, found.scores, rate),
        _support_threshold(found, found.peaks, rate, LONE_MAP),
        rate,
        len(found.scores.perturbed),
    )


def _support_threshold(
    found: LeaveOneOut, scores: SupportScores, rate: float, factor: float = 1.0
) -> float:
    """Between two estimates of the logarithm; the more images, the more the second counts.

    A single image says two things: its perturbed copies are closer to it than other good parts
    are, and its places are less like one another than good parts are like it. The threshold lies
    half-way between. Several images say how good parts score that were not learnt: the mean of
    those left out and a multiple of their spread above.
    """
    total = found.total
    lone = math.log(factor) + (_mean_log(scores.perturbed) + _mean_log(found.self_distances)) / 2
    spread = USUAL_SPREAD
    level = lone - LEARNING * math.log(total)
    if scores.held_out:
        centre = _mean_log(scores.held_out)
        spread = _spread(scores.held_out, centre)
        fewer = LEARNING * math.log(found.remembered / total)
        level = level / total + (1 - 1 / total) * (centre + MARGIN * spread + fewer)
    usual = NormalDist().inv_cdf(1 - FALSE_ALARM_RATE)
    return math.exp(level + spread * (NormalDist().inv_cdf(1 - rate) - usual))


def _few_threshold(values: Sequence[float], rate: float) -> float:
    """The quantile of a log-normal distribution of which only a few values were seen."""
    centre = _mean_log(values)
    wider = math.sqrt(1 + 1 / len(values))
    return math.exp(centre + NormalDist().inv_cdf(1 - rate) * wider * _spread(values, centre))


def _spread(values: Sequence[float], centre: float) -> float:
    """Standard deviation of the logarithms, pulled towards what is usual while they are few."""
    seen = sum((_log(value) - centre) ** 2 for value in values)
    usual = USUAL_WEIGHT * USUAL_SPREAD**2
    return math.sqrt((usual + seen) / (USUAL_WEIGHT + len(values) - 1))


def _mean_log(values: Sequence[float]) -> float:
    return fmean(map(_log, values))


def _log(value: float) -> float:
    return math.log(max(value, 1e-6))  # copies of one picture are at no distance at all
