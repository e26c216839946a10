"""Few-shot coverage (Equation 7 of the paper): how many good pictures cover a new good part.

A part is covered in a layer where some support image's CLS token lies within the radius r of its
own. If one random support image does so with chance p, then K of them all miss with (1 − p)^K. The
chance p differs from part to part; with α its mean, by Jensen the true miss rate lies above the
curve of the averaged α:

    E[(1 − p)^K] ≥ (1 − α)^K,    while (1 − α)^K ≤ e^(−Kα)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .cover import Flags, greedy_cover, held_out_share
from .intervals import share_interval
from .layerwise import Array

Shots = NDArray[np.int64]
"""Numbers K of support images."""

MOST_LAYERS = 12
"""Up to here the joint miss rate is summed exactly, over all 4,095 sets of layers."""


def token_distances(cls: Array) -> Array:
    """‖c_i − c_j‖ in every layer, (layers, images, images), from (images, layers, D)."""
    gram = np.einsum("ild,jld->lij", cls, cls)
    squares = np.diagonal(gram, axis1=1, axis2=2)
    apart = squares[:, :, None] + squares[:, None, :] - 2 * gram
    apart[:, np.arange(len(cls)), np.arange(len(cls))] = 0
    return np.asarray(np.sqrt(np.maximum(apart, 0)))


def neighbours(distances: Array, radii: Array) -> Flags:
    """Which images lie within the radius of which, (layers, images, images); never of itself."""
    near = distances <= radii[:, None, None]
    places = np.arange(distances.shape[1])
    near[:, places, places] = False
    return np.asarray(near)


def neighbour_shares(near: Flags) -> Array:
    """p of each image, leave-one-out: the share of the others near it, (layers, images)."""
    return np.asarray(near.sum(axis=2) / (near.shape[1] - 1))


def curve(alpha: float, shots: Shots) -> Array:
    """(1 − α)^K: the miss rate if every part were as easy to cover as the average one."""
    return np.asarray((1 - alpha) ** shots)


def exponential(alpha: float, shots: Shots) -> Array:
    """e^(−Kα), above (1 − α)^K."""
    return np.asarray(np.exp(-shots * alpha))


def jensen_curve(shares: Array, shots: Shots) -> Array:
    """The mean of (1 − p_i)^K, above (1 − α)^K with α the mean of p_i."""
    return np.asarray(((1 - shares)[:, None] ** shots[None, :]).mean(axis=0))


def all_outside(others: int, shots: Shots) -> Array:
    """The chance that K images drawn from n others all lie outside, (n + 1, K).

    Rows are the number of others that lie outside: C(outside, K)/C(n, K).
    """
    steps = np.arange(int(shots.max()))
    outside = np.arange(others + 1)[:, None]
    chances = np.cumprod(np.maximum(outside - steps, 0) / (others - steps), axis=1)
    return np.asarray(chances[:, shots - 1])


def measured_miss(near: Flags, shots: Shots) -> Array:
    """The miss rate of each layer over all supports of K other images, (layers, K); K < images.

    Counted, not sampled: of the supports that leave an image out, the share that lies outside its
    radius. Unlike the mean of (1 − p_i)^K with estimated p_i it is right on average.
    """
    others = near.shape[1] - 1
    return np.asarray(all_outside(others, shots)[others - near.sum(axis=2)].mean(axis=1))


def joint_miss(near: Flags, shots: Shots) -> Array | None:
    """The rate of being missed in some layer, over all supports of K other images.

    By inclusion and exclusion over sets of layers: K images miss all layers of a set where none of
    them is near in any. None where there are too many layers.
    """
    layers, images, _ = near.shape
    if layers > MOST_LAYERS:
        return None
    chances = all_outside(images - 1, shots)
    total = np.zeros(len(shots))
    for size in range(1, layers + 1):
        for chosen in combinations(range(layers), size):
            inside = near[list(chosen)].any(axis=0).sum(axis=1)
            missed = chances[images - 1 - inside].mean(axis=0)
            total += missed if size % 2 else -missed
    return np.clip(total, 0, 1)


@dataclass(frozen=True)
class LayerCoverage:
    """Coverage in one layer."""

    block: int
    radius: float
    alpha: float
    """The chance that a random normal image lies within the radius of another."""
    interval: tuple[float, float]
    """For α, at the report's confidence, for a radius that was fixed beforehand."""
    shares: Array = field(repr=False)
    """p of each image."""
    measured: Array = field(repr=False)
    """The miss rate for K = 1, 2, …, by counting supports."""
    isolated: int
    """Images that no other one covers."""


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
        """The smallest K that covers with the asked chance; None where these images do not tell."""
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
        one = len(self.greedy) == 1
        return (
            f"{sentence}; {len(self.greedy)} chosen {'one covers' if one else 'ones cover'} at"
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
    if len(cls) < 3:
        raise UsageError(f"Coverage needs at least 3 different normal images, not {len(cls)}.")
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
            float(share.mean()),
            share_interval(float(share.mean()), len(cls) // 2, confidence),
            share,
            missed,
            int((share == 0).sum()),
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
