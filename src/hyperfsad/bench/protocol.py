"""The paper's protocol: K good images as support, R runs, every metric per category.

Support sets follow one rule, whatever the order of categories, files or machines: the good images
of a category are ranked by sha256("seed/run/data set/category/file name"); K shots are the first K.
So the supports of 1, 2 and 4 shots are nested within a run, and every method gets the same ones.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from .. import __version__
from ..base import FewShotDetector, ImageTokens
from ..encoders.encoder import Tokens
from ..errors import UsageError
from ..files import atomic_path
from ..memory import MemoryBank, NormalImage
from ..peers import PEERS
from ..scoring import Pooling, image_score
from .datasets import Category, load_mask
from .metrics import image_metrics, pixel_metrics
from .sharing import SharedMatcher
from .tokens import TokenStore

Item = TypeVar("Item")
Result = TypeVar("Result")

BLOCK = 16
"""Images scored between two writes to disk: what a killed run may lose."""


@dataclass(frozen=True)
class Variant:
    """A method of a table: ours with some settings, or a peer."""

    label: str
    lookup: str = "sparsemax"
    layers: tuple[int, ...] | None = None
    pooling: str = "max"
    lam: float = 0.5
    peer: str | None = None


@dataclass(frozen=True)
class Protocol:
    """What is measured, and how."""

    shots: tuple[int, ...] = (1, 2, 4)
    runs: int = 5
    seed: int = 0
    eval_size: int = 256
    variants: tuple[Variant, ...] = field(default_factory=lambda: (Variant("sparsemax"),))

    def settings_of_runs(self) -> list[tuple[int, int]]:
        """All pairs of run and shots, in order."""
        return [(run, shots) for run in range(self.runs) for shots in self.shots]


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


def support_order(category: Category, run: int, seed: int, store: TokenStore) -> list[str]:
    """The good images of a category in the order of a run; a copy of another is passed over."""

    def rank(path: str) -> str:
        name = path.replace("\\", "/").rpartition("/")[2]
        text = f"{seed}/{run}/{category.dataset}/{category.name}/{name}"
        return hashlib.sha256(text.encode("utf-8", errors="surrogateescape")).hexdigest()

    distinct: dict[str, str] = {}
    for path in sorted(category.normal, key=rank):
        distinct.setdefault(store.content_hash(path), path)
    return list(distinct.values())


def evaluate(
    category: Category,
    protocol: Protocol,
    store: TokenStore,
    work: Path,
    advance: Callable[[int], None],
) -> list[Record]:
    """All records of a category; `advance` hears of every image done.

    Scores go to `work` block by block, so that a killed run goes on where it stopped.
    """
    supports = _supports(category, protocol, store)
    scorer = _Scorer(category, protocol, store, supports)
    blocks = [category.test[i : i + BLOCK] for i in range(0, len(category.test), BLOCK)]
    scores, maps = [], []
    for number, block in enumerate(blocks):
        path = _block_path(category, work, number)
        identity = scorer.identity([image.path for image in block])
        stored = _read_block(path, identity)
        if stored is None:
            stored = scorer.block([image.path for image in block])
            _write_block(path, identity, *stored)
        scores.append(stored[0])
        maps.append(stored[1])
        advance(len(block))
    return _records(
        category, protocol, store, supports, np.concatenate(scores, 2), np.concatenate(maps, 2)
    )


def read_maps(category: Category, work: Path) -> NDArray[np.float32]:
    """The maps that `evaluate` has stored: (variants, support sets, images, grid, grid)."""
    count = -(-len(category.test) // BLOCK)
    blocks = []
    for number in range(count):
        with np.load(_block_path(category, work, number), allow_pickle=False) as stored:
            blocks.append(stored["maps"])
    return np.concatenate(blocks, axis=2)


def _block_path(category: Category, work: Path, number: int) -> Path:
    return work / f"{category.dataset}-{category.name}-{number:04d}.npz"


def _supports(
    category: Category, protocol: Protocol, store: TokenStore
) -> dict[tuple[int, int], tuple[str, ...]]:
    most = max(protocol.shots)
    supports = {}
    for run in range(protocol.runs):
        order = support_order(category, run, protocol.seed, store)
        if len(order) < most:
            raise UsageError(
                f"{category.dataset}/{category.name} has {len(order)} different good images;"
                f" {most} shots need {most}."
            )
        for shots in protocol.shots:
            supports[run, shots] = tuple(order[:shots])
    return supports


class _Scorer:
    """Scores images against all support sets with all methods at once."""

    def __init__(
        self,
        category: Category,
        protocol: Protocol,
        store: TokenStore,
        supports: dict[tuple[int, int], tuple[str, ...]],
    ) -> None:
        self._protocol, self._store = protocol, store
        self._pool = sorted({path for paths in supports.values() for path in paths})
        places = {path: place for place, path in enumerate(self._pool)}
        self._subsets = [
            tuple(places[path] for path in supports[pair]) for pair in protocol.settings_of_runs()
        ]
        self._ours = [variant for variant in protocol.variants if variant.peer is None]
        self._lookups = sorted({variant.lookup for variant in self._ours})
        self._peers: dict[tuple[str, int], FewShotDetector] = {}

    _matcher: SharedMatcher

    def identity(self, paths: Sequence[str]) -> str:
        """A hash of all that the scores of a block depend on."""
        store = self._store
        values = {
            "version": __version__,
            "encoder": store.encoder.fingerprint,
            "settings": asdict(store.settings),
            "variants": [asdict(variant) for variant in self._protocol.variants],
            "subsets": self._subsets,
            "pool": [store.content_hash(path) for path in self._pool],
            "images": [store.content_hash(path) for path in paths],
        }
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    def block(self, paths: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Scores (variants, support sets, images) and maps (…, grid, grid)."""
        grid = self._store.settings.grid
        shape = (len(self._protocol.variants), len(self._subsets), len(paths))
        scores = np.zeros(shape)
        maps = np.zeros((*shape, grid, grid), dtype=np.float32)
        self._prepare()

        def fill(column: int) -> None:
            image = self._store.tokens(paths[column])
            distances = self._matcher.distances(image, self._subsets, self._lookups)
            for row, variant in enumerate(self._protocol.variants):
                for place, subset in enumerate(self._subsets):
                    if variant.peer is None:
                        layers = distances[variant.lookup][place]
                        found = self._scored(variant, layers, image, subset)
                    else:
                        scored = self._peers[variant.peer, place].score_tokens(_batch(image))[0]
                        found = scored.score, scored.anomaly_map
                    scores[row, place, column], maps[row, place, column] = found

        in_parallel(fill, range(len(paths)), self._store.encoder.device)
        return scores, maps

    def _prepare(self) -> None:
        """What all images share, made when the first block needs it."""
        if hasattr(self, "_matcher"):
            return
        pool = in_parallel(self._store.tokens, self._pool, self._store.encoder.device)
        self._matcher = SharedMatcher(pool)
        settings = self._store.settings
        for variant in self._protocol.variants:
            for place, subset in enumerate(self._subsets):
                if variant.peer is None:
                    break
                detector = PEERS[variant.peer](
                    settings.name, layers=settings.layers, resolution=settings.resolution
                )
                banks = [
                    MemoryBank.of(_batch(pool[i]), [NormalImage(str(i), str(i))]) for i in subset
                ]
                self._peers[variant.peer, place] = detector.remember(MemoryBank.joined(banks))

    def _scored(
        self,
        variant: Variant,
        distances: torch.Tensor,
        image: ImageTokens,
        subset: tuple[int, ...],
    ) -> tuple[float, NDArray[np.float32]]:
        available = self._store.settings.layers
        places = [available.index(layer) for layer in variant.layers or available]
        grid = self._store.settings.grid
        anomaly_map = distances[places].mean(dim=0).clamp(min=0).reshape(grid, grid)
        score_map = float(Pooling.parse(variant.pooling)(anomaly_map))
        score_cls = float(self._matcher.cls_distances(image, subset)[places].mean())
        return image_score(score_map, score_cls, variant.lam), anomaly_map.cpu().numpy()


def in_parallel(
    work: Callable[[Item], Result], items: Iterable[Item], device: torch.device
) -> list[Result]:
    """One image a core, each on one thread: faster than all cores on one image, and the figures
    do not depend on how many cores there are. A GPU takes one image after the other."""
    if device.type != "cpu":
        return [work(item) for item in items]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            return list(pool.map(work, items))
    finally:
        torch.set_num_threads(threads)


def _batch(image: ImageTokens) -> Tokens:
    return Tokens(torch.stack(image.patches)[None], image.cls[None])


def _records(
    category: Category,
    protocol: Protocol,
    store: TokenStore,
    supports: dict[tuple[int, int], tuple[str, ...]],
    scores: NDArray[np.float64],
    maps: NDArray[np.float32],
) -> list[Record]:
    anomalous = np.array([image.anomalous for image in category.test])
    masks = None
    if category.has_masks:
        masks = np.stack([load_mask(image, protocol.eval_size) for image in category.test])
    records = []
    for row, variant in enumerate(protocol.variants):
        smoothing = PEERS[variant.peer].smoothing if variant.peer else 0.0
        for place, (run, shots) in enumerate(protocol.settings_of_runs()):
            metrics = image_metrics(anomalous, scores[row, place])
            if masks is not None:
                shown = upsampled(maps[row, place], protocol.eval_size, smoothing)
                metrics |= pixel_metrics(shown, masks)
            names = tuple(
                path.replace("\\", "/").rpartition("/")[2] for path in supports[run, shots]
            )
            records.append(
                Record(
                    category.dataset,
                    category.name,
                    store.settings.name,
                    store.settings.resolution,
                    variant.label,
                    shots,
                    run,
                    names,
                    metrics,
                )
            )
    return records


def upsampled(maps: NDArray[np.float32], size: int, smoothing: float = 0.0) -> NDArray[np.float32]:
    """Maps (n, grid, grid) at the evaluation size, bilinear with half-pixel centres."""
    large = np.empty((len(maps), size, size), dtype=np.float32)
    for place, small in enumerate(maps):
        shown = Image.fromarray(small).resize((size, size), Image.Resampling.BILINEAR)
        large[place] = np.asarray(shown)
        if smoothing:
            from scipy.ndimage import gaussian_filter

            large[place] = gaussian_filter(large[place], smoothing)
    return large


def _read_block(
    path: Path, identity: str
) -> tuple[NDArray[np.float64], NDArray[np.float32]] | None:
    try:
        with np.load(path, allow_pickle=False) as stored:
            if str(stored["identity"]) == identity:
                return stored["scores"], stored["maps"]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    return None


def _write_block(
    path: Path, identity: str, scores: NDArray[np.float64], maps: NDArray[np.float32]
) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, identity=np.array(identity), scores=scores, maps=maps)


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation over runs of the mean over categories, in percent."""

    mean: float | None
    std: float | None


def summarise(records: Sequence[Record], metric: str) -> Summary:
    """The paper's figure: the mean over categories per run, then mean and deviation over runs.

    Categories without the metric (no masks, no defect) do not count.
    """
    runs: dict[int, list[float]] = {}
    for record in records:
        value = record.metrics.get(metric)
        if value is not None:
            runs.setdefault(record.run, []).append(value)
    means = [100 * sum(values) / len(values) for _, values in sorted(runs.items())]
    if not means:
        return Summary(None, None)
    deviation = float(np.std(means, ddof=1)) if len(means) > 1 else None
    return Summary(float(np.mean(means)), deviation)


def record_lines(records: Sequence[Record]) -> Iterator[str]:
    """Each record as a line of JSON."""
    for record in records:
        fields: dict[str, Any] = asdict(record)
        yield json.dumps(fields, ensure_ascii=False)
