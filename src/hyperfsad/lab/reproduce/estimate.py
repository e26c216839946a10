"""How long a reproduction takes and what disk its tokens need: a few images are measured, the rest
is multiplied."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ...detector.recipes import find_recipe
from ...images.loading import load_image
from ...messages import Notice
from ...quality.metrics import pixel_metrics, upsampled
from ...quality.test_set import load_mask
from ..datasets import Category
from ..efficiency import encoded_images
from ..protocol import metrics_file, missing_images, pass_label, work_folder
from ..scorer import Scorer, Variant, in_parallel
from ..supports import Supports
from ..token_cache import TokenCache, TokenCaches
from .plan import EFFICIENCY, Plan

EVAL_SIZE = 256


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
            if category.has_masks:
                supports = len(plan.sets.of(category)) * len(variants)
                seconds += sample.measure * len(category.test) * supports
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

    def __init__(self, plan: Plan, cache: TokenCache, variants: Sequence[Variant]) -> None:
        category = plan.categories[0]
        # one good image and one bad one, where there are both
        images = list({image.anomalous: image for image in reversed(category.test)}.values())
        paths = [image.path for image in images]
        loaded = [load_image(path) for path in paths]
        encode = cache.encoder.encode
        encode(loaded[:1])  # the first time is slower
        device = cache.encoder.device
        all_images = partial(in_parallel, lambda image: encode([image]), loaded, device)
        self.encode = _seconds(all_images) / len(paths)
        first, *_ = [cache.tokens(path) for path in paths]
        self.token_bytes = sum(layer.nbytes for layer in first.patches) + first.cls.nbytes
        sets = list(plan.sets.of(category).values())
        pool = sorted({path for chosen in sets for path in chosen})
        subsets = [tuple(map(pool.index, chosen)) for chosen in sets]
        shared = [variant for variant in variants if variant.shared]
        others = [variant.named(category.name) for variant in variants if not variant.shared]
        self.score = self.fit = 0.0
        if shared:
            self._add(Scorer(shared, pool, subsets, cache), paths, 1)
        if others:  # one support set stands for all, as some peers take long to learn one
            few = sets[len(sets) // 2]
            self._add(Scorer(others, few, [tuple(range(len(few)))], cache), paths, len(sets))
        self.measure = 0.0
        if category.has_masks:
            shape = (len(images), cache.settings.grid, cache.settings.grid)
            maps = np.random.default_rng(0).random(shape, dtype=np.float32)
            masks = np.stack([load_mask(image, EVAL_SIZE) for image in images])
            measure = partial(pixel_metrics, upsampled(maps, EVAL_SIZE, 4.0), masks)
            self.measure = _seconds(measure) / len(images)

    def _add(self, scorer: Scorer, paths: Sequence[str], times: int) -> None:
        first = _seconds(lambda: scorer.scores(paths))
        again = _seconds(lambda: scorer.scores(paths))
        self.score += times * again / len(paths)
        self.fit += times * max(0.0, first - again)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
