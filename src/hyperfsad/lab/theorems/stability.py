"""Proposition 1 and Appendix A: what noise and more memory can change, and what they cannot.

‖ρ(z) − ρ(z')‖ ≤ ‖z − z'‖                 sparsemax never amplifies a perturbation
‖ε(q) − ε(q')‖ ≤ ‖P‖²·‖q − q'‖            nor does the reconstruction beyond ‖P‖²
ε(q') = p̄ + G_R·q'                        while the active set R stays the same
|s(u) − s(v)| ≤ ‖u − v‖, √(2s) = distance  the CLS score
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...detector.detector import HyperFSAD
from ...encoders.encoder import ImageTokens
from ...errors import UsageError
from ...images.reading import Images
from ...method.lookups import in_chunks, sparsemax
from ...method.memory import MemoryBank
from ...method.scoring import cls_distances
from ...quality.tokens import Array, encode_images, fitted_bank, numbers, refuse_departures
from .active import ActiveSets, active_sets, softmax_mass, spectral_gain
from .layerwise import PROVEN_MARGIN


class NoiseRatios(NamedTuple):
    """The largest ratios that noise brought out; each has a proven limit."""

    weights: float
    """‖w − w'‖/‖z − z'‖, at most 1."""
    rebuilt: float
    """‖ε − ε'‖/‖q − q'‖, at most ‖P‖²."""
    cls: float
    """|s − s'|/‖c − c'‖, at most 1."""


def perturb(
    queries: Tensor, memory: Tensor, token: Tensor, normal: Tensor, noise: float, seed: int = 0
) -> NoiseRatios:
    """Moves unit tokens by about `noise` and compares what follows; one layer, in float64."""
    random = torch.Generator().manual_seed(seed)
    queries, memory, token, normal = (t.cpu().double() for t in (queries, memory, token, normal))
    moved = moved_by(queries, noise, random)
    weights = rebuilt = 0.0
    for before, after in zip(in_chunks(queries, memory), in_chunks(moved, memory), strict=True):
        z, changed = before @ memory.T, after @ memory.T
        w, other = sparsemax(z), sparsemax(changed)
        apart = (before - after).norm(dim=1)
        weights = max(weights, _ratio((w - other).norm(dim=1), (z - changed).norm(dim=1)))
        rebuilt = max(rebuilt, _ratio(((w - other) @ memory).norm(dim=1), apart))
    tokens = moved_by(token.expand(64, -1), noise, random)
    tokens = torch.cat([token[None], tokens])
    scores = cls_distances(tokens, _beside(normal, tokens))
    cls = _ratio((scores[1:] - scores[0]).abs(), (tokens[1:] - token).norm(dim=1))
    return NoiseRatios(weights, rebuilt, cls)


def moved_by(tokens: Tensor, noise: float, random: torch.Generator) -> Tensor:
    """Unit tokens near unit tokens: a random step of length `noise`, then length 1 again."""
    step = torch.randn(tokens.shape, generator=random, dtype=tokens.dtype)
    step *= noise / step.norm(dim=-1, keepdim=True)
    return torch.nn.functional.normalize(tokens + step, dim=-1)


def _ratio(above: Tensor, below: Tensor) -> float:
    return float((above / below.clamp(min=1e-300)).max())


@dataclass(frozen=True)
class LayerStability:
    """One layer of the report; arrays are over all query patches."""

    block: int
    bound: float
    """‖P‖²"""
    sets: ActiveSets
    largest: NoiseRatios
    softmax: tuple[float, ...]
    """Mean softmax mass of the report's numbers of distractors, all at similarity τ."""
    cls_distance: Array
    """√(2s) of each image: exactly the distance of its CLS token from the memory."""


@dataclass(frozen=True)
class StabilityReport:
    """Proposition 1 and Appendix A on real queries."""

    names: tuple[str, ...]
    layers: tuple[LayerStability, ...]
    distractors: tuple[int, ...]
    """Numbers of irrelevant rows; sparsemax gives them exactly 0."""
    noise: float

    @property
    def holds(self) -> bool:
        """Whether every limit was kept, up to float64 rounding."""
        slack = 1e-9
        return all(
            layer.largest.weights <= 1 + slack
            and layer.largest.cls <= 1 + slack
            and layer.largest.rebuilt <= layer.bound * (1 + slack)
            for layer in self.layers
        )

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain numbers; patches in quantiles."""
        return {
            "images": list(self.names),
            "noise": self.noise,
            "distractors": list(self.distractors),
            "holds": self.holds,
            "layers": [
                {
                    "layer": layer.block,
                    "reconstruction_bound": layer.bound,
                    "largest_weights_ratio": layer.largest.weights,
                    "largest_reconstruction_ratio": layer.largest.rebuilt,
                    "largest_cls_ratio": layer.largest.cls,
                    "cls_distance": layer.cls_distance.tolist(),
                    "softmax_mass": list(layer.softmax),
                    "sparsemax_mass": 0.0,
                    "active": quantiles(layer.sets.size),
                    "local_gain": quantiles(layer.sets.gain),
                    "room": quantiles(layer.sets.room),
                }
                for layer in self.layers
            ],
        }


def cls_distance(tokens: Tensor, normal: Tensor) -> Array:
    """√(2s): the distance of unit tokens from the nearest normal one."""
    scores = cls_distances(tokens.cpu().double(), _beside(normal.cpu().double(), tokens))
    return numbers((2 * scores).sqrt())


def _beside(normal: Tensor, tokens: Tensor) -> Tensor:
    """Normal CLS tokens (K, D) of one layer for each of some tokens (n, D)."""
    return normal[:, None].expand(-1, len(tokens), -1)


def quantiles(values: Array) -> dict[str, float]:
    """The median, the 99 % quantile and the largest."""
    low, middle, high = np.quantile(values, [0.5, 0.99, 1.0])
    return {"median": float(low), "q99": float(middle), "max": float(high)}


def check_tokens(
    bank: MemoryBank,
    images: Iterable[tuple[str, ImageTokens]],
    blocks: Sequence[int],
    noise: float = 0.05,
    seed: int = 0,
) -> StabilityReport:
    """The stability of a memory bank, on the tokens of some images."""
    queries = list(images)
    if not queries:
        raise UsageError("theorem-no-images", kind="query")
    size = bank.patches[0].shape[0] // len(bank)
    distractors = (size, 10 * size, 100 * size)
    layers = []
    for place, (block, memory) in enumerate(zip(blocks, bank.patches, strict=True)):
        normal = bank.cls[:, place]
        tokens = torch.stack([image.cls[place] for _, image in queries])
        sets, ratios, masses = [], [], []
        for _, image in queries:
            patches = image.patches[place]
            sets.append(active_sets(patches, memory))
            ratios.append(perturb(patches, memory, image.cls[place], normal, noise, seed))
            mass, tau = sets[-1].log_mass, sets[-1].tau
            masses.append([softmax_mass(mass, tau, count).mean() for count in distractors])
        layers.append(
            LayerStability(
                block,
                spectral_gain(memory),
                ActiveSets.joined(sets),
                NoiseRatios(*np.max(ratios, axis=0).tolist()),
                tuple(np.mean(masses, axis=0).tolist()),
                cls_distance(tokens, normal),
            )
        )
    return StabilityReport(tuple(name for name, _ in queries), tuple(layers), distractors, noise)


def check_stability(
    detector: HyperFSAD, images: Images, noise: float = 0.05, seed: int = 0
) -> StabilityReport:
    """Whether a fitted detector's matching and CLS score keep their limits on some images."""
    refuse_departures(detector)
    if detector.settings.lookup != "sparsemax":
        raise UsageError("theorem-needs-sparsemax", lookup=detector.settings.lookup)
    if not 0 < noise <= 1:
        raise UsageError("noise-range", given=noise)
    queries = encode_images(detector, images)
    return check_tokens(fitted_bank(detector), queries, detector.encoding_.layers, noise, seed)


def unaffected_patches(queries: Tensor, memory: Tensor, new: Tensor) -> NDArray[np.bool_]:
    """Which query patches of a layer no new row can reach: all its similarities at most τ."""
    tau = active_sets(queries, memory, gains=False).tau
    highest = [(part @ new.T).amax(dim=1) for part in in_chunks(queries, new)]
    return np.asarray(numbers(torch.cat(highest)) <= tau - PROVEN_MARGIN)
