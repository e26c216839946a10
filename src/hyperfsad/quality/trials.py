"""Settings to compare, and what each of them finds: held-out good parts, and defects on them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from PIL import Image

from ..decisions.thresholds import FALSE_ALARM_RATE, good_part_level
from ..detector.choices import ROTATED_COPIES, ROTATIONS_COST, WORTHWHILE, resolution_cost
from ..detector.detector import HyperFSAD
from ..images.loading import load_image
from ..views import count_tiles
from .drawn_defects import DrawnDefect, draw_defect
from .operating_points import Rate

MAX_TRIAL_COST = 6.0
"""What an image may cost in a compared setting, as a multiple of the plain cost."""
LARGER_INPUT = 1.25
"""How much larger an encoder's input is tried."""
MAX_FOLDS = 4
"""Groups of good parts that are held out in turn."""


@dataclass(frozen=True)
class CandidateSetting:
    """One way to look at parts."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """For `HyperFSAD`; none: what `fit` does by itself."""
    cost: float = 1.0
    """Of an image, as a multiple of the plain cost; an estimate."""
    shared: Mapping[str, Any] = field(default_factory=dict)
    """Options that only repeat what the good parts asked for already."""

    @property
    def flags(self) -> list[str]:
        """The options as `hyperfsad fit` takes them."""
        return [word for name, value in self.options.items() for word in (f"--{name}", str(value))]


def candidate_settings(
    usual: HyperFSAD, size: tuple[int, int], max_cost: float = MAX_TRIAL_COST
) -> tuple[list[CandidateSetting], dict[str, str]]:
    """What to compare for pictures of a size; of other settings, their names and why not.

    The first setting is what `fit` does by itself. `usual` is a detector that was fitted on the
    good parts, so that it has chosen its view.
    """
    rotations, encoder = usual.rotations_, usual.encoding_
    # What the good parts asked for holds for the others too, and need not be found out again.
    shared = {} if usual.tentative_ else {"rotations": rotations}
    plain, side = (ROTATIONS_COST if rotations > 1 else 1.0), encoder.resolution
    larger = round(LARGER_INPUT * encoder.grid) * encoder.patch
    found = [
        CandidateSetting("as fit chooses", cost=plain),
        CandidateSetting("as they lie", {"rotations": 1})
        if rotations > 1
        else CandidateSetting(
            "in eight orientations", {"rotations": ROTATED_COPIES}, ROTATIONS_COST
        ),
        CandidateSetting("the part alone", {"roi": "auto"}, plain, shared),
        CandidateSetting(
            f"at {larger} pixels", {"resolution": larger}, resolution_cost(larger / side), shared
        ),
        CandidateSetting(
            f"in tiles of {side} pixels",
            {"tiles": side},
            1.0 + count_tiles(size, side, encoder.grid),
        ),
    ]
    pictures, skipped = f"pictures of {size[0]}×{size[1]} pixels", {}
    for setting in found[1:]:
        if "resolution" in setting.options and max(size) <= side:
            skipped[setting.name] = f"The encoder sees all of {pictures} already."
        elif "tiles" in setting.options and max(size) < WORTHWHILE * side:
            skipped[setting.name] = f"It shows little more of {pictures}."
        elif setting.cost > max_cost:
            skipped[setting.name] = (
                f"An image takes about {setting.cost:.1f} times the plain time; at most"
                f" {max_cost:g} times was allowed."
            )
    return [setting for setting in found if setting.name not in skipped], skipped


@dataclass(frozen=True)
class TrialSample:
    """One picture to classify."""

    path: str
    part: int
    """The good part behind it, which its detector has not learnt; of a real bad part, any."""
    bad: bool = False
    defect: DrawnDefect | None = None
    """The defect that is drawn on it."""

    def picture(self) -> Image.Image:
        """The picture; a drawn defect is drawn again, since all of them would fill the memory."""
        image = load_image(self.path).rgb()
        return image if self.defect is None else draw_defect(image, self.defect)


@dataclass(frozen=True)
class Trial:
    """What the samples reach with a setting."""

    setting: CandidateSetting
    samples: tuple[TrialSample, ...]
    levels: tuple[float, ...]

    @cached_property
    def limit(self) -> float:
        """The level that 5 % of good parts may exceed: settings are compared at this rate."""
        pairs = zip(self.samples, self.levels, strict=True)
        good = [level for sample, level in pairs if not sample.bad]
        return good_part_level(good, FALSE_ALARM_RATE)

    def above(self, limit: float, *, bad: bool = True, **of: Any) -> Rate:
        """How many of the good or bad samples exceed a limit.

        `of` names fields of their drawn defects, such as `kind`.
        """
        found = [
            level > limit
            for sample, level in zip(self.samples, self.levels, strict=True)
            if sample.bad == bad
            and all(getattr(sample.defect, name) == value for name, value in of.items())
        ]
        return Rate(sum(found), len(found))

    def found(self, **of: Any) -> Rate:
        """How many defects are found at the common false-alarm rate."""
        return self.above(self.limit, **of)

    @property
    def share_found(self) -> float:
        """Of the defects."""
        return self.found().share or 0.0

    @property
    def false_alarms(self) -> Rate:
        """Good parts above the threshold that the detector sets by itself."""
        return self.above(1, bad=False)

    @property
    def found_by_itself(self) -> int:
        """Defects above that threshold."""
        return self.above(1).count


def held_out_detectors(detector: HyperFSAD) -> list[HyperFSAD]:
    """Detectors that have each not learnt some of the good parts: part i is unknown to i modulo n.

    `detector` was fitted on all of them.
    """
    entries = detector.memory_.entries
    folds = min(MAX_FOLDS, len(entries))
    groups = ([entry for part in entries[fold::folds] for entry in part] for fold in range(folds))
    return [detector.leaving_out(group).calibrate() for group in groups]


def try_setting(
    setting: CandidateSetting,
    detector: HyperFSAD,
    samples: Sequence[TrialSample],
    shown: Iterable[TrialSample],
) -> Trial:
    """Classifies every sample; `shown` passes them on one by one, and may show progress."""
    detectors = held_out_detectors(detector)
    levels = []
    for sample in shown:
        level = detectors[sample.part % len(detectors)].predict(sample.picture()).level
        assert level is not None
        levels.append(level)
    return Trial(setting, tuple(samples), tuple(levels))
