"""Milliseconds per image and peak memory of several methods, on the same images and tokens."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from ..disk.files import encoded, write_file
from ..encoders.encoder import Encoder
from ..images.loading import load_image
from ..version import __version__
from .datasets import Category
from .meters import Meter
from .peers.peer import FewShotDetector
from .scorer import Variant

FEW_IMAGES = 8
"""Images that are timed beside an accuracy benchmark, which takes long enough."""

Method: TypeAlias = tuple[str, int]
"""A method's label, and its number of shots."""


@dataclass(frozen=True)
class Timing:
    """What an image costs in batches of a size: medians in milliseconds."""

    method: str
    shots: int
    batch: int
    decode: float
    encode: float
    match: float
    total: float
    peak_bytes: int


@dataclass(frozen=True)
class RunTimes:
    """What an image costs in a benchmark run."""

    encoder: str
    resolution: int
    machine: str
    """The device and the engine."""
    timings: tuple[Timing, ...]


def time_methods(
    methods: Mapping[Method, Callable[[], FewShotDetector]],
    encoder: Encoder,
    paths: Sequence[str],
    batches: Sequence[int],
    images: int,
) -> list[Timing]:
    """Times fitted detectors, which the functions make; all score the tokens of one encoder.

    Each method sees one batch of every size first: that warms it up, and shows its memory without
    that of the methods made before it.
    """
    meter = Meter(encoder.device)
    empty = meter.held()
    fitted: dict[Method, FewShotDetector] = {}
    peaks: dict[tuple[Method, int], int] = {}
    for method, make in methods.items():
        others = meter.held() - empty
        fitted[method] = make()
        for size in batches:
            meter.reset()
            pictures = [load_image(paths[place % len(paths)]) for place in range(size)]
            fitted[method].score_tokens(encoder.encode(pictures))
            peaks[method, size] = meter.peak() - others
    timings = []
    for size in batches:
        laps: dict[Method, list[tuple[float, ...]]] = {method: [] for method in fitted}
        for start in range(0, images, size):
            meter.lap()
            places = range(start, start + size)
            pictures = [load_image(paths[place % len(paths)]) for place in places]
            decode = meter.lap()
            tokens = encoder.encode(pictures)
            encode = meter.lap()
            for method, detector in fitted.items():
                detector.score_tokens(tokens)
                match = meter.lap()
                laps[method].append((decode, encode, match, decode + encode + match))
        for method, own in laps.items():
            decode, encode, match, total = (
                1000 / size * median(stage) for stage in zip(*own, strict=True)
            )
            stages = (decode, encode, match, total)
            timings.append(Timing(*method, size, *stages, peaks[method, size]))
    return timings


def time_variants(
    variants: Sequence[Variant],
    shots: Sequence[int],
    category: Category,
    encoder: Encoder,
    *,
    file: Path | None = None,
    batches: Sequence[int] = (),
    images: int = FEW_IMAGES,
    load: Callable[[], Encoder] | None = None,
) -> RunTimes:
    """The times of a run's methods on the images of a category.

    A file keeps them, so that a run that is resumed ends with the table that it began with. `load`
    gives an encoder for one image at a time, where `encoder` runs one image a core.
    """
    settings, sizes = encoder.settings, list(batches) or [encoder.usual_batch]
    machine = f"{Meter(encoder.device).name} with {encoder.engine}"
    values: list[Any] = [
        __version__,
        encoder.fingerprint,
        machine,
        asdict(settings),
        list(shots),
        sizes,
    ]
    values += [images, [asdict(v) for v in variants], f"{category.dataset}/{category.name}"]
    identity = json.dumps(values)
    if file is not None:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            stored = json.loads(file.read_text(encoding="utf-8"))
            if stored["identity"] == identity:
                timings = tuple(Timing(**each) for each in stored["timings"])
                return RunTimes(settings.name, settings.resolution, machine, timings)
    timed = load() if load else encoder
    methods = {
        (variant.label, count): _maker(variant, category.normal[:count], timed)
        for variant in variants
        for count in shots
    }
    paths = [image.path for image in category.test]
    found = time_methods(methods, timed, paths, sizes, max(images, *sizes))
    if file is not None:
        content = {"identity": identity, "timings": [asdict(timing) for timing in found]}
        write_file(file, encoded(json.dumps(content, indent=2) + "\n"), parents=True)
    return RunTimes(settings.name, settings.resolution, machine, tuple(found))


def _maker(
    variant: Variant, normal: Sequence[str], encoder: Encoder
) -> Callable[[], FewShotDetector]:
    def make() -> FewShotDetector:
        detector = variant.detector(encoder.settings)
        detector.use_encoder(encoder)
        detector.fit(list(normal), threshold=False)
        return detector

    return make
