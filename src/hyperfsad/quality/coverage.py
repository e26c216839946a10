"""How many good pictures cover a new good part (Equation 7 of the paper), and which to take."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..detector.hyperfsad import HyperFSAD
from ..encoders.tokens import ImageTokens
from ..errors import UsageError
from ..images.loading import NormalImage
from ..images.reading import Images
from ..method.memory import MemoryBank
from .covering import (
    Shots,
    budget_of_threshold,
    curve,
    exponential,
    greedy_cover,
    held_out_share,
    jensen_curve,
    joint_miss,
    left_out_scores,
    measured_miss,
    neighbour_shares,
    neighbours,
    radii_for_budget,
    share_interval,
    token_distances,
)
from .layerwise import (
    Array,
    LayerwiseMatcher,
    encoded,
    fitted_bank,
    numbers,
    refuse_departures,
)

OWN = "the largest leave-one-out distance of each layer"

LEVEL_IMAGES = 16
"""Normal images whose maps against each other tell the ordinary level; more cost time and room."""


@dataclass(frozen=True)
class LayerCoverage:
    """Coverage in one layer."""

    block: int
    radius: float
    interval: tuple[float, float]
    """For α, at the report's confidence, for a radius that was fixed beforehand."""
    shares: Array = field(repr=False)
    """p of each image."""
    measured: Array = field(repr=False)
    """The miss rate for K = 1, 2, …, by counting supports."""

    @property
    def alpha(self) -> float:
        """The chance that a random normal image lies within the radius of another."""
        return float(self.shares.mean())

    @property
    def isolated(self) -> int:
        """The number of images that no other one covers."""
        return int((self.shares == 0).sum())


@dataclass(frozen=True)
class Coverage:
    """How well good pictures cover each other, and how many are needed."""

    names: tuple[str, ...]
    layers: tuple[LayerCoverage, ...]
    chance: float
    """Of covering a new good part, as asked for."""
    confidence: float
    shots: Shots
    joint: Array | None
    """The measured rate of being missed in some layer, for each K."""
    greedy: tuple[int, ...]
    """Images whose union covers the asked share, the most useful first."""
    held_out: float
    """The share of left-out images that such a choice covers."""
    origin: str
    """Where the radii come from."""

    @property
    def union(self) -> Array:
        """Σ over layers of the measured miss rates: a bound on the joint rate."""
        total = np.sum([layer.measured for layer in self.layers], axis=0)
        return np.asarray(np.minimum(1, total))

    @property
    def union_exponential(self) -> Array:
        """The paper's union bound, Σ e^(−Kα) with each layer's averaged α."""
        total = np.sum([exponential(layer.alpha, self.shots) for layer in self.layers], axis=0)
        return np.asarray(np.minimum(1, total))

    @property
    def missed(self) -> Array:
        """The best known rate of not being covered in all layers."""
        return self.union if self.joint is None else self.joint

    @property
    def needed(self) -> int | None:
        """The smallest K that covers with the asked chance; None where these images are too few."""
        enough = np.flatnonzero(self.missed <= 1 - self.chance + 1e-12)
        return int(self.shots[enough[0]]) if len(enough) else None

    @property
    def needed_by_formula(self) -> int | None:
        """What (1 − α)^K with the union bound would promise: too few, as Jensen says."""
        if any(layer.alpha == 0 for layer in self.layers):
            return None
        shots = 1
        while sum(float(curve(layer.alpha, np.array(shots))) for layer in self.layers) > (
            1 - self.chance + 1e-12
        ):
            shots += 1
        return shots

    def answer(self) -> str:
        """The answer in one sentence."""
        asked, images = f"{self.chance:.0%}", len(self.names)
        if self.needed is not None:
            one = self.needed == 1
            sentence = (
                f"{self.needed} support image{'' if one else 's'}, taken at random,"
                f" cover{'s' if one else ''} a new good part with a chance of"
                f" {1 - self.missed[self.needed - 1]:.0%}"
            )
        else:
            sentence = (
                f"{images} images are too few for {asked}: {images - 1} of them, taken at random,"
                f" cover a new good part with a chance of {1 - self.missed[-1]:.0%}"
            )
        chosen = len(self.greedy)
        return (
            f"{sentence}; {chosen} chosen {'one covers' if chosen == 1 else 'ones cover'} at"
            f" least {asked} of these images, and {self.held_out:.0%} of images that were left out"
            " of the choice."
        )

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain numbers."""
        return {
            "images": list(self.names),
            "radii": self.origin,
            "chance": self.chance,
            "confidence": self.confidence,
            "shots": self.shots.tolist(),
            "layers": [
                {
                    "layer": layer.block,
                    "radius": layer.radius,
                    "alpha": layer.alpha,
                    "alpha_interval": list(layer.interval),
                    "least_share": float(layer.shares.min()),
                    "isolated": layer.isolated,
                    "measured_miss": layer.measured.tolist(),
                    "mean_of_powers": jensen_curve(layer.shares, self.shots).tolist(),
                    "power_of_mean": curve(layer.alpha, self.shots).tolist(),
                    "exponential": exponential(layer.alpha, self.shots).tolist(),
                }
                for layer in self.layers
            ],
            "missed_in_some_layer": None if self.joint is None else self.joint.tolist(),
            "union_of_measured": self.union.tolist(),
            "union_of_exponentials": self.union_exponential.tolist(),
            "needed": self.needed,
            "needed_by_formula": self.needed_by_formula,
            "take": [self.names[place] for place in self.greedy],
            "held_out": self.held_out,
            "answer": self.answer(),
        }


def cover_tokens(
    cls: Array,
    radii: Array,
    *,
    names: Sequence[str],
    blocks: Sequence[int],
    chance: float = 0.95,
    confidence: float = 0.95,
    origin: str = "as given",
) -> Coverage:
    """Coverage among images from their CLS tokens, (images, layers, D)."""
    _require_three(len(cls))
    for share, what in ((chance, "chance"), (confidence, "confidence")):
        if not 0 < share < 1:
            raise UsageError(f"The {what} lies between 0 and 1, not at {share}.")
    near = neighbours(token_distances(cls), radii)
    shares = neighbour_shares(near)
    shots = np.arange(1, len(cls), dtype=np.int64)
    measured = measured_miss(near, shots)
    layers = tuple(
        LayerCoverage(
            block,
            float(radius),
            share_interval(float(share.mean()), len(cls) // 2, confidence),
            share,
            missed,
        )
        for block, radius, share, missed in zip(blocks, radii, shares, measured, strict=True)
    )
    chosen = greedy_cover(near, chance)
    return Coverage(
        tuple(names),
        layers,
        chance,
        confidence,
        shots,
        joint_miss(near, shots),
        tuple(chosen),
        held_out_share(near, len(chosen)),
        origin,
    )


def map_level(bank: MemoryBank, lookup: str) -> float:
    """The map's score of an ordinary good part: the median of each image against the others."""
    peaks = []
    for index in range(len(bank)):
        image = ImageTokens(bank.patches_of(index), bank.cls[index])
        matcher = LayerwiseMatcher(bank.without(index), lookup)
        peaks.append(matcher.discrepancies("", image).score(lam=1))
    return float(np.median(peaks))


def cover_normal(
    detector: HyperFSAD,
    images: Images,
    *,
    threshold: float | None = None,
    radius: float | None = None,
    chance: float = 0.95,
    confidence: float = 0.95,
) -> Coverage:
    """How many good pictures a detector needs; it need not be fitted.

    The radii follow from the threshold, given or the detector's own; without one each layer's is
    the largest leave-one-out distance, as far as a threshold that passes all these images reaches.
    """
    if detector.rotations_ > 1 and not detector.tentative_:
        raise UsageError(
            "Coverage counts pictures as they are, and this detector remembers them turned as"
            " well; ask one that was fitted with --rotations 1."
        )
    threshold = detector.threshold_ if threshold is None and radius is None else threshold
    names: list[str] = []
    tokens: list[Array] = []
    banks: list[MemoryBank] = []
    for name, image in encoded(detector, images, distinct=True):
        names.append(name)
        tokens.append(numbers(image.cls))
        if threshold is not None and len(banks) < LEVEL_IMAGES:
            # the level knows images by their place; their hashes play no part
            banks.append(MemoryBank(image.patches, image.cls[None], (NormalImage(name, ""),)))
    _require_three(len(names))
    cls = np.stack(tokens)
    distances = token_distances(cls)
    if radius is not None:
        if radius <= 0:
            raise UsageError(f"The radius is above 0, not {radius}.")
        radii, origin = np.full(cls.shape[1], radius), "as given"
    elif threshold is not None:
        refuse_departures(detector)
        level = map_level(MemoryBank.joined(banks), detector.lookup)
        budget = budget_of_threshold(threshold, detector.lam, level)
        radii = radii_for_budget(distances, budget)
        origin = f"from the threshold {threshold:.4f}, ordinary map {level:.4f}, λ {detector.lam}"
    else:
        radii, origin = _own_radii(distances), OWN
    return cover_tokens(
        cls,
        radii,
        names=names,
        blocks=detector.settings.layers,
        chance=chance,
        confidence=confidence,
        origin=origin,
    )


def cover_learnt(
    detector: HyperFSAD, *, chance: float = 0.95, confidence: float = 0.95
) -> Coverage:
    """Coverage among the good parts that a detector has learnt, from its memory: no image is read.

    Turned copies are left out, and each layer's radius is the largest leave-one-out distance.
    """
    refuse_departures(detector, patches=False)
    bank = fitted_bank(detector)
    upright = [entries[0] for entries in bank.entries]
    _require_three(len(upright))
    cls = numbers(bank.cls[upright])
    return cover_tokens(
        cls,
        _own_radii(token_distances(cls)),
        names=[image.name for image in bank.normal_images],
        blocks=detector.settings.layers,
        chance=chance,
        confidence=confidence,
        origin=OWN,
    )


def _own_radii(distances: Array) -> Array:
    """As far as a threshold reaches that passes all these images."""
    radii = np.sqrt(2 * left_out_scores(distances).max(axis=1))
    return np.asarray(radii + 1e-9)  # the farthest image itself must not be lost to rounding


def _require_three(images: int) -> None:
    if images < 3:
        raise UsageError(f"Coverage needs at least 3 different normal images, not {images}.")
