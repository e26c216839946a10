"""How many good pictures cover a new good part (Equation 7 of the paper), and which to take."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..detector.detector import HyperFSAD
from ..errors import UsageError
from ..images.loading import NormalImage
from ..images.reading import Images
from ..method.matching import MemoryLayer
from ..method.memory import MemoryBank
from ..wording import as_rows, count
from . import miss_rates as rates
from .tokens import Array, encode_images, fitted_bank, numbers, plain, refuse_departures

MAP_LEVEL_IMAGES = 16
"""Normal images whose maps against each other give the usual level; more cost time and memory."""

TEXT_SHOTS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class LayerCoverage:
    """Coverage in one layer."""

    layer: int
    radius: float
    alpha: float
    """The chance that a random normal image lies within the radius of another."""
    alpha_interval: tuple[float, float]
    """With 95 % confidence, for a radius that was fixed beforehand."""
    shares: Array = field(repr=False)
    """p of each image."""
    missed: Array = field(repr=False)
    """The miss rate for K = 1, 2, …, by counting supports."""
    missed_by_formula: Array = field(repr=False)
    """(1 − α)^K: the miss rate if every part were as easy to cover as the average one."""


@dataclass(frozen=True)
class Coverage:
    """How well good pictures cover each other, and how many are needed."""

    images: tuple[str, ...]
    radii: str
    """Where the radii come from."""
    chance: float
    """Of covering a new good part, as asked for."""
    layers: tuple[LayerCoverage, ...]
    missed: Array
    """The measured rate of being missed in some layer, for K = 1, 2, …"""
    union_bound: Array
    """The paper's bound on it, Σ e^(−Kα) with each layer's averaged α."""
    take: tuple[str, ...]
    """Images whose union covers the asked share, the most useful first."""
    held_out: float
    """The share of left-out images that such a choice covers."""

    @property
    def needed(self) -> int | None:
        """The smallest K that covers with the asked chance; None where these images are too few."""
        enough = np.flatnonzero(self.missed <= 1 - self.chance + 1e-12)
        return int(enough[0]) + 1 if len(enough) else None

    @property
    def needed_by_formula(self) -> int | None:
        """What (1 − α)^K with the union bound would promise: too few, as Jensen says."""
        if any(layer.alpha == 0 for layer in self.layers):
            return None
        shots, allowed = 1, 1 - self.chance + 1e-12
        while sum((1 - layer.alpha) ** shots for layer in self.layers) > allowed:
            shots += 1
        return shots

    def answer(self) -> str:
        """The answer in one sentence."""
        asked, images = f"{self.chance:.0%}", len(self.images)
        if self.needed is not None:
            sentence = (
                f"{count(self.needed, 'support image')}, taken at random,"
                f" cover{'s' if self.needed == 1 else ''} a new good part with a chance of"
                f" {1 - self.missed[self.needed - 1]:.0%}"
            )
        else:
            sentence = (
                f"{images} images are too few for {asked}: {images - 1} of them, taken at random,"
                f" cover a new good part with a chance of {1 - self.missed[-1]:.0%}"
            )
        chosen = len(self.take)
        return (
            f"{sentence}; {chosen} chosen {'one covers' if chosen == 1 else 'ones cover'} at"
            f" least {asked} of these images, and {self.held_out:.0%} of images that were left out"
            " of the choice."
        )

    def to_text(self) -> str:
        """α of each layer, the miss rates against K, and the answer, for a terminal."""
        lines = [
            f"{len(self.images)} different normal images; radii: {self.radii}",
            "",
            "layer  radius  α      95% interval   least p",
        ]
        rows: list[tuple[str, Array]] = []
        for layer in self.layers:
            low, high = layer.alpha_interval
            lines.append(
                f"{layer.layer:5}  {layer.radius:.4f}  {layer.alpha:.3f}  {low:.3f} to {high:.3f}  "
                f"{layer.shares.min():7.3f}"
            )
            rows += [(f"{layer.layer:5} measured", layer.missed)]
            rows += [("      (1−α)^K", layer.missed_by_formula)]
        rows += [("some layer", self.missed), ("Σ e^(−Kα)", self.union_bound)]
        shots = [shot for shot in TEXT_SHOTS if shot < len(self.images)]
        lines += ["", f"{'missed':14}" + "".join(f"{f'K = {shot}':>9}" for shot in shots)]
        for name, values in rows:
            lines.append(f"{name:14}" + "".join(f"{values[shot - 1]:9.1%}" for shot in shots))
        lines += [
            "",
            self.answer(),
            f"(1 − α)^K with the union bound would promise K = {self.needed_by_formula or 'none'};"
            " parts differ, so the true miss rate lies above it (Jensen).",
            "Take:",
            *(f"  {name}" for name in self.take),
        ]
        return as_rows(lines)

    def to_json(self) -> dict[str, Any]:
        """Every figure."""
        found = {"needed": self.needed, "needed_by_formula": self.needed_by_formula}
        return {**plain(self), **found, "answer": self.answer()}


def cover_tokens(
    cls: Array,
    *,
    names: Sequence[str],
    blocks: Sequence[int],
    radii: Array | None = None,
    chance: float = 0.95,
    origin: str = "as given",
) -> Coverage:
    """Coverage among images from their CLS tokens, (images, layers, D).

    Without `radii`, each layer's is the largest leave-one-out distance: as far as a threshold
    reaches that passes all these images.
    """
    if len(cls) < 3:
        raise UsageError("coverage-too-few", given=len(cls))
    if not 0 < chance < 1:
        raise UsageError("share-range", option_name="chance", given=chance)
    distances = rates.token_distances(cls)
    if radii is None:
        origin = "the largest leave-one-out distance of each layer"
        # the farthest image itself must not be lost to rounding
        radii = np.sqrt(2 * rates.held_out_scores(distances).max(axis=1)) + 1e-9
    near = rates.neighbours(distances, radii)
    shots = np.arange(1, len(cls), dtype=np.int64)
    shares, missed = rates.neighbour_shares(near), rates.measured_miss(near, shots)
    layers = []
    for place, block in enumerate(blocks):
        alpha = float(shares[place].mean())
        interval = rates.share_interval(alpha, len(cls) // 2)
        found = shares[place], missed[place], np.power(1 - alpha, shots, dtype=np.float64)
        layers.append(LayerCoverage(block, float(radii[place]), alpha, interval, *found))
    chosen = rates.greedy_cover(near, chance)
    return Coverage(
        tuple(names),
        origin,
        chance,
        tuple(layers),
        rates.joint_miss(near, shots),
        np.minimum(1, np.exp(-np.outer(shares.mean(axis=1), shots)).sum(axis=0)),
        tuple(names[place] for place in chosen),
        rates.held_out_share(near, len(chosen)),
    )


def map_level(bank: MemoryBank, lookup: str) -> float:
    """S_map of a usual good part: the median over images, each against all the others."""
    peaks = []
    for index in range(len(bank)):
        layers = zip(bank.patches_of(index), bank.without(index).patches, strict=True)
        distances = [MemoryLayer(memory, lookup).distances(query) for query, memory in layers]
        peaks.append(np.mean([numbers(each) for each in distances], axis=0).max())
    return float(np.median(peaks))


def cover_normal(
    detector: HyperFSAD,
    images: Images,
    *,
    threshold: float | None = None,
    radius: float | None = None,
    chance: float = 0.95,
) -> Coverage:
    """How many good pictures a detector needs; it need not be fitted.

    The radii follow from the threshold, given or the detector's own; see `cover_tokens` for those
    without one.
    """
    if detector.rotations_ > 1 and not detector.tentative_:
        raise UsageError("coverage-needs-one-rotation")
    if radius is not None and radius <= 0:
        raise UsageError("radius-range", given=radius)
    threshold = detector.threshold_ if threshold is None and radius is None else threshold
    names: list[str] = []
    tokens: list[Array] = []
    banks: list[MemoryBank] = []
    for name, image in encode_images(detector, images, distinct=True):
        names.append(name)
        tokens.append(numbers(image.cls))
        if threshold is not None and len(banks) < MAP_LEVEL_IMAGES:
            # the level needs no hashes
            banks.append(MemoryBank(image.patches, image.cls[None], (NormalImage(name, ""),)))
    blocks, lam = detector.encoding_.layers, detector.settings.lam
    cls = np.stack(tokens) if tokens else np.empty((0, len(blocks), 0))
    radii, origin = None, "as given"
    if radius is not None:
        radii = np.full(len(blocks), radius)
    elif threshold is not None and len(cls) > 1:
        refuse_departures(detector)
        level = map_level(MemoryBank.joined(banks), detector.settings.lookup)
        radii = rates.radii_of_threshold(rates.token_distances(cls), threshold, lam, level)
        origin = f"from the threshold {threshold:.4f}, usual map {level:.4f}, λ {lam}"
    return cover_tokens(cls, names=names, blocks=blocks, radii=radii, chance=chance, origin=origin)


def cover_learnt(detector: HyperFSAD, *, chance: float = 0.95) -> Coverage:
    """Coverage among the good parts that a detector has learnt, from its memory: no image is read.

    Rotated copies are left out.
    """
    refuse_departures(detector, patches=False)
    bank = fitted_bank(detector)
    upright = [entries[0] for entries in bank.entries]
    names = [image.name for image in bank.normal_images]
    blocks = detector.encoding_.layers
    return cover_tokens(numbers(bank.cls[upright]), names=names, blocks=blocks, chance=chance)
