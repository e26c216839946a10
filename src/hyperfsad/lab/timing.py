"""Milliseconds an image and peak memory of several methods, on the same images and tokens."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TypeAlias

from ..detector.base import FewShotDetector
from ..detector.hyperfsad import HyperFSAD
from ..disk.files import encoded, write_file
from ..encoders.encoder import Encoder, load_encoder
from ..images.loading import load_image
from ..version import __version__
from .datasets import Category
from .meters import Stopwatch, meter_of
from .scorer import Variant
from .token_cache import TokenCache

IMAGES = 24
"""Images that are timed; the medians of their batches are told."""

FEW = 8
"""Images that are timed beside an accuracy benchmark, which takes long enough."""

Method: TypeAlias = tuple[str, int]
"""A method's label, and how many normal images it knows."""


@dataclass(frozen=True)
class Timing:
    """What an image costs, in milliseconds: medians over batches of so many images."""

    method: str
    shots: int
    batch: int
    decode: float
    encode: float
    match: float
    total: float
    peak_bytes: int


def time_methods(
    methods: Mapping[Method, Callable[[], FewShotDetector]],
    encoder: Encoder,
    paths: Sequence[str],
    batches: Sequence[int],
    images: int = IMAGES,
) -> list[Timing]:
    """Times fitted detectors, which the functions make; all score the tokens of one encoder.

    Each method sees one batch of every size first: that warms it up, and shows its memory without
    that of the methods made before it.
    """
    meter = meter_of(encoder.device)
    empty = meter.held()
    fitted: dict[Method, FewShotDetector] = {}
    peaks: dict[tuple[Method, int], int] = {}
    for method, make in methods.items():
        others = meter.held() - empty
        fitted[method] = make()
        for size in batches:
            meter.reset()
            pictures = [load_image(path) for path in _some(paths, 0, size)]
            fitted[method].score_tokens(encoder.encode(pictures))
            peaks[method, size] = meter.peak() - others
    return [
        Timing(method[0], method[1], size, *stages, peaks[method, size])
        for size in batches
        for method, stages in _laps(fitted, encoder, paths, size, images).items()
    ]


def _laps(
    fitted: Mapping[Method, FewShotDetector],
    encoder: Encoder,
    paths: Sequence[str],
    size: int,
    images: int,
) -> dict[Method, tuple[float, float, float, float]]:
    """Milliseconds an image to decode, to encode, to match, and all three together."""
    laps: dict[Method, list[tuple[float, float, float, float]]] = {key: [] for key in fitted}
    watch = Stopwatch(meter_of(encoder.device))
    for start in range(0, images, size):
        watch.lap()
        pictures = [load_image(path) for path in _some(paths, start, size)]
        decode = watch.lap()
        tokens = encoder.encode(pictures)
        encode = watch.lap()
        for method, detector in fitted.items():
            detector.score_tokens(tokens)
            match = watch.lap()
            laps[method].append((decode, encode, match, decode + encode + match))
    unit = 1000 / size
    found = {}
    for method, own in laps.items():
        decode, encode, match, total = (unit * median(stage) for stage in zip(*own, strict=True))
        found[method] = (decode, encode, match, total)
    return found


def _some(paths: Sequence[str], start: int, count: int) -> list[str]:
    """So many images from a place on, and the first ones again after the last."""
    return [paths[(start + place) % len(paths)] for place in range(count)]


@dataclass(frozen=True)
class RunTimes:
    """What an image costs in a benchmark run."""

    encoder: str
    resolution: int
    machine: str
    """The device and the engine."""
    timings: tuple[Timing, ...]


def time_variants(
    variants: Sequence[Variant],
    shots: Sequence[int],
    category: Category,
    cache: TokenCache,
    file: Path,
) -> RunTimes:
    """The times of a run's methods on a category, as `detect` meets its images.

    They are kept in a file: a run that is resumed ends with the table that it began with.
    """
    settings, encoder = cache.settings, cache.encoder
    size = encoder.usual_batch
    identity = [__version__, encoder.fingerprint, encoder.engine, str(encoder.device)]
    identity += [json.dumps(asdict(settings)), json.dumps([asdict(v) for v in variants])]
    identity += [json.dumps([list(shots), size]), f"{category.dataset}/{category.name}"]
    machine = f"{meter_of(encoder.device).name} with {encoder.engine}"

    def measure() -> list[Timing]:
        timed = encoder
        if encoder.engine != "torch":  # the cache's runs one image a core
            timed = load_encoder(settings, str(encoder.device), engine=encoder.engine)
        methods = {
            (variant.label, count): _maker(variant, category.normal[:count], timed)
            for variant in variants
            for count in shots
        }
        paths = [image.path for image in category.test]
        return time_methods(methods, timed, paths, [size], max(FEW, size))

    machine, timings = kept_timings(file, identity, machine, measure)
    return RunTimes(settings.name, settings.resolution, machine, timings)


def kept_timings(
    file: Path, identity: Sequence[str], machine: str, measure: Callable[[], list[Timing]]
) -> tuple[str, tuple[Timing, ...]]:
    """The machine and the times that a file holds for an identity, or what is measured now and
    kept there: whoever comes again is told the same times."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["identity"] == list(identity):
            return str(stored["machine"]), tuple(Timing(**each) for each in stored["timings"])
    found = tuple(measure())
    content = {"identity": identity, "machine": machine, "timings": [asdict(t) for t in found]}
    write_file(file, encoded(json.dumps(content, indent=2) + "\n"), parents=True)
    return machine, found


def _maker(
    variant: Variant, normal: Sequence[str], encoder: Encoder
) -> Callable[[], FewShotDetector]:
    def make() -> FewShotDetector:
        detector = variant.detector(encoder.settings)
        detector.use_encoder(encoder)
        if isinstance(detector, HyperFSAD):
            return detector.fit(list(normal), threshold=False)
        return detector.fit(list(normal))

    return make
