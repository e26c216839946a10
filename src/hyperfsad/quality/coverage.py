"""How many good pictures cover a new good part (Equation 7 of the paper), and which to take."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..detector.detector import HyperFSAD
from ..errors import UsageError
from ..images.loading import NormalImage
from ..images.reading import Images
from ..method.matching import MemoryLayer
from ..method.memory import MemoryBank
from ..wording import as_rows
from . import miss_rates as rates
from .tokens import Array, encode_images, fitted_bank, numbers, refuse_departures

MAP_LEVEL_IMAGES = 16
"""Normal images whose maps against each other give the usual level; more cost time and memory."""

TEXT_SHOTS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class LayerCoverage:
    """Coverage in one layer."""

    block: int
    radius: float
    interval: tuple[float, float]
    """For α, with 95 % confidence, for a radius that was fixed beforehand."""
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
    shots: rates.Shots
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
        bounds = [rates.exponential_curve(layer.alpha, self.shots) for layer in self.layers]
        return np.asarray(np.minimum(1, np.sum(bounds, axis=0)))

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
        shots, allowed = 1, 1 - self.chance + 1e-12
        while sum((1 - layer.alpha) ** shots for layer in self.layers) > allowed:
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

    def to_text(self) -> str:
        """α of each layer, the miss rates against K, and the answer, for a terminal."""
        lines = [
            f"{len(self.names)} different normal images; radii: {self.origin}",
            "",
            "layer  radius  α      95% interval   least p  isolated",
        ]
        for layer in self.layers:
            low, high = layer.interval
            lines.append(
                f"{layer.block:5}  {layer.radius:.4f}  {layer.alpha:.3f}  {low:.3f} to {high:.3f}  "
                f"{layer.shares.min():7.3f}  {layer.isolated:8}"
            )
        shots = np.array([shot for shot in TEXT_SHOTS if shot < len(self.names)])
        lines += ["", "missed      " + "".join(f"{f'K = {shot}':>9}" for shot in shots)]
        rows: list[tuple[str, Array]] = []
        for layer in self.layers:
            rows += [
                (f"{layer.block:5} meas.", layer.measured[shots - 1]),
                ("  mean (1−p)^K", rates.jensen_curve(layer.shares, shots)),
                ("  (1−α)^K", rates.power_curve(layer.alpha, shots)),
                ("  e^(−Kα)", rates.exponential_curve(layer.alpha, shots)),
            ]
        if self.joint is not None:
            rows.append(("some layer", self.joint[shots - 1]))
        rows.append(("Σ measured", self.union[shots - 1]))
        rows.append(("Σ e^(−Kα)", self.union_exponential[shots - 1]))
        for name, values in rows:
            lines.append(f"{name:14}" + "".join(f"{value:9.1%}" for value in values))
        lines += [
            "",
            self.answer(),
            f"(1 − α)^K with the union bound would promise K = {self.needed_by_formula or 'none'};"
            " parts differ, so the true miss rate lies above it (Jensen).",
            "Take:",
            *(f"  {self.names[place]}" for place in self.greedy),
        ]
        return as_rows(lines)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain numbers."""
        return {
            "images": list(self.names),
            "radii": self.origin,
            "chance": self.chance,
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
                    "mean_of_powers": rates.jensen_curve(layer.shares, self.shots).tolist(),
                    "power_of_mean": rates.power_curve(layer.alpha, self.shots).tolist(),
                    "exponential": rates.exponential_curve(layer.alpha, self.shots).tolist(),
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
    layers = [
        LayerCoverage(
            block, float(radius), rates.share_interval(share.mean(), len(cls) // 2), share, missed
        )
        for block, radius, share, missed in zip(
            blocks,
            radii,
            rates.neighbour_shares(near),
            rates.measured_miss(near, shots),
            strict=True,
        )
    ]
    chosen = rates.greedy_cover(near, chance)
    held_out = rates.held_out_share(near, len(chosen))
    joint = rates.joint_miss(near, shots)
    return Coverage(
        tuple(names), tuple(layers), chance, shots, joint, tuple(chosen), held_out, origin
    )


def map_level(bank: MemoryBank, lookup: str) -> float:
    """S_map of a usual good part: the median over images, each against all the others."""
    peaks = []
    for index in range(len(bank)):
        layers = zip(bank.patches_of(index), bank.without(index).patches, strict=True)
        distances = [MemoryLayer(memory, lookup).distances(query) for query, memory in layers]
        peaks.append(numbers(torch.stack(distances)).mean(axis=0).max())
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
    blocks = detector.encoding_.layers
    cls = np.stack(tokens) if tokens else np.empty((0, len(blocks), 0))
    radii, origin = None, "as given"
    if radius is not None:
        radii = np.full(len(blocks), radius)
    elif threshold is not None and len(cls) > 1:
        refuse_departures(detector)
        level = map_level(MemoryBank.joined(banks), detector.settings.lookup)
        budget = rates.budget_of_threshold(threshold, detector.settings.lam, level)
        radii = rates.radii_for_budget(rates.token_distances(cls), budget)
        lam = detector.settings.lam
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
