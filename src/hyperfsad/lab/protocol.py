"""The paper's protocol: K good images as support, R runs, every metric per category."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..disk.files import encoded, write_file
from ..quality.metrics import image_metrics, pixel_metrics, upsampled
from ..quality.test_set import load_mask
from .datasets import Category
from .peers import PEERS
from .scorer import Scorer, Variant
from .sizes import count
from .supports import Supports, draw_category, file_name
from .tables import Cell
from .token_cache import TokenCache

BLOCK = 16
"""Images scored between two writes to disk: what a killed run may lose."""


Metrics: TypeAlias = list[list[dict[str, float | None]]]
"""Of a category: for each variant and each support set, by name."""


@dataclass(frozen=True)
class Protocol:
    """What is measured, and how."""

    shots: tuple[int, ...] = (1, 2, 4)
    runs: int = 5
    seed: int = 0
    eval_size: int = 256
    variants: tuple[Variant, ...] = field(default_factory=lambda: (Variant("sparsemax"),))


@dataclass(frozen=True)
class Record:
    """The figures of one method on one category, for one support set."""

    dataset: str
    category: str
    encoder: str
    resolution: int
    method: str
    shots: int
    run: int
    support: tuple[str, ...]
    metrics: dict[str, float | None]
    counts: dict[str, int] = field(default_factory=dict)
    """The images and masks of the category: `normal`, `good`, `bad`, `masks`."""
    provenance: str = ""
    """The key of its entry in provenance.json."""
    imported: bool = False
    """Whether the scores are another system's."""
    every_run: bool = False
    """Whether an import names no run: its figures then stand for each of them."""

    @property
    def label(self) -> str:
        """What a row of a table is called."""
        return f"{self.method} ({'imported' if self.imported else self.encoder})"


def evaluate(
    category: Category,
    protocol: Protocol,
    cache: TokenCache,
    work: Path,
    advance: Callable[[int], None],
    *,
    supports: Supports | None = None,
    provenance: str = "",
) -> list[Record]:
    """All records of a category; `advance` is called with the number of images just done.

    Scores go to `work` block by block, so that a killed run goes on where it stopped. Without
    `supports` they are drawn by the rule.
    """
    if supports is None:
        drawn = protocol.shots, protocol.runs, protocol.seed, cache.content_hash
        supports = draw_category(category, *drawn)
    scorer = scorer_of(category, protocol, cache, supports)
    blocks = []
    for paths, file in block_files(category, work):
        blocks.append(scorer.stored(paths, file))
        advance(len(paths))
    scores, maps = (np.concatenate(found, axis=2) for found in zip(*blocks, strict=True))
    metrics = kept_metrics(scorer, category, protocol, cache, work)
    if metrics is None:
        metrics = measured(category, protocol, scores, maps)
        keep_metrics(metrics, scorer, category, protocol, cache, work)
    return _records(category, protocol, cache, supports, metrics, provenance)


def scorer_of(
    category: Category, protocol: Protocol, cache: TokenCache, supports: Supports
) -> Scorer:
    """What scores images of a category against all its support sets."""
    pool = sorted({path for paths in supports.values() for path in paths})
    subsets = [tuple(map(pool.index, paths)) for paths in supports.values()]
    variants = [variant.named(category.name) for variant in protocol.variants]
    return Scorer(variants, pool, subsets, cache)


def metrics_file(category: Category, work: Path) -> Path:
    """Where the metrics of a category are kept: they take as long as the scores."""
    return work / category.dataset / category.name / "metrics.json"


def missing_images(category: Category, work: Path) -> int:
    """How many images no block is there for; whether a block is right is seen when it is read."""
    return sum(len(paths) for paths, file in block_files(category, work) if not file.is_file())


def read_maps(category: Category, work: Path) -> NDArray[np.float32]:
    """The maps that `evaluate` has stored: (variants, support sets, images, grid, grid)."""
    blocks = []
    for _, file in block_files(category, work):
        with np.load(file, allow_pickle=False) as stored:
            blocks.append(stored["maps"])
    return np.concatenate(blocks, axis=2)


def read_scores(category: Category, work: Path) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The scores that `evaluate` has stored, a block at a time with the place of its first image:
    (variants, support sets, images)."""
    for number, (_, file) in enumerate(block_files(category, work)):
        with np.load(file, allow_pickle=False) as stored:
            scores = stored["scores"]
        yield number * BLOCK, scores


def block_files(category: Category, work: Path) -> Iterator[tuple[list[str], Path]]:
    """The images and the file of each block."""
    for number, start in enumerate(range(0, len(category.test), BLOCK)):
        paths = [image.path for image in category.test[start : start + BLOCK]]
        yield paths, work / category.dataset / category.name / f"{number:04d}.npz"


def _identity(
    scorer: Scorer, category: Category, protocol: Protocol, cache: TokenCache
) -> list[str]:
    """All that the metrics of a category depend on."""
    truth = [
        [image.anomalous, image.mask and cache.content_hash(image.mask)] for image in category.test
    ]
    scores = scorer.identity([image.path for image in category.test])
    return [scores, str(protocol.eval_size), hashlib.sha256(json.dumps(truth).encode()).hexdigest()]


def kept_metrics(
    scorer: Scorer, category: Category, protocol: Protocol, cache: TokenCache, work: Path
) -> Metrics | None:
    """The metrics of a category, where they were kept and all is as it was."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(metrics_file(category, work).read_text(encoding="utf-8"))
        if stored["identity"] == _identity(scorer, category, protocol, cache):
            return [[dict(of) for of in row] for row in stored["metrics"]]
    return None


def keep_metrics(
    metrics: Metrics,
    scorer: Scorer,
    category: Category,
    protocol: Protocol,
    cache: TokenCache,
    work: Path,
) -> None:
    """Keeps the metrics of a category."""
    identity = _identity(scorer, category, protocol, cache)
    content = json.dumps({"identity": identity, "metrics": metrics})
    write_file(metrics_file(category, work), encoded(content + "\n"), parents=True)


def measured(
    category: Category,
    protocol: Protocol,
    scores: NDArray[np.float64],
    maps: NDArray[np.float32],
) -> Metrics:
    """The metrics of scores (variants, support sets, images) and maps (…, grid, grid)."""
    anomalous = np.array([image.anomalous for image in category.test])
    if category.has_masks:
        masks = np.stack([load_mask(image, protocol.eval_size) for image in category.test])
    found: Metrics = []
    for row, variant in enumerate(protocol.variants):
        smoothing = PEERS[variant.peer].smoothing if variant.peer else 0.0
        found.append([])
        for place in range(scores.shape[1]):
            metrics = image_metrics(anomalous, scores[row, place])
            if category.has_masks:
                shown = upsampled(maps[row, place], protocol.eval_size, smoothing)
                metrics |= pixel_metrics(shown, masks)
            found[row].append(metrics)
    return found


def _records(
    category: Category,
    protocol: Protocol,
    cache: TokenCache,
    supports: Supports,
    metrics: Metrics,
    provenance: str,
) -> list[Record]:
    counts = count(category)
    return [
        Record(
            category.dataset,
            category.name,
            cache.settings.name,
            cache.settings.resolution,
            variant.label,
            shots,
            run,
            tuple(map(file_name, paths)),
            of_variant[place],
            counts,
            provenance,
        )
        for variant, of_variant in zip(protocol.variants, metrics, strict=True)
        for place, ((run, shots), paths) in enumerate(supports.items())
    ]


def summarise(records: Sequence[Record], metric: str) -> Cell | None:
    """The mean over categories of each run, then mean and sample deviation over runs, in percent.

    Categories without the metric (no masks, no defect) do not count; None where all lack it.
    """
    runs: dict[int, list[float]] = {}
    for record in records:
        value = record.metrics.get(metric)
        if value is not None:
            runs.setdefault(record.run, []).append(value)
    means = [100 * sum(values) / len(values) for _, values in sorted(runs.items())]
    if not means:
        return None
    deviation = float(np.std(means, ddof=1)) if len(means) > 1 else None
    return Cell(float(np.mean(means)), deviation)
