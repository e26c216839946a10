"""The paper's protocol: K good images as support, R runs, every metric per category.

Scores and metrics of a category are stored under a hash of all that they depend on, so that a
killed run goes on where it stopped, and the same run never computes anything twice.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..disk.files import encoded, write_file
from ..encoders import EncoderSettings
from ..quality.metrics import image_metrics, pixel_metrics, upsampled
from ..quality.test_set import load_mask
from .datasets import Category
from .peers import PEERS
from .published import count_images
from .records import Record, encoder_label, image_columns
from .scorer import Scorer, Variant
from .supports import Supports, draw_category, file_name
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

    Scores go to the folder `work` block by block. Without `supports` they are drawn by the rule.
    """
    if supports is None:
        rule = protocol.shots, protocol.runs, protocol.seed, cache.content_hash
        supports = draw_category(category, *rule)
    scorer = scorer_of(category, protocol, cache, supports)
    blocks = []
    for paths, file in block_files(category, work):
        blocks.append(scorer.stored(paths, file))
        advance(len(paths))
    metrics = read_metrics(scorer, category, protocol, cache, work)
    if metrics is None:
        scores, maps = (np.concatenate(found, axis=2) for found in zip(*blocks, strict=True))
        metrics = measured(category, protocol, scores, maps)
        write_metrics(metrics, scorer, category, protocol, cache, work)
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
            count_images(category),
            provenance,
        )
        for variant, of_variant in zip(protocol.variants, metrics, strict=True)
        for place, ((run, shots), paths) in enumerate(supports.items())
    ]


def scorer_of(
    category: Category, protocol: Protocol, cache: TokenCache, supports: Supports
) -> Scorer:
    """What scores images of a category against all its support sets."""
    pool = sorted({path for paths in supports.values() for path in paths})
    subsets = [tuple(map(pool.index, paths)) for paths in supports.values()]
    variants = [variant.named(category.name) for variant in protocol.variants]
    return Scorer(variants, pool, subsets, cache)


def pass_label(settings: EncoderSettings, encoders: Sequence[str]) -> str:
    """A name for the folders of an encoder's tokens."""
    label = f"{encoder_label(settings.name, encoders)}-{settings.resolution}"
    return label if settings.form == "unit" else f"{label}-{settings.form}"


def work_folder(out: Path, preset: str, label: str) -> Path:
    """Where the blocks of a pass are stored."""
    return out / "work" / f"{preset}-{label}"


def metrics_file(category: Category, work: Path) -> Path:
    """Where the metrics of a category are stored: they take as long as the scores."""
    return work / category.dataset / category.name / "metrics.json"


def block_files(category: Category, work: Path) -> Iterator[tuple[list[str], Path]]:
    """The images and the file of each block."""
    for number, start in enumerate(range(0, len(category.test), BLOCK)):
        paths = [image.path for image in category.test[start : start + BLOCK]]
        yield paths, work / category.dataset / category.name / f"{number:04d}.npz"


def missing_images(category: Category, work: Path) -> int:
    """How many images have no block; whether a block is right is seen when it is read."""
    return sum(len(paths) for paths, file in block_files(category, work) if not file.is_file())


def _read_blocks(category: Category, work: Path, name: str) -> Iterator[NDArray[Any]]:
    for _, file in block_files(category, work):
        with np.load(file, allow_pickle=False) as stored:
            block = stored[name]
        yield block


def read_maps(category: Category, work: Path) -> NDArray[np.float32]:
    """The maps that `evaluate` has stored: (variants, support sets, images, grid, grid)."""
    return np.concatenate(list(_read_blocks(category, work, "maps")), axis=2)


def score_rows(
    category: Category,
    methods: Sequence[str],
    supports: Supports,
    settings: EncoderSettings,
    work: Path,
) -> Iterator[dict[str, Any]]:
    """The rows of a category in the score table, from the blocks that `evaluate` has stored."""
    for number, scores in enumerate(_read_blocks(category, work, "scores")):
        for column in range(scores.shape[2]):
            common = image_columns(category, number * BLOCK + column)
            common |= {"encoder": settings.name, "resolution": settings.resolution}
            for row, method in enumerate(methods):
                for place, (run, shots) in enumerate(supports):
                    figures = {"method": method, "shots": shots, "run": run}
                    yield {**common, **figures, "score": float(scores[row, place, column])}


def _identity(
    scorer: Scorer, category: Category, protocol: Protocol, cache: TokenCache
) -> list[str]:
    """All that the metrics of a category depend on."""
    truth = [
        [image.anomalous, image.mask and cache.content_hash(image.mask)] for image in category.test
    ]
    scores = scorer.identity([image.path for image in category.test])
    return [scores, str(protocol.eval_size), hashlib.sha256(json.dumps(truth).encode()).hexdigest()]


def read_metrics(
    scorer: Scorer, category: Category, protocol: Protocol, cache: TokenCache, work: Path
) -> Metrics | None:
    """The stored metrics of a category; None where there are none of just these inputs."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(metrics_file(category, work).read_text(encoding="utf-8"))
        if stored["identity"] == _identity(scorer, category, protocol, cache):
            return [[dict(of) for of in row] for row in stored["metrics"]]
    return None


def write_metrics(
    metrics: Metrics,
    scorer: Scorer,
    category: Category,
    protocol: Protocol,
    cache: TokenCache,
    work: Path,
) -> None:
    """Stores the metrics of a category."""
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
