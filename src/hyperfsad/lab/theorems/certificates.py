"""Theorem 1 (Equation 6): a margin between a good and a bad part, from their tokens alone.

For a good image N and a bad image A, with values that the premises name in every layer,

    S(A) − S(N) ≥ λ·mean(γ − ε²/2) + (1 − λ)·mean(δ² − r²)/2

Where that is positive the pair is certified: no threshold between the two can be missed by luck.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...detector.detector import HyperFSAD
from ...encoders.encoder import ImageTokens
from ...errors import UsageError
from ...images.reading import Images
from ...method.memory import MemoryBank
from ...quality.tokens import Array, encode_images, fitted_bank, numbers, refuse_departures
from .hull import Cone
from .layerwise import PROVEN_MARGIN, Discrepancies, LayerwiseMatcher
from .ranking import score_gaps

CERTIFICATE_REASONS = ("certified", "misranked", "premise (i)", "premise (ii)", "either", "both")
"""Why a pair has no certificate. (iii) is never among them: it loses nothing, since for unit tokens
r²/2 and δ²/2 are the CLS scores themselves."""


@dataclass(frozen=True)
class Certificates:
    """Theorem 1 for every pair; arrays are (good, layers), (bad, layers) or (good, bad)."""

    lam: float
    good: tuple[Discrepancies, ...]
    bad: tuple[Discrepancies, ...]
    epsilon: Array
    """ε: how far the normal patches that a good image draws on may be."""
    gamma: Array
    """γ: how far the bad image's patch t* stays from every mixture of normal patches."""
    gamma_gap: Array
    """What the proof of γ cost: the duality gap, already taken off."""
    rounding: float
    """Taken off the margins: what float32 scores may be wrong by."""

    @property
    def r(self) -> Array:
        """The distance of each good image's CLS token from the memory."""
        return _distances(self.good)

    @property
    def delta(self) -> Array:
        """δ: the distance of each bad image's CLS token from the memory."""
        return _distances(self.bad)

    @property
    def premise_holds(self) -> NDArray[np.bool_]:
        """Whether ε < √2 in every layer of a good image, (good,)."""
        return np.asarray((self.epsilon < math.sqrt(2)).all(axis=1))

    @property
    def map_margin(self) -> Array:
        """Δ_map of each pair; −∞ where premise (i) itself fails."""
        return np.asarray(self.gamma.mean(axis=1)[None, :] - self._good_bound[:, None])

    @property
    def cls_margin(self) -> Array:
        """Δ_cls of each pair."""
        far, near = (self.delta**2).mean(axis=1), (self.r**2).mean(axis=1)
        return np.asarray(far[None, :] - near[:, None]) / 2

    @property
    def margin(self) -> Array:
        """What is certified of each pair; −∞ where nothing is."""
        return self._margin(self.map_margin)

    @property
    def layer_margin(self) -> Array:
        """b of Equation 27, (good, bad, layers): a bound on η of each layer, and so on its share of
        the gap; −∞ where premise (i) fails in that layer. Their mean is the margin."""
        near = np.where(self.epsilon < math.sqrt(2), self.epsilon**2 / 2, math.inf)
        local = self.gamma[None, :] - near[:, None]
        far = self.delta[None, :] ** 2 - self.r[:, None] ** 2
        found = self.lam * local if self.lam > 0 else np.zeros_like(local)
        return np.asarray(found + (1 - self.lam) / 2 * far - self.rounding)

    @property
    def gap(self) -> Array:
        """The real difference of the scores, which the margin never exceeds."""
        return score_gaps(self.good, self.bad, self.lam)

    @property
    def certified(self) -> NDArray[np.bool_]:
        """Which pairs are certified."""
        return np.asarray(self.margin > 0)

    @property
    def share(self) -> float:
        """The share of certified pairs."""
        return float(self.certified.mean())

    @property
    def reasons(self) -> NDArray[np.str_]:
        """`CERTIFICATE_REASONS` of each pair: which premise, made exact, would certify it."""
        peak = np.array([image.distances.mean(axis=0).max() for image in self.good])
        height = np.array([image.distances[:, image.peak].mean() for image in self.bad])
        first = self._margin(self.gamma.mean(axis=1)[None, :] - peak[:, None]) > 0
        second = self._margin(height[None, :] - self._good_bound[:, None]) > 0
        return np.select(
            [self.certified, self.gap <= 0, first & second, first, second],
            ["certified", "misranked", "either", "premise (i)", "premise (ii)"],
            "both",
        )

    def counts(self) -> dict[str, int]:
        """How many pairs there are of each reason."""
        return {reason: int((self.reasons == reason).sum()) for reason in CERTIFICATE_REASONS}

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain numbers."""
        return {
            "lambda": self.lam,
            "good": [image.name for image in self.good],
            "bad": [image.name for image in self.bad],
            "epsilon": self.epsilon.tolist(),
            "gamma": self.gamma.tolist(),
            "gamma_duality_gap": self.gamma_gap.tolist(),
            "r": self.r.tolist(),
            "delta": self.delta.tolist(),
            "map_margin": _finite(self.map_margin),
            "cls_margin": self.cls_margin.tolist(),
            "margin": _finite(self.margin),
            "layer_margin": [_finite(row) for row in self.layer_margin],
            "gap": self.gap.tolist(),
            "certified": self.certified.tolist(),
            "share": self.share,
            "reasons": self.counts(),
        }

    @property
    def _good_bound(self) -> Array:
        """What premise (i) leaves of the map of each good image; ∞ where it fails."""
        return np.where(self.premise_holds, (self.epsilon**2 / 2).mean(axis=1), math.inf)

    def _margin(self, map_margin: Array) -> Array:
        local = self.lam * map_margin if self.lam > 0 else np.zeros_like(map_margin)
        return local + (1 - self.lam) * self.cls_margin - self.rounding


def certify_tokens(
    bank: MemoryBank,
    good: Iterable[tuple[str, ImageTokens]],
    bad: Iterable[tuple[str, ImageTokens]],
    lam: float = 0.5,
    lookup: str = "sparsemax",
    rounding: float = PROVEN_MARGIN,
) -> Certificates:
    """Theorem 1 for all pairs of good and bad images, from their tokens."""
    matcher = LayerwiseMatcher(bank, lookup)
    normal, anomalous, reach, bounds = [], [], [], []
    for name, image in good:
        normal.append(matcher.discrepancies(name, image))
        reach.append(matcher.reach(image))
    cones = [Cone(layer.detach().cpu().numpy()) for layer in bank.patches]
    for name, image in bad:
        anomalous.append(matcher.discrepancies(name, image))
        bounds.append(_hull_bounds(cones, image, anomalous[-1].peak))
    for images, what in ((normal, "good"), (anomalous, "bad")):
        if not images:
            raise UsageError("theorem-no-images", kind=what)
    gamma, gaps = np.moveaxis(np.array(bounds), 2, 0)
    return Certificates(
        lam, tuple(normal), tuple(anomalous), np.stack(reach), gamma, gaps, rounding
    )


def certify(detector: HyperFSAD, good: Images, bad: Images) -> Certificates:
    """Theorem 1 for a fitted detector and images whose labels are known.

    Good images that it has learnt are left out: they score next to nothing and would flatter it.
    """
    refuse_departures(detector)
    if detector.settings.pooling != "max":
        raise UsageError("theorem-needs-max-pooling", pooling=detector.settings.pooling)
    return certify_tokens(
        fitted_bank(detector),
        encode_images(detector, good, known=detector.memory_.images),
        encode_images(detector, bad),
        detector.settings.lam,
        detector.settings.lookup,
    )


def _hull_bounds(cones: Sequence[Cone], image: ImageTokens, peak: int) -> list[tuple[float, float]]:
    """γ and its duality gap in every layer, at one patch."""
    layers = zip(cones, image.patches, strict=True)
    found = [cone.largest_cosine(numbers(layer[peak])) for cone, layer in layers]
    return [(bound.gamma, bound.gap) for bound in found]


def _distances(images: Sequence[Discrepancies]) -> Array:
    """√(2g): how far each image's CLS token is from the memory, (images, layers)."""
    return np.asarray(np.sqrt(2 * np.maximum(np.stack([image.cls for image in images]), 0)))


def _finite(values: Array) -> list[list[float | None]]:
    """A matrix for JSON, which knows no infinity."""
    return [[float(value) if math.isfinite(value) else None for value in row] for row in values]
