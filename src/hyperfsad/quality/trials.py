"""Settings to compare, and what each of them finds: held-out good parts, and defects on them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from ..decisions.thresholds import FALSE_ALARM_RATE, good_part_level
from ..detector.detector import HyperFSAD
from ..detector.fit import ROTATED_COPIES, ROTATIONS_COST, WORTHWHILE, resolution_cost
from ..images.loading import load_image
from ..views import count_tiles
from .drawn_defects import DrawnDefect, draw_defect

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
    def flags(self) -> tuple[str, ...]:
        """The options as `hyperfsad fit` takes them."""
        return tuple(w for name, value in self.options.items() for w in (f"--{name}", str(value)))


SkippedSettings = list[tuple[CandidateSetting, str]]
"""Settings that were not compared, and a sentence that says why."""


def candidate_settings(
    usual: HyperFSAD, size: tuple[int, int], max_cost: float = MAX_TRIAL_COST
) -> tuple[list[CandidateSetting], SkippedSettings]:
    """What is worth comparing for pictures of a size, and what is not.

    The first setting is what `fit` does by itself. `usual` is a detector that was fitted on the
    good parts, so that it has chosen its view.
    """
    rotations, encoder = usual.rotations_, usual.encoding_
    # What the good parts asked for holds for the others too, and need not be found out again.
    shared = {} if usual.tentative_ else {"rotations": rotations}
    plain = ROTATIONS_COST if rotations > 1 else 1.0
    if rotations > 1:
        turned = CandidateSetting("as they lie", {"rotations": 1})
    else:
        options = {"rotations": ROTATED_COPIES}
        turned = CandidateSetting("in eight orientations", options, ROTATIONS_COST)
    side = encoder.resolution
    larger = round(LARGER_INPUT * encoder.grid) * encoder.patch
    options = {"resolution": larger}
    closer = CandidateSetting(
        f"at {larger} pixels", options, resolution_cost(larger / side), shared
    )
    tiles = 1 + count_tiles(size, side, encoder.grid)
    tiled = CandidateSetting(f"in tiles of {side} pixels", {"tiles": side}, float(tiles))
    found = [
        CandidateSetting("as fit chooses", cost=plain),
        turned,
        CandidateSetting("the part alone", {"roi": "auto"}, plain, shared),
    ]
    small: SkippedSettings = []
    pictures = f"pictures of {size[0]}×{size[1]} pixels"
    if max(size) > side:
        found.append(closer)
    else:
        small.append((closer, f"The encoder sees all of {pictures} already."))
    if max(size) >= WORTHWHILE * side:
        found.append(tiled)
    else:
        small.append((tiled, f"It shows little more of {pictures}."))
    costly = [
        (
            one,
            f"An image takes about {one.cost:.1f} times the plain time; at most {max_cost:g}"
            " times was allowed.",
        )
        for one in found[1:]
        if one.cost > max_cost
    ]
    return [found[0], *(one for one in found[1:] if one.cost <= max_cost)], costly + small


@dataclass(frozen=True)
class TrialSample:
    """One picture that is judged."""

    path: str
    part: int
    """The good part behind it, which its detector has not learnt; of a real bad part, any."""
    bad: bool = False
    defect: DrawnDefect | None = None
    """The defect that is drawn on it."""

    def picture(self) -> Image.Image:
        """The picture; a drawn defect is drawn again, since all of them would fill the memory."""
        image = load_image(self.path).rgb()
        return image if self.defect is None else draw_defect(image, self.defect).image


@dataclass(frozen=True)
class Trial:
    """What the samples reach with a setting."""

    setting: CandidateSetting
    samples: tuple[TrialSample, ...]
    strengths: tuple[float, ...]

    @property
    def level(self) -> float:
        """The strength that 5 % of good parts may exceed: settings are compared at this rate."""
        return good_part_level(self._strengths(bad=False), FALSE_ALARM_RATE)

    @property
    def defects(self) -> list[tuple[TrialSample, bool]]:
        """The samples with a defect, and whether each was found at that rate."""
        level, pairs = self.level, zip(self.samples, self.strengths, strict=True)
        return [(sample, strength > level) for sample, strength in pairs if sample.bad]

    @property
    def found_count(self) -> int:
        """Defects that were found at that rate."""
        return sum(found for _, found in self.defects)

    @property
    def share_found(self) -> float:
        """Of the defects."""
        return self.found_count / len(self.defects)

    @property
    def found_by_itself(self) -> int:
        """Defects above the threshold that the detector sets by itself."""
        return sum(strength > 1 for strength in self._strengths(bad=True))

    @property
    def false_alarms(self) -> int:
        """Good parts above the threshold that the detector sets by itself."""
        return sum(strength > 1 for strength in self._strengths(bad=False))

    def found(self, *, kind: str | None = None, share: float | None = None) -> tuple[int, int]:
        """How many drawn defects of a kind and of a size were found, and of how many."""
        chosen = [
            found
            for sample, found in self.defects
            if sample.defect is not None
            and kind in (None, sample.defect.kind)
            and share in (None, sample.defect.share)
        ]
        return sum(chosen), len(chosen)

    def _strengths(self, *, bad: bool) -> list[float]:
        pairs = zip(self.samples, self.strengths, strict=True)
        return [strength for sample, strength in pairs if sample.bad == bad]


class HeldOutDetectors:
    """Detectors that have each not learnt some of the good parts."""

    def __init__(self, detector: HyperFSAD) -> None:
        """`detector` was fitted on all of them."""
        entries = detector.memory_.entries
        self.folds = min(MAX_FOLDS, len(entries))
        self.detectors: list[HyperFSAD] = []
        for fold in range(self.folds):
            held_out = [entry for part in entries[fold :: self.folds] for entry in part]
            self.detectors.append(detector.leaving_out(held_out).calibrate())

    def strength(self, sample: TrialSample) -> float:
        """What a sample reaches by a detector that has not learnt the part behind it."""
        result = self.detectors[sample.part % self.folds].predict(sample.picture())
        assert result.strength is not None
        return result.strength


def try_setting(
    setting: CandidateSetting,
    detector: HyperFSAD,
    samples: Sequence[TrialSample],
    shown: Iterable[TrialSample],
) -> Trial:
    """Judges every sample; `shown` passes them on one by one, and may show progress."""
    held_out = HeldOutDetectors(detector)
    return Trial(setting, tuple(samples), tuple(held_out.strength(sample) for sample in shown))
