"""The radius within which a part counts as covered, tied to the threshold of the detector.

A part that is covered in every layer has S_cls ≤ mean of r²/2. Radii that use up what the threshold
leaves to the CLS branch,

    mean of r²/2 = (T − λ·m)/(1 − λ),    m the map's score of an ordinary good part

therefore mean: no covered part with an ordinary map is called bad.
"""

import numpy as np

from ..detector.hyperfsad import HyperFSAD
from ..errors import UsageError
from ..images.loading import NormalImage
from ..images.reading import Images
from ..method.memory import MemoryBank
from .coverage import Coverage, cover_tokens, token_distances
from .layerwise import Array, LayerwiseMatcher, encoded, numbers, require_plain

LEVEL_IMAGES = 16
"""Normal images whose maps against each other tell the ordinary level; more cost time and room."""


def left_out_scores(distances: Array) -> Array:
    """g of each image against all others, (layers, images): half the nearest squared distance."""
    apart = distances.copy()
    places = np.arange(apart.shape[1])
    apart[:, places, places] = np.inf
    return np.asarray(apart.min(axis=2) ** 2 / 2)


def radii_for_budget(distances: Array, budget: float) -> Array:
    """Radii with mean r²/2 equal to the budget, shared out as the layers' own levels are."""
    levels = left_out_scores(distances).max(axis=1)
    if levels.sum() == 0:
        levels = np.ones_like(levels)
    return np.asarray(np.sqrt(2 * budget * levels / levels.mean()))


def budget_of_threshold(threshold: float, lam: float, level: float) -> float:
    """What a threshold on the image score leaves to the CLS branch of an ordinary good part."""
    if lam == 1:
        raise UsageError("With λ = 1 the CLS token has no say, so there is nothing to cover.")
    budget = (threshold - lam * level) / (1 - lam)
    if budget <= 0:
        raise UsageError(
            f"The threshold {threshold:.3f} is passed by the map of an ordinary good part alone"
            f" (λ times {level:.3f}); take a higher one."
        )
    return budget


def map_level(bank: MemoryBank, lookup: str) -> float:
    """The map's score of an ordinary good part: the median of each image against the others."""
    size = bank.patches[0].shape[0] // len(bank)
    peaks = []
    for index in range(len(bank)):
        matcher = LayerwiseMatcher(bank.without(index), lookup)
        rows = slice(index * size, (index + 1) * size)
        peaks.append(matcher.peak([layer[rows] for layer in bank.patches]))
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
    if detector.rotations_ > 1:
        raise UsageError(
            "Coverage counts pictures as they are, and this detector remembers them turned as"
            " well; ask one that was fitted without --rotations."
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
    if len(names) < 3:
        raise UsageError(f"Coverage needs at least 3 different normal images, not {len(names)}.")
    cls = np.stack(tokens)
    distances = token_distances(cls)
    if radius is not None:
        if radius <= 0:
            raise UsageError(f"The radius is above 0, not {radius}.")
        radii, origin = np.full(cls.shape[1], radius), "as given"
    elif threshold is not None:
        require_plain(detector)
        level = map_level(MemoryBank.joined(banks), detector.lookup)
        budget = budget_of_threshold(threshold, detector.lam, level)
        radii = radii_for_budget(distances, budget)
        origin = f"from the threshold {threshold:.4f}, ordinary map {level:.4f}, λ {detector.lam}"
    else:
        radii = np.sqrt(2 * left_out_scores(distances).max(axis=1))
        radii += 1e-9  # the farthest image itself must not be lost to rounding
        origin = "the largest leave-one-out distance of each layer"
    return cover_tokens(
        cls,
        radii,
        names=names,
        blocks=detector.settings.layers,
        chance=chance,
        confidence=confidence,
        origin=origin,
    )
