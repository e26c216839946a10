"""The paper's protocol: K good images as support, R runs, every metric per category.

Scores and metrics of a category are stored under a hash of all that they depend on, so that a
killed run continues where it stopped, and the same run never computes anything twice.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..disk.files import encoded, write_file
from ..quality.metrics import image_metrics, pixel_metrics, upsampled
from ..quality.test_set import load_mask
from .datasets import Category
from .peers import PEERS
from .presets import Variant
from .published import count_images
from .records import Record, image_columns
from .scorer import Scorer
from .supports import Supports, file_name
from .tokens import TokenCache

BLOCK = 16
"""Images scored between two writes to disk: what a killed run may lose."""

Metrics: TypeAlias = list[list[dict[str, float | None]]]
"""Of a category: for each variant and each support set, by name."""


@dataclass(frozen=True)
class CategoryRun:
    """The methods that read the same tokens, on one category."""

    category: Category
    supports: Supports
    variants: tuple[Variant, ...]
    cache: TokenCache
    work: Path
    """Scores go to this folder block by block."""
    eval_size: int = 256

    def records(
        self, advance: Callable[[int], None] = lambda _: None, provenance: str = ""
    ) -> list[Record]:
        """All records; `advance` is called with the number of images just done."""
        category, supports, settings = self.category, self.supports, self.cache.settings
        pool = sorted({path for paths in supports.values() for path in paths})
        subsets = [tuple(map(pool.index, paths)) for paths in supports.values()]
        variants = [variant.named(category.name) for variant in self.variants]
        scorer = Scorer(variants, pool, subsets, self.cache)
        blocks = []
        for paths, file in self._blocks():
            blocks.append(scorer.stored(paths, file))
            advance(len(paths))
        metrics = self._metrics(scorer, blocks)
        return [
            Record(
                dataset=category.dataset,
                category=category.name,
                encoder=settings.name,
                resolution=settings.resolution,
                method=variant.label,
                shots=shots,
                run=run,
                support=tuple(map(file_name, support)),
                metrics=of_variant[place],
                counts=count_images(category),
                provenance=provenance,
            )
            for variant, of_variant in zip(self.variants, metrics, strict=True)
            for place, ((run, shots), support) in enumerate(supports.items())
        ]

    def maps(self) -> NDArray[np.float32]:
        """The stored maps: (variants, support sets, images, grid, grid)."""
        return np.concatenate(list(self._stored("maps")), axis=2)

    def score_rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the score table, from the stored blocks."""
        settings = self.cache.settings
        for number, scores in enumerate(self._stored("scores")):
            for column in range(scores.shape[2]):
                common = image_columns(self.category, number * BLOCK + column)
                common |= {"encoder": settings.name, "resolution": settings.resolution}
                for row, variant in enumerate(self.variants):
                    for place, (run, shots) in enumerate(self.supports):
                        figures = {"method": variant.label, "shots": shots, "run": run}
                        yield {**common, **figures, "score": float(scores[row, place, column])}

    @property
    def _folder(self) -> Path:
        return self.work / self.category.dataset / self.category.name

    def _blocks(self) -> Iterator[tuple[list[str], Path]]:
        """The images and the file of each block."""
        test = self.category.test
        for number, start in enumerate(range(0, len(test), BLOCK)):
            paths = [image.path for image in test[start : start + BLOCK]]
            yield paths, self._folder / f"{number:04d}.npz"

    def _stored(self, name: str) -> Iterator[NDArray[Any]]:
        for _, file in self._blocks():
            with np.load(file, allow_pickle=False) as stored:
                block = stored[name]
            yield block

    def _metrics(self, scorer: Scorer, blocks: list[Any]) -> Metrics:
        """The metrics, from disk if they are of just these inputs: they take as long as scores."""
        test, file = self.category.test, self._folder / "metrics.json"
        truth = [[t.anomalous, t.mask and self.cache.content_hash(t.mask)] for t in test]
        identity = [scorer.identity([image.path for image in test]), self.eval_size, truth]
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads(file.read_text(encoding="utf-8"))
            if stored["identity"] == identity:
                return [[dict(of) for of in row] for row in stored["metrics"]]
        scores, maps = (np.concatenate(found, axis=2) for found in zip(*blocks, strict=True))
        anomalous = np.array([image.anomalous for image in test])
        masked = self.category.has_masks
        masks = np.stack([load_mask(image, self.eval_size) for image in test]) if masked else None
        found: Metrics = []
        for row, variant in enumerate(self.variants):
            smoothing = PEERS[variant.peer].smoothing if variant.peer else 0.0
            found.append([])
            for place in range(scores.shape[1]):
                metrics = image_metrics(anomalous, scores[row, place])
                if masks is not None:
                    shown = upsampled(maps[row, place], self.eval_size, smoothing)
                    metrics |= pixel_metrics(shown, masks)
                found[row].append(metrics)
        content = json.dumps({"identity": identity, "metrics": found})
        write_file(file, encoded(content + "\n"), parents=True)
        return found
