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

from ...encoders.encoder import ImageTokens
from ...errors import UsageError
from ...method.memory import MemoryBank
from ...quality.tokens import Array, numbers, plain
from ...wording import as_rows
from .hull import Cone
from .layerwise import PROVEN_MARGIN, Discrepancies, LayerwiseMatcher
from .ranking import score_gaps

CERTIFICATE_REASONS = {
    "certified": "are certified",
    "misranked": "are ranked wrongly: nothing could certify them",
    "premise (i)": "fail by (i): a good patch draws on normal patches that are far away",
    "premise (ii)": "fail by (ii): a mixture of normal patches comes close to the defect",
    "either": "fail by (i) and (ii) together; either made exact would do",
    "both": "fail by (i) and by (ii); neither made exact would do",
}
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
    def layer_margin(self) -> Array:
        """b of Equation 27, (good, bad, layers): a bound on η of each layer, and so on its share of
        the gap; −∞ where premise (i) fails in that layer."""
        return self._bounds(self.gamma, self._reach)

    @property
    def margin(self) -> Array:
        """What is certified of each pair: the mean of b; −∞ where nothing is."""
        return np.asarray(self.layer_margin.mean(axis=2))

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
    def reasons(self) -> dict[str, int]:
        """How many pairs there are of each of `CERTIFICATE_REASONS`: which premise, made exact,
        would certify them."""
        level, height = (
            np.stack([image.distances[:, image.peak] for image in images])
            for images in (self.good, self.bad)
        )
        first = self._bounds(self.gamma, level).mean(axis=2) > 0
        second = self._bounds(height, self._reach).mean(axis=2) > 0
        found = np.select(
            [self.certified, self.gap <= 0, first & second, first, second],
            ["certified", "misranked", "either", "premise (i)", "premise (ii)"],
            "both",
        )
        return {reason: int((found == reason).sum()) for reason in CERTIFICATE_REASONS}

    def to_json(self) -> dict[str, Any]:
        """Every figure."""
        names = ("epsilon", "gamma", "gamma_gap", "r", "delta", "margin", "layer_margin", "gap")
        content: dict[str, Any] = {
            "lambda": self.lam,
            "good": [image.name for image in self.good],
            "bad": [image.name for image in self.bad],
        }
        for name in (*names, "certified", "share", "reasons"):
            content[name] = plain(getattr(self, name))
        return content

    def to_text(self, blocks: Sequence[int]) -> str:
        """The premises, the share of certified pairs and why the others are not."""
        lines = [
            f"Theorem 1: {len(self.good)} good × {len(self.bad)} bad images (medians)",
            "layer  ε      γ      gap of γ  r      δ      γ − ε²/2  (δ² − r²)/2",
        ]
        columns = (self.epsilon, self.gamma, self.gamma_gap, self.r, self.delta)
        medians = np.stack([np.median(column, axis=0) for column in columns], axis=1)
        for block, (epsilon, gamma, gap, near, far) in zip(blocks, medians, strict=True):
            lines.append(
                f"{block:5}  {epsilon:.3f}  {gamma:.3f}  {gap:.0e}     {near:.3f}  {far:.3f}"
                f"  {gamma - epsilon**2 / 2:+8.3f}  {(far**2 - near**2) / 2:+11.4f}"
            )
        margin, gaps = self.margin, self.gap
        lines += [
            "",
            f"certified margin: median {np.median(margin):+.4f}, largest {margin.max():+.4f};"
            f" real gap: median {np.median(gaps):+.4f}, smallest {gaps.min():+.4f}",
            f"{self.share:.1%} of {margin.size} pairs certified.",
        ]
        counts = list(self.reasons.items())[1:]
        lines += [f"  {count:5} {CERTIFICATE_REASONS[why]}" for why, count in counts if count]
        return as_rows(lines)

    @property
    def _reach(self) -> Array:
        """What premise (i) leaves of the map of each good image; ∞ where it fails."""
        return np.where(self.epsilon < math.sqrt(2), self.epsilon**2 / 2, math.inf)

    def _bounds(self, height: Array, level: Array) -> Array:
        """b of all pairs and layers, with patches of bad images at a `height` (bad, layers) and
        those of good ones at most at a `level` (good, layers)."""
        apart = self.delta[None] ** 2 - self.r[:, None] ** 2
        local = self.lam * (height[None] - level[:, None]) if self.lam > 0 else 0.0
        return np.asarray(local + (1 - self.lam) / 2 * apart - self.rounding)


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
    cones = [Cone(numbers(layer)) for layer in bank.patches]
    for name, image in bad:
        anomalous.append(matcher.discrepancies(name, image))
        peak = anomalous[-1].peak
        layers = zip(cones, image.patches, strict=True)
        found = [cone.largest_cosine(numbers(layer[peak])) for cone, layer in layers]
        bounds.append([(bound.gamma, bound.gap) for bound in found])
    for images, what in ((normal, "good"), (anomalous, "bad")):
        if not images:
            raise UsageError("theorem-no-images", kind=what)
    gamma, gaps = np.moveaxis(np.array(bounds), 2, 0)
    return Certificates(
        lam, tuple(normal), tuple(anomalous), np.stack(reach), gamma, gaps, rounding
    )


def _distances(images: Sequence[Discrepancies]) -> Array:
    """√(2g): how far each image's CLS token is from the memory, (images, layers)."""
    return np.asarray(np.sqrt(2 * np.maximum(np.stack([image.cls for image in images]), 0)))
