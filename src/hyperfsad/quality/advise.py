"""Which setting suits these parts: all are shown the same pictures, at one false-alarm rate."""

import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import product
from typing import Any, TypeAlias

from ..detector.detector import HyperFSAD
from ..errors import HyperfsadError, HyperfsadWarning, UsageError
from ..images.loading import load_image
from ..messages import Progress, no_progress
from ..wording import as_rows, count
from .drawn_defects import DEFECT_KINDS, DEFECT_SIZES, DrawnDefect
from .operating_points import Rate
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
UNSURE = 0.2
"""A share of false alarms that is not ruled out is said from here on."""
FEW_PARTS = 4
ADVICE_FORMAT = 1
"""Of the figures; raised when a field changes its meaning."""

MakeDetector: TypeAlias = Callable[..., HyperFSAD]
"""Makes a detector with these options of `HyperFSAD`; all others are the caller's."""


@dataclass(frozen=True)
class Advice:
    """What was compared, and what to do."""

    trials: tuple[Trial, ...]
    """The first is what `fit` does by itself."""
    size: tuple[int, int]
    """Of the first good part, in pixels."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Settings that were not or could not be tried, and why."""
    complete: bool = True
    """Whether all pictures could be read."""

    @property
    def usual(self) -> Trial:
        """What `fit` does by itself."""
        return self.trials[0]

    @property
    def advised(self) -> Trial:
        """The setting that finds clearly more of the real bad parts than the usual one; if none
        does, the usual one. Drawn defects change nothing: where they were followed, verdicts on
        real ones became a little worse (docs/advise.md)."""
        if self.drawn:
            return self.usual
        best = max(self.trials, key=lambda trial: (trial.share_found, -trial.setting.cost))
        clearly = best.share_found >= self.usual.share_found + CLEARLY_MORE
        return best if clearly else self.usual

    @property
    def drawn(self) -> bool:
        """Whether defects were drawn, since no bad part was given."""
        return any(sample.defect is not None for sample in self.usual.samples)

    def to_text(self, arguments: Sequence[str] = ("good/",)) -> str:
        """For a terminal; `arguments` name the good parts on the command line."""
        parts = self.usual.false_alarms.total
        defects = count(self.usual.found().total, "drawn defect" if self.drawn else "bad part")
        lines = [
            f"{count(len(self.trials), 'setting')}, {count(parts, 'good part')}, {defects}. Each"
            " picture is classified by a detector that has not learnt its part, and counts as"
            " found above the level that 5 % of good parts may exceed, the same for all.",
            *("", *self._table(), ""),
        ]
        if self.drawn:
            kinds = (f"{kind} {_of(self.advised.found(kind=kind))}" for kind in DEFECT_KINDS)
            lines.append(f"Found by the advised setting: {', '.join(kinds)}.")
        lines += [f"Left out: {name}. {why}" for name, why in self.skipped.items()]
        lines += [self._conclusion(), f"  {self.command(arguments)}", self._caution(parts)]
        return as_rows(lines)

    def to_json(self, arguments: Sequence[str] = ("good/",)) -> dict[str, Any]:
        """All figures, as advice.json holds them."""
        return {
            "format": ADVICE_FORMAT,
            "advised": self.advised.setting.name,
            "command": self.command(arguments),
            "drawn": self.drawn,
            "good_parts": self.usual.false_alarms.total,
            "settings": [
                {
                    "setting": trial.setting.name,
                    "flags": trial.setting.flags,
                    "cost": trial.setting.cost,
                    "limit": trial.limit,
                    "found": trial.found().count,
                    "defects": trial.found().total,
                    "kinds": {
                        kind: list(astuple(trial.found(kind=kind)))
                        for kind in (DEFECT_KINDS if self.drawn else ())
                    },
                    "found_by_own_threshold": trial.found_by_itself,
                    "false_alarms": trial.false_alarms.count,
                }
                for trial in self.trials
            ],
            "left_out": [
                {"setting": name, "reason": reason} for name, reason in self.skipped.items()
            ],
        }

    def command(self, arguments: Sequence[str] = ("good/",)) -> str:
        """The command line that fits a detector as advised."""
        flags = self.advised.setting.flags
        return shlex.join(["hyperfsad", "fit", *arguments, "-o", "part.hfsad", *flags])

    def _table(self) -> Iterator[str]:
        """A row for each setting: what it costs and finds, by size if defects were drawn."""
        width = max(len("setting"), *(len(trial.setting.name) for trial in self.trials))
        shares = DEFECT_SIZES if self.drawn else ()
        pixels = (max(1, round(share * min(self.size))) for share in shares)
        sizes = "".join(f"{f'{size} px':>8}" for size in pixels)
        own = "by its own threshold: defects, false alarms"
        yield f"{'setting':{width}}  time  found{sizes}   {own}"
        for trial in self.trials:
            setting, mark = trial.setting, "*" if trial is self.advised else " "
            rates = (trial.found(share=share) for share in shares)
            cells = "".join(f"{f'{rate.count}/{rate.total}':>8}" for rate in rates)
            yield (
                f"{setting.name:{width}}  {setting.cost:4.1f}  {trial.found().count:5}{cells}{mark}"
                f"  {trial.found_by_itself}, {_of(trial.false_alarms)} good parts"
            )
        yield "* advised; time: of an image, as a multiple of the plain one"

    def _conclusion(self) -> str:
        """What to do, and why."""
        usual, advised = self.usual, self.advised
        found = f"{_of(advised.found())} defects"
        alarms = advised.false_alarms
        own = (
            f" With the threshold that fit sets, it finds {advised.found_by_itself}, and"
            f" {_of(alarms)} good parts raise a false alarm"
        )
        high = alarms.interval[1] if alarms.interval else 1.0
        own += f" (so few tell little: up to {100 * high:.0f} % may)." if high > UNSURE else "."
        if advised is usual:
            if self.drawn:
                return f"Keep what fit chooses: it finds {found} that were drawn.{own}"
            others = max((trial.share_found for trial in self.trials[1:]), default=0.0)
            clearly = f"clearly more, by {100 * CLEARLY_MORE:.0f} % of all"
            more = clearly if others > usual.share_found else "more"
            return (
                f"Keep what fit chooses: it finds {found}, and no other setting finds {more}.{own}"
            )
        return (
            f"Look at the parts {advised.setting.name}: that finds {found}, where fit by itself"
            f" finds {usual.found().count}. An image takes about {advised.setting.cost:.1f} times"
            f" the plain time.{own}"
        )

    def _caution(self, parts: int) -> str:
        """What the figures do not say."""
        text = "A difference of one or two parts may be chance."
        if self.drawn:
            text = (
                "Drawn defects only stand in for real ones, and do not tell which setting suits"
                " those; with pictures of bad parts, --bad does."
            )
        return f"{text} Take more good parts to be surer." if parts < FEW_PARTS else text


def advise(
    good: Sequence[str],
    bad: Sequence[str] = (),
    *,
    max_cost: float = MAX_TRIAL_COST,
    make: MakeDetector = HyperFSAD,
    progress: Progress = no_progress,
) -> Advice:
    """Compares settings on good parts, and on bad ones or on defects that it draws itself.

    Each picture is classified by a detector that has not learnt the part behind it.
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
            skipped[setting.name] = str(error)
            continue
        trials.append(try_setting(setting, detector, samples, progress(samples, setting.name)))
    read = sum(sample.bad for sample in samples)
    complete = not usual.skipped_ and (not bad or read == len(set(bad)))
    return Advice(tuple(trials), size, skipped, complete)


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


def _of(rate: Rate) -> str:
    return f"{rate.count} of {rate.total}"
