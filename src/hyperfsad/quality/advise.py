"""Which setting suits these parts: all are shown the same pictures, at one false-alarm rate."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from ..detector.detector import HyperFSAD
from ..errors import HyperfsadError, HyperfsadWarning, UsageError
from ..images.loading import load_image
from ..messages import Progress, no_progress
from .drawn_defects import DEFECT_KINDS, DEFECT_SIZES, DrawnDefect
from .trials import (
    MAX_TRIAL_COST,
    CandidateSetting,
    Trial,
    TrialSample,
    candidate_settings,
    try_setting,
)

MAX_PARTS = 8
"""Good parts that take part; more cost time and tell little more."""

DEFECT_ROUNDS = 2
"""Defects of each kind, size and contrast."""

CLEARLY_MORE = 0.08
"""Another setting than what `fit` chooses is advised if it finds more by this share of all."""

MOSTLY_FOUND = 0.7
"""The share of drawn defects of a size that must be found before the size counts as found."""

MakeDetector: TypeAlias = Callable[..., HyperFSAD]
"""Makes a detector with these options of `HyperFSAD`; all others are the caller's."""


@dataclass(frozen=True)
class Advice:
    """What was compared, and what to do."""

    trials: tuple[Trial, ...]
    """The first is what `fit` does by itself."""
    size: tuple[int, int]
    """Of the first good part, in pixels."""
    skipped: tuple[tuple[CandidateSetting, str], ...] = ()
    """Settings that were not or could not be tried, and why."""
    complete: bool = True
    """Whether all pictures could be read."""

    @property
    def usual(self) -> Trial:
        """What `fit` does by itself."""
        return self.trials[0]

    @property
    def advised(self) -> Trial:
        """The setting that finds clearly more than the usual one; if none does, the usual one."""
        best = max(self.trials, key=lambda trial: (trial.share_found, -trial.setting.cost))
        clearly = best.share_found >= self.usual.share_found + CLEARLY_MORE
        return best if clearly else self.usual

    @property
    def parts(self) -> int:
        """Good parts that took part."""
        return sum(not sample.bad for sample in self.usual.samples)

    @property
    def drawn(self) -> bool:
        """Whether defects were drawn, since no bad part was given."""
        return any(sample.defect is not None for sample in self.usual.samples)

    def pixels(self, share: float) -> int:
        """The size of a drawn defect in pixels of the picture."""
        return max(1, round(share * min(self.size)))

    def smallest(self, trial: Trial, kind: str) -> float | None:
        """The size from which on drawn defects of a kind are mostly found; None: not even large."""
        smallest = None
        for share in sorted(DEFECT_SIZES, reverse=True):
            found, total = trial.found(kind=kind, share=share)
            if found < MOSTLY_FOUND * total:
                break
            smallest = share
        return smallest


def advise(
    good: Sequence[str],
    bad: Sequence[str] = (),
    *,
    max_cost: float = MAX_TRIAL_COST,
    make: MakeDetector = HyperFSAD,
    progress: Progress = no_progress,
) -> Advice:
    """Compares settings on good parts, and on bad ones or on defects that it draws itself.

    Each picture is judged by a detector that has not learnt the part behind it.
    """
    usual = make().fit(_spread(list(dict.fromkeys(good)), MAX_PARTS), threshold=False)
    parts = [image.name for image in usual.support_]
    if len(parts) < 2:
        raise UsageError("advice-too-few", given=len(parts))
    size = load_image(parts[0]).size
    samples = [TrialSample(path, part) for part, path in enumerate(parts)]
    samples += _real_defects(bad) if bad else _drawn_defects(parts)
    trials: list[Trial] = []
    settings, skipped = candidate_settings(usual, size, max_cost)
    for setting in settings:
        try:
            detector = usual if not trials else _fitted(make, setting, usual, parts)
        except HyperfsadError as error:
            if not trials:
                raise
            skipped.append((setting, str(error)))
            continue
        trials.append(try_setting(setting, detector, samples, progress(samples, setting.name)))
    read = sum(sample.bad for sample in samples)
    complete = not usual.skipped_ and (not bad or read == len(set(bad)))
    return Advice(tuple(trials), size, tuple(skipped), complete)


def _fitted(
    make: MakeDetector, setting: CandidateSetting, usual: HyperFSAD, parts: Sequence[str]
) -> HyperFSAD:
    """A detector with a setting; one with the same encoder shares it."""
    detector = make(**setting.options, **setting.shared)
    if detector.encoding_ == usual.encoding_:
        detector.use_encoder(usual.encoder_)
    detector.fit(parts, threshold=False)
    if setting.options.get("roi") and detector.view_.region.note:
        raise UsageError("part-not-found")
    return detector


def _real_defects(bad: Sequence[str]) -> list[TrialSample]:
    """Bad parts; one that cannot be read is left out with a warning."""
    found: list[TrialSample] = []
    for path in dict.fromkeys(bad):
        try:
            load_image(path)
        except HyperfsadError as error:
            warnings.warn(str(error), HyperfsadWarning, stacklevel=2)
            continue
        found.append(TrialSample(path, len(found), bad=True))
    if not found:
        raise UsageError("no-readable-bad-part")
    return found


def _drawn_defects(parts: Sequence[str]) -> Iterator[TrialSample]:
    """The good parts in turn, each with another defect."""
    defects = product(range(DEFECT_ROUNDS), DEFECT_KINDS, DEFECT_SIZES, (False, True))
    for number, (turn, kind, share, clear) in enumerate(defects):
        part = (number + turn) % len(parts)  # another part in each round
        defect = DrawnDefect(kind, share, clear, number)
        yield TrialSample(parts[part], part, bad=True, defect=defect)


def _spread(items: Sequence[str], limit: int) -> list[str]:
    """At most `limit` items, evenly spread from the first to the last."""
    if len(items) <= limit:
        return list(items)
    return [items[round(place * (len(items) - 1) / (limit - 1))] for place in range(limit)]
