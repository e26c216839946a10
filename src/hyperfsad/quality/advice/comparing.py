"""Which setting suits these parts: all are shown the same pictures, at one false-alarm rate."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...detector.hyperfsad import HyperFSAD
from ...errors import HyperfsadError, HyperfsadWarning, UsageError
from ...images.loading import load_image
from ...messages import Progress, no_progress
from .defects import KINDS, SIZES
from .settings import BUDGET, LeftOut, Setting, settings_for
from .trial import Sample, Sketch, Trial, try_setting

MOST_PARTS = 8
"""Good parts that take part; more cost time and tell little more."""

DRAWS = 2
"""Defects of each kind, size and contrast."""

CLEARLY_MORE = 0.08
"""Another setting than what `fit` chooses is advised if it finds more by this share of all."""

MOSTLY = 0.7
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
    left_out: tuple[LeftOut, ...] = ()
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
        return any(sample.sketch is not None for sample in self.usual.samples)

    def pixels(self, share: float) -> int:
        """The size of a drawn defect in pixels of the picture."""
        return max(1, round(share * min(self.size)))

    def smallest(self, trial: Trial, kind: str) -> float | None:
        """The size from which on drawn defects of a kind are mostly found; None: not even large."""
        smallest = None
        for share in sorted(SIZES, reverse=True):
            found, total = trial.found(kind=kind, share=share)
            if found < MOSTLY * total:
                break
            smallest = share
        return smallest


def advise(
    good: Sequence[str],
    bad: Sequence[str] = (),
    *,
    budget: float = BUDGET,
    make: MakeDetector = HyperFSAD,
    progress: Progress = no_progress,
) -> Advice:
    """Compares settings on good parts, and on bad ones or on defects that it draws itself.

    Each picture is judged by a detector that has not learnt the part behind it.
    """
    usual = make().fit(_spread(list(dict.fromkeys(good)), MOST_PARTS), threshold=False)
    parts = [image.name for image in usual.support_]
    if len(parts) < 2:
        raise UsageError(
            "Advice needs at least two different good parts: one is learnt, the other is judged."
            " Four or more are better."
        )
    size = load_image(parts[0]).size
    samples = [Sample(path, part) for part, path in enumerate(parts)]
    samples += _real(bad) if bad else _sketched(parts)
    defects = sum(sample.bad for sample in samples)
    trials: list[Trial] = []
    settings, left_out = settings_for(usual, size, budget)
    for setting in settings:
        try:
            detector = usual if not trials else _fitted(make, setting, usual, parts)
        except HyperfsadError as error:
            if not trials:
                raise
            left_out.append((setting, str(error)))
            continue
        shown = progress(samples, setting.name)
        trials.append(try_setting(setting, detector, samples, shown))
    complete = not usual.skipped_ and (not bad or defects == len(set(bad)))
    return Advice(tuple(trials), size, tuple(left_out), complete)


def _fitted(
    make: MakeDetector, setting: Setting, usual: HyperFSAD, parts: Sequence[str]
) -> HyperFSAD:
    """A detector with a setting; one with the same encoder shares it."""
    detector = make(**setting.options)
    if detector.settings == usual.settings:
        detector.use_encoder(usual.encoder_)
    detector.fit(parts, threshold=False)
    if setting.options.get("roi") and detector.view_.region.note:
        raise UsageError("part-not-found")
    return detector


def _real(bad: Sequence[str]) -> list[Sample]:
    """Bad parts; one that cannot be read is left out with a warning."""
    found: list[Sample] = []
    for path in dict.fromkeys(bad):
        try:
            load_image(path)
        except HyperfsadError as error:
            warnings.warn(str(error), HyperfsadWarning, stacklevel=2)
            continue
        found.append(Sample(path, len(found), bad=True))
    if not found:
        raise UsageError("None of the bad parts can be read, so there is nothing to find.")
    return found


def _sketched(parts: Sequence[str]) -> Iterator[Sample]:
    """The good parts in turn, each with another defect."""
    sketches = (
        (kind, share, clear, draw)
        for draw in range(DRAWS)
        for kind in KINDS
        for share in SIZES
        for clear in (False, True)
    )
    for number, (kind, share, clear, draw) in enumerate(sketches):
        part = (number + draw) % len(parts)  # another part in each round
        yield Sample(parts[part], part, bad=True, sketch=Sketch(kind, share, clear, number))


def _spread(items: Sequence[str], most: int) -> list[str]:
    """So many items at most, from the first to the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]
