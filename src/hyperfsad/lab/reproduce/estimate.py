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
from ...quality.metrics import pixel_metrics, upsampled
from ...quality.test_set import load_mask
from ..datasets import Category
from ..efficiency import images_encoded
from ..naming import settings_label, work_folder
from ..protocol import metrics_file, missing_images
from ..scorer import Scorer, Variant, in_parallel
from ..supports import Supports
from ..token_cache import TokenCache, TokenCaches
from .plan import EFFICIENCY, Plan

FEW = 2
"""Images that are measured: as many as most machines have cores for, at least."""
EVAL_SIZE = 256
_UNITS = ((86400, "day"), (3600, "h"), (60, "min"))


@dataclass(frozen=True)
class Estimate:
    """What is still to be done."""

    seconds: float
    token_bytes: int
    images: int
    """Images to be scored, once for each pass over them."""

    def __str__(self) -> str:
        if not self.images:
            return "Every image is scored already; tables and page are written again."
        gigabytes = self.token_bytes / 1e9
        disk = f"{gigabytes:.1f} GB" if gigabytes >= 0.1 else f"{self.token_bytes / 1e6:.0f} MB"
        return (
            f"About {duration(self.seconds)} and {disk} of tokens, for {self.images:,} images to"
            " score (estimated from a few)."
        )


def duration(seconds: float) -> str:
    """A length of time in words, to two units."""
    minutes = 60 * round(seconds / 60)
    if minutes < 60:
        return "a minute"
    parts: list[str] = []
    for size, unit in _UNITS:
        count, minutes = divmod(minutes, size)
        if count or parts:
            parts.append(f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))


def estimate(plan: Plan, caches: TokenCaches, out: Path, kept: bool = True) -> Estimate:
    """Measures on the first category. Tokens that are on disk, and images that an earlier run has
    scored, cost nothing. `kept`: whether tokens are kept between presets."""
    seconds, token_bytes, images = 0.0, 0, 0
    known: set[Path] = set()
    for preset, (settings, variants) in plan.passes:
        label = settings_label(settings, plan.encoders[preset])
        work = work_folder(out / preset, preset, label)
        todo = {c: missing_images(c, work) for c in plan.categories}
        unmeasured = [c for c in plan.categories if not metrics_file(c, work).is_file()]
        if not unmeasured and not any(todo.values()):
            continue
        cache = caches.of(settings)
        sample = _Sample(plan, cache, variants)
        fresh = set()
        for category, places in todo.items():
            if places:
                fresh |= _token_files(category, plan.draws.of(category), cache, variants)
        fresh = {file for file in fresh - known if not file.is_file()}
        known |= fresh if kept else set()
        seconds += len(fresh) * sample.encode
        token_bytes += len(fresh) * sample.token_bytes if kept else 0
        for count in todo.values():
            images += count
            seconds += count * sample.score + (sample.fit if count else 0)
        for category in unmeasured:
            if category.has_masks:
                sets = len(plan.draws.of(category)) * len(variants)
                seconds += sample.measure * len(category.test) * sets
    return Estimate(seconds + _efficiency(plan, caches, out), token_bytes, images)


def _efficiency(plan: Plan, caches: TokenCaches, out: Path) -> float:
    """Seconds to encode what Table 5 times, if it has not been timed; matching is little of it."""
    if EFFICIENCY not in plan.presets or any((out / EFFICIENCY / "work").glob("times-*.json")):
        return 0.0
    image = load_image(plan.categories[0].test[0].path)
    seconds = 0.0
    for name in plan.encoders[EFFICIENCY]:
        encoder = caches.of(find_recipe(plan.request.recipe).settings(name)).encoder
        encoder.encode([image])  # the first time is slower
        once = _seconds(partial(encoder.encode, [image]))
        seconds += once * images_encoded(plan.draws.shots)
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
        supports = plan.draws.of(category)
        images = [
            *[image for image in category.test if not image.anomalous][:1],
            *[image for image in category.test if image.anomalous][:1],
        ]
        paths = [image.path for image in images]
        loaded = [load_image(path) for path in paths]
        cache.encoder.encode(loaded[:1])  # the first time is slower
        device = cache.encoder.device
        self.encode = _seconds(
            lambda: in_parallel(lambda image: cache.encoder.encode([image]), loaded, device)
        ) / len(paths)
        tokens = cache.tokens(paths[0])
        self.token_bytes = sum(layer.nbytes for layer in tokens.patches) + tokens.cls.nbytes
        for path in paths[1:]:
            cache.tokens(path)
        pool = sorted({path for chosen in supports.values() for path in chosen})
        subsets = [tuple(map(pool.index, chosen)) for chosen in supports.values()]
        shared = [variant for variant in variants if variant.shared]
        others = [variant.named(category.name) for variant in variants if not variant.shared]
        self.score = self.fit = 0.0
        if shared:
            self._add(Scorer(shared, pool, subsets, cache), paths, 1)
        if others:  # one support set stands for all, as some peers take long to learn one
            middle = subsets[len(subsets) // 2]
            few = [pool[place] for place in middle]
            own = Scorer(others, few, [tuple(range(len(few)))], cache)
            self._add(own, paths, len(subsets))
        self.measure = 0.0
        if category.has_masks and len(images) == FEW:
            grid = cache.settings.grid
            maps = np.random.default_rng(0).random((FEW, grid, grid), dtype=np.float32)
            masks = np.stack([load_mask(image, EVAL_SIZE) for image in images])
            work = lambda: pixel_metrics(upsampled(maps, EVAL_SIZE, 4.0), masks)  # noqa: E731
            self.measure = _seconds(work) / FEW

    def _add(self, scorer: Scorer, paths: Sequence[str], times: int) -> None:
        first = _seconds(lambda: scorer.scores(paths))
        again = _seconds(lambda: scorer.scores(paths))
        self.score += times * again / len(paths)
        self.fit += times * max(0.0, first - again)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
