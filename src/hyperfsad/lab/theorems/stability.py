"""Proposition 1 and Appendix A: what noise and more memory can change, and what they cannot.

‖ρ(z) − ρ(z')‖ ≤ ‖z − z'‖                 sparsemax never amplifies a perturbation
‖ε(q) − ε(q')‖ ≤ ‖P‖²·‖q − q'‖            nor does the reconstruction beyond ‖P‖²
ε(q') = p̄ + G_R·q'                        while the active set R stays the same (G_R: its scatter)
|s(u) − s(v)| ≤ ‖u − v‖, √(2s) = distance  the CLS score

Rows that are at most τ similar get no weight and change nothing at all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...arrays import Array as AnyArray
from ...arrays import gathered, namespace, to_numpy
from ...detector.detector import HyperFSAD
from ...encoders.encoder import ImageTokens
from ...errors import UsageError
from ...images.reading import Images
from ...method.lookups import in_chunks, sparsemax, sparsemax_candidates
from ...method.memory import MemoryBank
from ...method.scoring import cls_distances
from ...quality.tokens import Array, encode_images, fitted_bank, numbers, plain, refuse_departures
from ...wording import as_rows
from .layerwise import PROVEN_MARGIN

PATCHES_AT_ONCE = 128
"""Active sets whose spectra are taken at once: 128 of 74 rows of 384 are 29 MB in float64."""


class ActiveSets(NamedTuple):
    """What sparsemax does for each query patch of one layer."""

    size: Array
    """|R|"""
    tau: Array
    """τ: rows at most this similar get no weight."""
    gain: Array
    """‖G_R‖: how strongly the reconstruction follows the token while R stays the same."""
    log_mass: Array
    """log Σ e^z over the memory: what dense softmax divides by."""


def active_sets(queries: AnyArray, memory: AnyArray, gains: bool = True) -> ActiveSets:
    """The active set of each query patch, and what Appendix A derives from it."""
    found = ActiveSets(*(np.zeros(len(queries)) for _ in range(4)))
    xp, rows_of_memory, start = namespace(queries), to_numpy(memory), 0
    for part in in_chunks(queries, memory):
        z = part @ memory.T
        most = xp.max(z, axis=1, keepdims=True)
        mass = xp.log(xp.sum(xp.exp(z - most), axis=1))
        found.log_mass[start : start + len(part)] = numbers(most[:, 0] + mass)
        for rows, index, weights in sparsemax_candidates(z):
            if not len(rows):
                continue
            values = numbers(gathered(z[rows], index))
            active = to_numpy(weights) > 0
            places, count = to_numpy(rows) + start, active.sum(axis=1)
            found.size[places] = count
            found.tau[places] = (values.sum(axis=1, where=active) - 1) / count
            if gains:
                found.gain[places] = _gains(rows_of_memory, to_numpy(index), active)
        start += len(part)
    return found


def _gains(
    memory: NDArray[np.float32], index: NDArray[np.intp], active: NDArray[np.bool_]
) -> Array:
    """‖G_R‖ of Equation 18 for each active set, from the smaller product of rows with rows."""
    found = []
    for start in range(0, len(index), PATCHES_AT_ONCE):
        some = slice(start, start + PATCHES_AT_ONCE)
        mask = active[some, :, None]
        rows = memory[index[some]] * mask.astype(np.float64)
        mean = rows.sum(axis=1, keepdims=True) / mask.sum(axis=1, keepdims=True)
        spread = (rows - mean) * mask
        found.append(np.linalg.eigvalsh(spread @ spread.swapaxes(1, 2))[:, -1])
    return np.asarray(np.maximum(np.concatenate(found), 0))


def softmax_mass(log_mass: Array, similarity: Array, count: int) -> Array:
    """Equation 15: the weight that dense softmax gives `count` more rows of one similarity.

    J·e^a/(Σe^z + J·e^a), which goes to 1 with J; sparsemax gives them 0 where a is at most τ.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (1 + np.exp(log_mass - similarity - np.log(float(count)))))


def spectral_gain(memory: AnyArray) -> float:
    """‖P‖² of Equation 14: the largest eigenvalue of PᵀP."""
    square = np.zeros((memory.shape[1], memory.shape[1]))
    for start in range(0, len(memory), 1 << 14):
        part = numbers(memory[start : start + (1 << 14)])
        square += part.T @ part
    return float(np.linalg.eigvalsh(square)[-1])


def unaffected_patches(queries: AnyArray, memory: AnyArray, new: AnyArray) -> NDArray[np.bool_]:
    """Which query patches of a layer no new row can reach: all its similarities at most τ."""
    tau = active_sets(queries, memory, gains=False).tau
    xp = namespace(queries)
    highest = [xp.max(part @ new.T, axis=1) for part in in_chunks(queries, new)]
    return np.asarray(numbers(xp.concat(highest)) <= tau - PROVEN_MARGIN)


class NoiseRatios(NamedTuple):
    """The largest ratios that noise brought out; each has a proven limit."""

    weights: float
    """‖w − w'‖/‖z − z'‖, at most 1."""
    rebuilt: float
    """‖ε − ε'‖/‖q − q'‖, at most ‖P‖²."""
    cls: float
    """|s − s'|/‖c − c'‖, at most 1."""


def perturb(
    queries: AnyArray,
    memory: AnyArray,
    token: AnyArray,
    normal: AnyArray,
    noise: float,
    seed: int = 0,
) -> NoiseRatios:
    """Moves unit tokens by about `noise` and compares what follows; one layer, in float64."""
    random = np.random.default_rng(seed)
    queries, memory, token, normal = map(numbers, (queries, memory, token, normal))
    moved = moved_by(queries, noise, random)
    weights = rebuilt = 0.0
    for before, after in zip(in_chunks(queries, memory), in_chunks(moved, memory), strict=True):
        z, changed = before @ memory.T, after @ memory.T
        w, other = sparsemax(z), sparsemax(changed)
        apart = _lengths(before - after)
        weights = max(weights, _ratio(_lengths(w - other), _lengths(z - changed)))
        rebuilt = max(rebuilt, _ratio(_lengths((w - other) @ memory), apart))
    tokens = np.concatenate([token[None], moved_by(np.tile(token, (64, 1)), noise, random)])
    scores = _cls_scores(tokens, normal)
    cls = _ratio(np.abs(scores[1:] - scores[0]), _lengths(tokens[1:] - token))
    return NoiseRatios(weights, rebuilt, cls)


def moved_by(tokens: Array, noise: float, random: np.random.Generator) -> Array:
    """Unit tokens near unit tokens: a random step of length `noise`, then length 1 again."""
    step = random.standard_normal(tokens.shape)
    moved = tokens + noise * step / _lengths(step)[..., None]
    return np.asarray(moved / _lengths(moved)[..., None])


def cls_distance(tokens: AnyArray, normal: AnyArray) -> Array:
    """√(2s): the distance of unit tokens from the nearest normal one."""
    return np.sqrt(2 * _cls_scores(numbers(tokens), numbers(normal)))


def _cls_scores(tokens: Array, normal: Array) -> Array:
    """s of some tokens (n, D) of one layer, beside its normal ones (K, D)."""
    scores: Array = cls_distances(tokens, np.repeat(normal[:, None], len(tokens), axis=1))
    return scores


def _lengths(rows: Array) -> Array:
    return np.asarray(np.linalg.norm(rows, axis=-1))


def _ratio(above: Array, below: Array) -> float:
    return float((above / np.maximum(below, 1e-300)).max())


@dataclass(frozen=True)
class LayerStability:
    """One layer of the report; what is said of patches is over all query patches."""

    layer: int
    reconstruction_bound: float
    """‖P‖²."""
    largest: NoiseRatios
    cls_distance: Array
    """√(2s) of each image."""
    softmax_mass: tuple[float, ...]
    """What dense softmax gives to irrelevant rows, all at similarity τ, for each number of them."""
    active: dict[str, float]
    """|R|: median and largest."""
    local_gain: dict[str, float]
    """‖G_R‖: median and largest."""

    @property
    def holds(self) -> bool:
        """Whether every limit was kept, up to float64 rounding."""
        limits = np.array([1.0, self.reconstruction_bound, 1.0])
        return bool((np.array(self.largest) <= limits * (1 + 1e-9)).all())


@dataclass(frozen=True)
class StabilityReport:
    """Limits beside the largest ratios that noise brought out."""

    images: tuple[str, ...]
    noise: float
    distractors: tuple[int, ...]
    """Numbers of irrelevant rows; sparsemax gives them exactly 0."""
    layers: tuple[LayerStability, ...]

    @property
    def holds(self) -> bool:
        """Whether every limit was kept."""
        return all(layer.holds for layer in self.layers)

    def to_json(self) -> dict[str, Any]:
        """Every figure."""
        layers = [{**vars(layer), "largest": layer.largest._asdict()} for layer in self.layers]
        return dict(plain({**vars(self), "layers": layers, "holds": self.holds}))

    def to_text(self) -> str:
        """For a terminal."""
        lines = [
            f"{len(self.images)} images, tokens moved by {self.noise:g}; limits in brackets",
            "layer  ‖Δw‖/‖Δz‖ (1)  ‖Δε‖/‖Δq‖ (‖P‖²)    ‖G_R‖ median, max  active  |Δs|/‖Δc‖ (1)"
            "  √(2s)",
        ]
        for layer in self.layers:
            gain = f"{layer.local_gain['median']:.3f}, {layer.local_gain['max']:.3f}"
            lines.append(
                f"{layer.layer:5}  {layer.largest.weights:.3f}          {layer.largest.rebuilt:.3f}"
                f" ({layer.reconstruction_bound:8.1f})    {gain}"
                f"       {layer.active['median']:6.0f}  {layer.largest.cls:.3f}"
                f"          {np.median(layer.cls_distance):.3f}"
            )
        lines.append(
            "Every limit is kept." if self.holds else "A limit is BROKEN; please report it."
        )
        lines += ["", "mass of irrelevant rows, all at similarity τ (sparsemax: exactly 0)"]
        lines.append("layer" + "".join(f"{count:>10}" for count in self.distractors))
        for layer in self.layers:
            masses = "".join(f"{mass:10.1%}" for mass in layer.softmax_mass)
            lines.append(f"{layer.layer:5}{masses}")
        return as_rows(lines)


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
    xp, size = namespace(bank.cls), bank.patches[0].shape[0] // len(bank)
    distractors = (size, 10 * size, 100 * size)
    layers = []
    for place, (block, memory) in enumerate(zip(blocks, bank.patches, strict=True)):
        normal = bank.cls[:, place]
        sets = active_sets(xp.concat([image.patches[place] for _, image in queries]), memory)
        ratios = [
            perturb(image.patches[place], memory, image.cls[place], normal, noise, seed)
            for _, image in queries
        ]
        layers.append(
            LayerStability(
                block,
                spectral_gain(memory),
                NoiseRatios(*np.max(ratios, axis=0).tolist()),
                cls_distance(xp.stack([image.cls[place] for _, image in queries]), normal),
                tuple(
                    float(softmax_mass(sets.log_mass, sets.tau, count).mean())
                    for count in distractors
                ),
                {"median": float(np.median(sets.size)), "max": float(sets.size.max())},
                {"median": float(np.median(sets.gain)), "max": float(sets.gain.max())},
            )
        )
    return StabilityReport(tuple(name for name, _ in queries), noise, distractors, tuple(layers))


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
