"""Have good parts changed? A sequential test on the CLS branch with few false alarms.

Each inspection is ranked among all that came before it, the calibration images and the stream
itself. While good parts stay as they were, these ranks are independent and uniform (ranks within
one fixed calibration set are not: they share its luck, and a test that multiplies them up raises
false alarms). A bettor on high scores cannot grow the capital then: by Ville's inequality the
chance that it ever reaches 1/δ is at most δ, however long the stream.
"""

import json
import math
import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..detector.detector import HyperFSAD
from ..errors import UsageError, reason
from ..images.reading import Images
from ..method.scoring import cls_score
from ..report.records import RECORDS_FILE
from .miss_rates import greedy_cover
from .tokens import Array, encode_images, fitted_bank, numbers, plain

HIGH_RANKS = (0.75, 0.5, 0.25, 0.1)
"""Bets that the next score is among the highest three quarters, …, the highest tenth."""

STAKED_SHARE = 0.8
"""The share of the capital that such a bet risks."""

IDLE_SHARE = 0.5
"""The share of the capital that waits; the rest begins as the other bets, in equal parts."""

REBALANCED_SHARE = 0.03
"""The share of the capital that returns to the first division after each image, so that a late move
is noticed. Simulated with 40 calibration images and a move after 60 images: a clear move is known
at the 6th image (median), one of 1.5 deviations at the 14th."""

COVERED_LEVEL = 0.95
"""An image counts as covered where its CLS score is among the lower 95 % of the calibration's."""

MIN_CALIBRATION = 4
"""With fewer calibration images ranks say next to nothing."""

MAX_ADDED = 5
"""Images that a report proposes to add."""


class DriftStep(NamedTuple):
    """What the test makes of one inspection."""

    rank: float
    """p: the share of what came before that scored higher, ties broken at random."""
    capital: float
    """The natural logarithm of the capital."""


def payouts(rank: float) -> Array:
    """What each bet makes of 1 when the next rank is p: none, 2·(1 − p), and those of `HIGH_RANKS`.

    Over uniform ranks each pays 1 on average. The narrow bets see a clear move in a few images, the
    second one a slight move in some dozens.
    """
    narrow = [1 - STAKED_SHARE + STAKED_SHARE * (rank <= high) / high for high in HIGH_RANKS]
    return np.array([1.0, 2 * (1 - rank), *narrow])


class DriftMonitor:
    """Ranks scores one by one and bets that they are high.

    `defects` is the share of bad parts that may be in the stream: each could win the highest bet,
    so every bet pays that much less. This holds where bad parts score above good ones.
    """

    def __init__(
        self,
        calibration: Iterable[float],
        *,
        false_alarms: float = 0.01,
        defects: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._ranked = sorted(calibration)
        if len(self._ranked) < MIN_CALIBRATION:
            raise UsageError("drift-too-few", least=MIN_CALIBRATION, given=len(self._ranked))
        if not all(map(math.isfinite, self._ranked)):
            raise UsageError("drift-calibration-not-finite")
        if not 0 < false_alarms < 1:
            raise UsageError("share-range", option_name="false_alarms", given=false_alarms)
        if not 0 <= defects < 1:
            raise UsageError("drift-defects-range", given=defects)
        self.limit = -math.log(false_alarms)
        """The logarithm of 1/δ: a capital that reaches it raises the alarm."""
        self._random = np.random.default_rng(seed)
        self._fair = 1 - defects + defects * payouts(0.0)
        self._start = np.full(len(self._fair), (1 - IDLE_SHARE) / (len(self._fair) - 1))
        self._start[0] = IDLE_SHARE
        self._shares = self._start
        self._capital = 0.0

    def update(self, score: float) -> DriftStep:
        """Takes the next score; leave out images that could not be read, whose score is NaN."""
        above = len(self._ranked) - bisect_right(self._ranked, score)
        equal = len(self._ranked) - above - bisect_left(self._ranked, score) + 1
        rank = float((above + self._random.random() * equal) / (len(self._ranked) + 1))
        insort(self._ranked, score)
        shares = (1 - REBALANCED_SHARE) * self._shares + REBALANCED_SHARE * self._start
        shares = shares * payouts(rank) / self._fair
        growth = float(shares.sum())
        self._shares = shares / growth
        self._capital += math.log(growth)
        return DriftStep(rank, self._capital)


@dataclass(frozen=True)
class DriftReport:
    """Whether and where normal has moved over a stream of inspections."""

    images: tuple[str, ...]
    score_cls: Array
    rank: tuple[float, ...]
    log_capital: tuple[float, ...]
    """As in `DriftStep`, of each inspection."""
    false_alarms: float
    level: float
    """Scores up to here are covered: the 95 % quantile of the calibration."""
    alarm_at: int | None
    """The place of the inspection that raised the alarm."""
    moved_at: int | None
    """Where the capital began to rise: the likely place of the change."""
    add: tuple[str, ...]
    """Images to look at and, if they show good parts, to add to the detector."""

    def covered_since(self, place: int) -> float:
        """The share of the stream from a place on that the CLS branch covers."""
        return float((self.score_cls[place:] <= self.level).mean())

    def answer(self) -> str:
        """The answer in one or two sentences."""
        if self.alarm_at is None or self.moved_at is None:
            return (
                f"Normal has not moved, as far as {len(self.images)} images tell: the evidence"
                f" reached {math.exp(max(self.log_capital)):.3g} of {1 / self.false_alarms:.0f};"
                f" {self.covered_since(0):.0%} covered."
            )
        return (
            f"Your normal has moved, since about image {self.moved_at + 1}"
            f" ({self.images[self.moved_at]}); known at image {self.alarm_at + 1}."
            f" Covered since then: {self.covered_since(self.moved_at):.0%}; of the calibration"
            f" images at least {COVERED_LEVEL:.0%}. Without a move the chance of this alarm"
            f" is at most {self.false_alarms:.0%}."
        )

    def to_json(self) -> dict[str, Any]:
        """Every figure."""
        return {**plain(self), "covered": self.covered_since(0), "answer": self.answer()}


def monitor_scores(
    calibration: Sequence[float],
    stream: Sequence[tuple[str, float]],
    *,
    tokens: Array | None = None,
    false_alarms: float = 0.01,
    **settings: Any,
) -> DriftReport:
    """The test over CLS scores; false_alarms, defects and seed as in `DriftMonitor`.

    With the stream's tokens, (images, layers, D), the images to add cover the new ones.
    """
    monitor = DriftMonitor(calibration, false_alarms=false_alarms, **settings)
    if not stream:
        raise UsageError("drift-empty-stream")
    names, scores = tuple(name for name, _ in stream), np.array([score for _, score in stream])
    ranks, capitals = zip(*map(monitor.update, scores.tolist()), strict=True)
    level = float(np.quantile(calibration, COVERED_LEVEL, method="higher"))
    alarm_at = next((place for place, one in enumerate(capitals) if one >= monitor.limit), None)
    moved_at: int | None = None
    add: tuple[str, ...] = ()
    if alarm_at is not None:
        before = [0.0, *capitals[:alarm_at]]
        moved_at = min(range(len(before)), key=lambda place: (before[place], -place))
        open_places = [place for place in range(moved_at, len(scores)) if scores[place] > level]
        add = tuple(names[place] for place in _to_add(open_places, scores, tokens, level))
    found = alarm_at, moved_at, add
    return DriftReport(names, scores, ranks, capitals, false_alarms, level, *found)


def _to_add(places: list[int], scores: Array, tokens: Array | None, level: float) -> list[int]:
    """A cover of what is not covered; without tokens the most ordinary of them.

    One image covers another where it would give it a CLS score within the level.
    """
    if not places:
        return []
    if tokens is None:
        middle = float(np.median(scores[places]))
        return sorted(places, key=lambda place: (abs(scores[place] - middle), place))[:MAX_ADDED]
    chosen = tokens[places]
    apart = 1 - np.einsum("ild,jld->ij", chosen, chosen) / chosen.shape[1]
    return [places[found] for found in greedy_cover((apart <= level)[None], limit=MAX_ADDED)]


def monitor_drift(
    detector: HyperFSAD, calibration: Images, stream: Images, **settings: Any
) -> DriftReport:
    """The test over images in their order; calibration images are good ones it has not learnt.

    false_alarms, defects and seed as in `DriftMonitor`.
    """
    memory = numbers(fitted_bank(detector).cls)
    good = encode_images(detector, calibration, distinct=True, known=detector.memory_.images)
    before = [float(cls_score(numbers(image.cls), memory)) for _, image in good]
    after = [(name, numbers(image.cls)) for name, image in encode_images(detector, stream)]
    return monitor_scores(
        before,
        [(name, float(cls_score(token, memory))) for name, token in after],
        tokens=np.stack([token for _, token in after]) if after else None,
        **settings,
    )


def is_results(source: str) -> bool:
    """Whether a path is a results file or the output folder of a run."""
    return source.endswith(".jsonl") or os.path.isfile(os.path.join(source, RECORDS_FILE))


def read_stream(sources: Sequence[str]) -> list[tuple[str, float]]:
    """Name and S_cls of each image that was scored, in the order of the records."""
    found: list[tuple[str, float]] = []
    for source in sources:
        path = Path(source) / RECORDS_FILE if os.path.isdir(source) else Path(source)
        try:
            records = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError("records-unreadable", file=path, reason=reason(error)) from error
        for number, text in enumerate(records, start=1):
            try:
                record = json.loads(text)
                if record["error"] is None:
                    found.append((str(record["image"]), float(record["score_cls"])))
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError("record-damaged", file=path, line=number) from error
    return found
