"""How long a reproduction takes and what disk its tokens need: a few images are measured, the rest
is multiplied."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ...detector.settings import find_recipe
from ...images.loading import load_image
from ...messages import Notice
from ...quality.metrics import pixel_metrics, upsampled
from ...quality.test_set import load_mask
from ..datasets import Category
from ..efficiency import encoded_images
from ..protocol import (
    Protocol,
    metrics_file,
    missing_images,
    pass_label,
    scorer_of,
    work_folder,
)
from ..scorer import Variant
from ..supports import Supports
from ..token_cache import TokenCache, TokenCaches
from .plan import EFFICIENCY, Plan


@dataclass(frozen=True)
class Estimate:
    """What is still to be done."""

    seconds: float
    token_bytes: int
    images: int
    """Images to be scored, once for each pass over them."""

    @property
    def notice(self) -> Notice:
        """The estimate in one sentence."""
        if not self.images:
            return Notice("nothing-to-score")
        facts = {"duration": duration(self.seconds), "images": self.images}
        return Notice("estimate", **facts, gigabytes=self.token_bytes / 1e9)


def duration(seconds: float) -> str:
    """A length of time in words, to two units."""
    minutes = max(1, round(seconds / 60))
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    words = {"day" if days == 1 else "days": days, "h": hours, "min": 0 if days else minutes}
    return " ".join(f"{number} {unit}" for unit, number in words.items() if number)


def estimate(plan: Plan, caches: TokenCaches, out: Path, stored: bool = True) -> Estimate:
    """Measures on the first category. Tokens that are on disk, and images that were scored before,
    cost nothing. `stored`: whether tokens are stored between presets."""
    seconds, token_bytes, images = _efficiency_seconds(plan, caches, out), 0, 0
    known: set[Path] = set()
    for preset, (settings, variants) in plan.passes:
        work = work_folder(out / preset, preset, pass_label(settings, plan.encoders[preset]))
        todo = {c: missing_images(c, work) for c in plan.categories}
        unmeasured = [c for c in plan.categories if not metrics_file(c, work).is_file()]
        if not unmeasured and not any(todo.values()):
            continue
        cache = caches.of(settings)
        sample = _Sample(plan, cache, variants)
        files: set[Path] = set()
        for category, count in todo.items():
            if count:
                files |= _token_files(category, plan.sets.of(category), cache, variants)
                seconds += count * sample.score + sample.fit
                images += count
        fresh = {file for file in files - known if not file.is_file()}
        seconds += len(fresh) * sample.encode
        if stored:
            known |= fresh
            token_bytes += len(fresh) * sample.token_bytes
        for category in unmeasured:
            seconds += sample.measure * len(category.test) * category.has_masks
    return Estimate(seconds, token_bytes, images)


def _efficiency_seconds(plan: Plan, caches: TokenCaches, out: Path) -> float:
    """Seconds to encode what Table 5 times, if it has not been timed; matching is little of it."""
    if EFFICIENCY not in plan.presets or any((out / EFFICIENCY / "work").glob("times-*.json")):
        return 0.0
    image = load_image(plan.categories[0].test[0].path)
    seconds = 0.0
    for name in plan.encoders[EFFICIENCY]:
        encode = caches.of(find_recipe(plan.request.recipe).settings(name)).encoder.encode
        encode([image])  # the first time is slower
        seconds += _seconds(partial(encode, [image])) * encoded_images(plan.sets.shots)
    return seconds


def _token_files(
    category: Category, supports: Supports, cache: TokenCache, variants: Sequence[Variant]
) -> set[Path]:
    angles = {angle for variant in variants for angle in variant.angles}
    normal = {path for paths in supports.values() for path in paths}
    files = {cache.file_of(path, angle) for path in normal for angle in angles}
    return files | {cache.file_of(image.path) for image in category.test}


class _Sample:
    """What one image of the first category costs with some variants, in seconds."""

    def __init__(self, plan: Plan, cache: TokenCache, variants: tuple[Variant, ...]) -> None:
        category, eval_size = plan.categories[0], plan.request.eval_size
        # one good image and one bad one, where there are both
        images = list({image.anomalous: image for image in reversed(category.test)}.values())
        paths = [image.path for image in images]
        loaded = [load_image(path) for path in paths]
        cache.encoder.encode(loaded[:1])  # the first time is slower
        self.encode = _seconds(partial(cache.encoder.encode, loaded)) / len(paths)
        first, *_ = [cache.tokens(path) for path in paths]
        self.token_bytes = sum(layer.nbytes for layer in first.patches) + first.cls.nbytes
        supports = plan.sets.of(category)
        scorer = scorer_of(category, Protocol(variants=variants), cache, supports)
        fitted = _seconds(partial(scorer.scores, paths))
        self.score = _seconds(partial(scorer.scores, paths)) / len(paths)
        self.fit = max(0.0, fitted - self.score * len(paths))
        self.measure = 0.0
        if category.has_masks:
            grid = cache.settings.grid
            maps = np.random.default_rng(0).random((len(images), grid, grid), dtype=np.float32)
            masks = np.stack([load_mask(image, eval_size) for image in images])
            work = partial(pixel_metrics, upsampled(maps, eval_size, 4.0), masks)
            self.measure = _seconds(work) / len(images) * len(supports) * len(variants)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
