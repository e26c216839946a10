"""The formulas of few-shot coverage (Equation 7): miss rates, their bounds, and greedy covers.

A part is covered in a layer where some support image's CLS token lies within the radius r of its
own. If one random support image does so with chance p, then K of them all miss with (1 − p)^K. The
chance p differs from part to part; with α its mean, by Jensen the true miss rate lies above the
curve of the averaged α:

    E[(1 − p)^K] ≥ (1 − α)^K,    while (1 − α)^K ≤ e^(−Kα)
"""

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .intervals import root
from .tokens import Array

Flags = NDArray[np.bool_]

Shots = NDArray[np.int64]
"""Numbers K of support images."""

MAX_JOINT_LAYERS = 12
"""Up to here the joint miss rate is summed exactly, over all 4,095 sets of layers."""

MAX_HELD_OUT = 64
"""Images that are held out in turn, evenly spread; each costs a cover of all the others."""


def token_distances(cls: Array) -> Array:
    """‖c_i − c_j‖ in every layer, (layers, images, images), from (images, layers, D)."""
    gram = np.einsum("ild,jld->lij", cls, cls)
    squares = np.diagonal(gram, axis1=1, axis2=2)
    apart = squares[:, :, None] + squares[:, None, :] - 2 * gram
    apart[:, np.eye(len(cls), dtype=bool)] = 0
    return np.asarray(np.sqrt(np.maximum(apart, 0)))


def neighbours(distances: Array, radii: Array) -> Flags:
    """Which images lie within the radius of which, (layers, images, images); never of itself."""
    itself = np.eye(distances.shape[1], dtype=bool)
    return np.asarray((distances <= radii[:, None, None]) & ~itself)


def neighbour_shares(near: Flags) -> Array:
    """p of each image, leave-one-out: the share of the others near it, (layers, images)."""
    return np.asarray(near.sum(axis=2) / (near.shape[1] - 1))


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


def joint_miss(near: Flags, shots: Shots) -> Array:
    """The rate of being missed in some layer, over all supports of K other images.

    By inclusion and exclusion over sets of layers: K images miss all layers of a set where none of
    them is near in any. With too many layers for that it is the union bound.
    """
    layers, images, _ = near.shape
    if layers > MAX_JOINT_LAYERS:
        return np.asarray(np.minimum(1, measured_miss(near, shots).sum(axis=0)))
    chances = all_outside(images - 1, shots)
    total = np.zeros(len(shots))
    for size in range(1, layers + 1):
        for chosen in combinations(range(layers), size):
            inside = near[list(chosen)].any(axis=0).sum(axis=1)
            missed = chances[images - 1 - inside].mean(axis=0)
            total += missed if size % 2 else -missed
    return np.clip(total, 0, 1)


def held_out_scores(distances: Array) -> Array:
    """g of each image against all others, (layers, images): half the nearest squared distance."""
    apart = np.where(np.eye(distances.shape[1], dtype=bool), np.inf, distances)
    return np.asarray(apart.min(axis=2) ** 2 / 2)


def radii_of_threshold(distances: Array, threshold: float, lam: float, level: float) -> Array:
    """The radii within which no part with an ordinary map is called bad.

    A part that is covered in every layer has S_cls ≤ mean of r²/2. The radii use up what the
    threshold T on the image score leaves to the CLS branch, shared out as the layers' own levels:

        mean of r²/2 = (T − λ·m)/(1 − λ),    m the map's score of an ordinary good part
    """
    if lam == 1:
        raise UsageError("coverage-without-cls")
    budget = (threshold - lam * level) / (1 - lam)
    if budget <= 0:
        raise UsageError("coverage-threshold-low", threshold=threshold, level=level)
    levels = held_out_scores(distances).max(axis=1)
    if levels.sum() == 0:
        levels = np.ones_like(levels)
    return np.asarray(np.sqrt(2 * budget * levels / levels.mean()))


def greedy_cover(near: Flags, share: float = 1.0, limit: int | None = None) -> list[int]:
    """Images that together cover a share of all, the most useful first.

    `near` is (layers, images, images): whether image j lies within the radius of image i. An image
    is covered where in every layer some chosen one is near; different layers may have different
    ones. Each step takes the image that covers most that is open, of layers and images together, so
    that at most 1 + ln(layers · images) times as many are taken as are needed (for all of them).
    """
    layers, images, _ = near.shape
    near = near | np.eye(images, dtype=bool)
    covered = np.zeros((layers, images), dtype=bool)
    chosen: list[int] = []
    limit = images if limit is None else min(limit, images)
    while len(chosen) < limit and covered.all(axis=0).mean() < share:
        gains = (near & ~covered[:, :, None]).sum(axis=(0, 1))
        chosen.append(int(gains.argmax()))
        covered |= near[:, :, chosen[-1]]
    return chosen


def held_out_share(near: Flags, count: int) -> float:
    """The share of images that a greedy cover of the others, of `count` images, covers as well.

    A cover made for these very images says little about new ones; this does.
    """
    images = near.shape[1]
    tried = np.unique(np.linspace(0, images - 1, min(images, MAX_HELD_OUT)).round().astype(int))
    hits = 0
    for image in tried.tolist():
        others = np.delete(np.arange(images), image)
        chosen = others[greedy_cover(near[:, others][:, :, others], limit=count)]
        hits += bool(near[:, image, chosen].any(axis=1).all())
    return float(hits / len(tried))


def share_interval(share: float, independent: int, confidence: float = 0.95) -> tuple[float, float]:
    """An interval for the mean of an average over pairs, without assumptions on the images' law.

    All pairs of n images are dependent, but their average is also the average, over all orders of
    the images, of means of ⌊n/2⌋ independent pairs (Hoeffding, 1963). Chernoff's bound for those
    therefore holds for it too: outside of {p : m·KL(share, p) ≤ ln(2/(1 − confidence))} the truth
    lies with a chance of at most 1 − confidence.
    """
    allowed = math.log(2 / (1 - confidence)) / max(1, independent)

    def excess(chance: float) -> float:
        return _divergence(share, chance) + _divergence(1 - share, 1 - chance) - allowed

    low, high = share * 1e-12, 1 - (1 - share) * 1e-12  # at 0 and 1 it may be infinite
    return (
        0.0 if excess(low) <= 0 else root(lambda chance: -excess(chance), low, share),
        1.0 if excess(high) <= 0 else root(excess, share, high),
    )


def _divergence(share: float, chance: float) -> float:
    """What one outcome adds to KL(share, chance)."""
    if not share:
        return 0.0
    return share * math.log(share / chance) if chance else math.inf
