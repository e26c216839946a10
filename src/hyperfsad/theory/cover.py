"""Which good pictures to take: a greedy cover of all the others."""

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]

LEFT_OUT = 64
"""Images that are left out in turn, evenly spread; each costs a cover of all the others."""


def greedy_cover(near: Flags, share: float = 1.0, most: int | None = None) -> list[int]:
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
    limit = images if most is None else min(most, images)
    while len(chosen) < limit and covered.all(axis=0).mean() < share:
        gains = (near & ~covered[:, :, None]).sum(axis=(0, 1))
        best = int(gains.argmax())
        chosen.append(best)
        covered |= near[:, :, best]
    return chosen


def covered_by(near: Flags, chosen: list[int], image: int) -> bool:
    """Whether an image has a chosen one near it in every layer."""
    return bool(near[:, image, chosen].any(axis=1).all())


def held_out_share(near: Flags, count: int) -> float:
    """The share of images that a greedy cover of the others, of `count` images, covers as well.

    A cover that was made for these very images says little of new ones; this does.
    """
    images = near.shape[1]
    hits = 0
    tried = np.unique(np.linspace(0, images - 1, min(images, LEFT_OUT)).round().astype(int))
    for image in tried.tolist():
        others = np.delete(np.arange(images), image)
        chosen = greedy_cover(near[:, others][:, :, others], most=count)
        hits += int(covered_by(near, [int(others[place]) for place in chosen], image))
    return float(hits / len(tried))
