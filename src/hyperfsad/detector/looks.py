"""The ways in which a cascade looks first: in 8 bits, or with half as many pixels along a side.

In 8 bits a detector sees what the full one sees, so its scores mean the same: they are held against
the full detector's thresholds, and hardly ever lie on another side of them. With fewer pixels it is
another detector, with thresholds of its own.
"""

import importlib.util
from dataclasses import dataclass
from typing import Any, Protocol

from ..decisions.limits import EIGHT_BITS_LIMITS, HALF_LIMITS, Limits
from ..encoders.runtime import INT8, engine_in, named_engine, precision_of
from ..errors import UsageError
from ..images.reading import Images
from .hyperfsad import HyperFSAD
from .orientation import as_they_are

FEWER = 2
"""Half the pixels along a side (docs/cascade.md)."""


class Look(Protocol):
    """How a fast detector comes about beside the full one, and stays beside it."""

    @property
    def limits(self) -> Limits:
        """Between them the full detector is asked."""
        ...

    def settings(self, full: HyperFSAD) -> dict[str, Any]:
        """What is other than in the full detector."""
        ...

    def fit(self, fast: HyperFSAD, full: HyperFSAD, images: Images) -> None:
        """Learns what the full detector has just learnt."""
        ...

    def extend(self, fast: HyperFSAD, full: HyperFSAD, images: Images) -> None:
        """Learns what was added to the full detector."""
        ...

    def calibrate(
        self, fast: HyperFSAD, full: HyperFSAD, images: "Images | None", keep_odd: bool
    ) -> None:
        """Sets thresholds after those of the full detector."""
        ...


@dataclass(frozen=True)
class EightBits:
    """The same pixels, encoded in 8 bits. The full detector decides on all else: in how many
    orientations parts are remembered, and the thresholds."""

    limits: Limits = EIGHT_BITS_LIMITS

    def settings(self, full: HyperFSAD) -> dict[str, Any]:
        """The engine, on the CPU."""
        if importlib.util.find_spec("nncf") is None:  # rather than after the full detector's fit
            raise UsageError(
                "A fast look in 8 bits needs NNCF, which is not installed; install it with"
                " `pip install 'hyperfsad[int8]'`, or take --fast-half."
            )
        if precision_of(named_engine(full.engine)) == INT8:
            raise UsageError(
                "A fast look is in 8 bits, and so is the engine openvino-int8; leave --fast out, or"
                " take another --engine."
            )
        return {"engine": engine_in(INT8), "device": "cpu"}

    def fit(self, fast: HyperFSAD, full: HyperFSAD, images: Images) -> None:
        """As many orientations as the full detector chose."""
        fast.rotations = full.rotations_
        fast.fit(images, threshold=False)
        _follow(fast, full)

    def extend(self, fast: HyperFSAD, full: HyperFSAD, images: Images) -> None:
        """The full detector may have chosen other orientations now that it knows more parts."""
        fast.tentative_, fast.calibration_ = False, None  # or it would choose and judge by itself
        fast.extend(images)
        _follow(fast, full)

    def calibrate(
        self, fast: HyperFSAD, full: HyperFSAD, images: "Images | None", keep_odd: bool
    ) -> None:
        """Those of the full detector."""
        _follow(fast, full)


def _follow(fast: HyperFSAD, full: HyperFSAD) -> None:
    turned = full.rotations_ < fast.rotations_
    if turned or fast.tentative_ != full.tentative_:
        fast.rotations_, fast.tentative_ = full.rotations_, full.tentative_
        fast.remember(as_they_are(fast.memory_) if turned else fast.memory_)
    fast.threshold_, fast.map_threshold_ = full.threshold_, full.map_threshold_
    fast.calibration_ = full.calibration_


@dataclass(frozen=True)
class HalfResolution:
    """Fewer pixels: another detector, which decides for itself."""

    limits: Limits = HALF_LIMITS

    def settings(self, full: HyperFSAD) -> dict[str, Any]:
        """The resolution."""
        if precision_of(named_engine(full.engine)) == INT8:
            raise UsageError(
                "The engine openvino-int8 is calibrated for one size of pictures, and this fast"
                " look needs two; leave --fast-half out, or take openvino."
            )
        side = full.settings.grid // FEWER * full.settings.patch
        if side < full.settings.patch:
            raise UsageError(
                f"At {full.settings.resolution} pixels there is nothing faster to look with; leave"
                " --fast-half out, or take a higher --resolution."
            )
        return {"resolution": side}

    def fit(self, fast: HyperFSAD, full: HyperFSAD, images: Images) -> None:
        """All by itself."""
        fast.fit(images, threshold=False)
        self.calibrate(fast, full, None, keep_odd=False)

    def extend(self, fast: HyperFSAD, full: HyperFSAD, images: Images) -> None:
        """All by itself."""
        fast.extend(images)

    def calibrate(
        self, fast: HyperFSAD, full: HyperFSAD, images: "Images | None", keep_odd: bool
    ) -> None:
        """From its own scores of the same parts."""
        if full.calibration_ is not None:
            rate = full.calibration_.rate
            fast.calibrate(images, false_alarm_rate=rate, keep_odd=keep_odd)


LOOKS: dict[str, Look] = {"int8": EightBits(), "half": HalfResolution()}
"""By what `CascadeDetector(fast=…)` calls them."""


def look_between(full: HyperFSAD, fast: HyperFSAD) -> Look:
    """The look of two detectors from a file."""
    return LOOKS["int8" if fast.settings.resolution == full.settings.resolution else "half"]


def find_look(name: str) -> Look:
    """A look by its name."""
    if name not in LOOKS:
        raise UsageError(f"The fast look is one of {', '.join(LOOKS)}, not {name!r}.")
    return LOOKS[name]
