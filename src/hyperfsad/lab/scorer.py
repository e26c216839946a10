"""Scores of images against all support sets with all methods at once, kept on disk in blocks."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TypeAlias, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, like, namespace, to_numpy
from ..disk.files import atomic_path
from ..encoders.encoder import ImageTokens, Tokens
from ..images.loading import NormalImage
from ..method.matching import MemoryLayer
from ..method.memory import MemoryBank
from ..method.scoring import BranchScores, Pooling, branch_weights, cls_distances, mean_of_layers
from ..threads import count, limit, one_library_thread
from ..version import __version__
from .peers.peer import FewShotDetector, OwnTokens
from .presets import Variant
from .tokens import TokenCache

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

ScoresAndMaps: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float32]]
"""Scores (variants, subsets, images) and maps (…, grid, grid)."""


class SupportPool:
    """The tokens of all support images; a support set is some of them, without a copy of its own.

    What the search for similar rows makes of a row is made once for all sets that hold it.
    """

    def __init__(self, images: Sequence[ImageTokens], lookups: Sequence[str]) -> None:
        xp = namespace(images[0].cls)
        self._cls = xp.stack([image.cls for image in images])
        self._patches = len(images[0].patches[0])
        layers = [xp.concat(each) for each in zip(*(i.patches for i in images), strict=True)]
        self._layers = {name: [MemoryLayer(rows, name) for rows in layers] for name in lookups}
        for layer in (layer for layers in self._layers.values() for layer in layers):
            layer.prepare()

    def distances(self, image: ImageTokens, subset: Sequence[int], lookup: str) -> list[Array]:
        """1 − cos(q, ε) of each patch, (N,), for each layer."""
        places = np.add.outer(np.array(subset) * self._patches, np.arange(self._patches))
        rows = like(places.ravel(), image.cls)
        pairs = zip(image.patches, self._layers[lookup], strict=True)
        return [layer.only(rows).distances(query) for query, layer in pairs]

    def cls_distances(self, image: ImageTokens, subset: Sequence[int]) -> Array:
        """1 − max_k⟨c, c_k⟩ of each layer."""
        return cls_distances(image.cls, self._cls[list(subset)])


class Scorer:
    """Scores images with all variants against subsets of a pool of support images."""

    def __init__(
        self,
        variants: Sequence[Variant],
        pool: Sequence[str],
        subsets: Sequence[tuple[int, ...]],
        cache: TokenCache,
    ) -> None:
        self._variants, self._pool, self._subsets, self._cache = variants, pool, subsets, cache
        self._lookups = sorted({variant.lookup for variant in variants if variant.shared})

    def stored(self, paths: Sequence[str], file: Path) -> ScoresAndMaps:
        """As `scores`, from the file if it holds just these; a missing or damaged one is written
        again."""
        identity = self.identity(paths)
        broken = (OSError, ValueError, KeyError, EOFError, BadZipFile)
        with suppress(*broken), np.load(file, allow_pickle=False) as block:
            if str(block["identity"]) == identity:
                return block["scores"], block["maps"]
        scores, maps = self.scores(paths)
        with atomic_path(file, parents=True) as temporary, temporary.open("wb") as opened:
            np.savez(opened, identity=np.array(identity), scores=scores, maps=maps)
        return scores, maps

    def identity(self, paths: Sequence[str]) -> str:
        """A hash of all that the scores of a block depend on."""
        cache = self._cache
        values = {
            "version": __version__,
            "encoder": cache.encoder.fingerprint,
            "engine": cache.encoder.engine,
            "settings": {**asdict(cache.settings), "form": cache.settings.form},
            "variants": [asdict(variant) for variant in self._variants],
            "subsets": self._subsets,
            "pool": [cache.content_hash(path) for path in self._pool],
            "images": [cache.content_hash(path) for path in paths],
        }
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    def scores(self, paths: Sequence[str]) -> ScoresAndMaps:
        """The scores and maps of some images."""
        grid = self._cache.settings.grid
        shape = (len(self._variants), len(self._subsets), len(paths))
        scores = np.zeros(shape)
        maps = np.zeros((*shape, grid, grid), dtype=np.float32)
        pool, others = self._prepared

        def fill(column: int) -> None:
            image = self._cache.tokens(paths[column])
            for place, subset in enumerate(self._subsets):
                distances = {name: pool.distances(image, subset, name) for name in self._lookups}
                for row, variant in enumerate(self._variants):
                    if variant.shared:
                        layers = distances[variant.lookup]
                        found = self._scored(variant, layers, pool.cls_distances(image, subset))
                    else:
                        scored = others[variant, place].score_tokens(_batch(image))[0]
                        found = scored.score, scored.anomaly_map
                    scores[row, place, column], maps[row, place, column] = found

        in_parallel(fill, range(len(paths)), self._cache.encoder.device)
        return scores, maps

    @cached_property
    def _prepared(self) -> tuple[SupportPool, dict[tuple[Variant, int], FewShotDetector]]:
        """The support images, and each variant that scores in its own way fitted on each subset."""
        turns = {(0.0,), *(variant.angles for variant in self._variants)}
        banks = {angles: self._banks(angles) for angles in sorted(turns)}
        others = {}
        for variant in (variant for variant in self._variants if not variant.shared):
            for place, subset in enumerate(self._subsets):
                views = [
                    MemoryBank.of(_batch(view), [NormalImage(str(index), str(index))])
                    for index in subset
                    for view in banks[variant.angles][index]
                ]
                detector = variant.detector(self._cache.settings)
                if isinstance(detector, OwnTokens):
                    detector.use_encoder(self._cache.encoder)  # it may have more to ask of it
                others[variant, place] = detector.remember(MemoryBank.joined(views))
                if isinstance(detector, OwnTokens):
                    detector.forget()
        return SupportPool([images[0] for images in banks[0.0,]], self._lookups), others

    def _banks(self, angles: tuple[float, ...]) -> list[list[ImageTokens]]:
        """The tokens of each image of the pool, turned by each of the angles."""
        views = in_parallel(
            lambda view: self._cache.tokens(*view),
            [(path, angle) for path in self._pool for angle in angles],
            self._cache.encoder.device,
        )
        count = len(angles)
        return [views[first : first + count] for first in range(0, len(views), count)]

    def _scored(
        self, variant: Variant, distances: Sequence[Array], cls_distances: Array
    ) -> tuple[float, NDArray[np.float32]]:
        """The paper's score and map, from the distances of an image in all layers."""
        available = self._cache.settings.layers
        places = [available.index(layer) for layer in variant.layers or available]
        grid = self._cache.settings.grid
        anomaly_map = mean_of_layers([distances[place] for place in places])
        values = {
            "map": float(Pooling.parse(variant.pooling)(anomaly_map)),
            "cls": float(to_numpy(cls_distances)[places].mean()),
        }
        branches = BranchScores(values, branch_weights(variant.lam))
        return branches.total, to_numpy(anomaly_map).reshape(grid, grid)


def in_parallel(
    work: Callable[[_Item], _Result], items: Iterable[_Item], device: str
) -> list[_Result]:
    """One image a core, each on one thread: faster than all cores on one image, and the figures
    do not depend on how many cores there are. A GPU takes one image after the other.

    An engine that is loaded `parallel` knows the cores.
    """
    if device != "cpu":
        return [work(item) for item in items]
    cores = count()
    limit(1)
    try:
        with one_library_thread(), ThreadPoolExecutor(cores) as pool:
            return list(pool.map(work, items))
    finally:
        limit(cores)


def _batch(image: ImageTokens) -> Tokens:
    return Tokens(namespace(image.cls).stack(image.patches)[None], image.cls[None])
