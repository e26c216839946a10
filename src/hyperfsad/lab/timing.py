"""Milliseconds per image and peak memory of methods on the same images and tokens: the paper's
Table 5, and the column T of its Table 4."""

import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeAlias

from ..detector.settings import PAPER_OFFLINE, Settings, find_recipe
from ..disk.files import encoded, write_file
from ..encoders.encoder import Encoder, load_encoder
from ..encoders.specs import EngineName, PrecisionName
from ..errors import UsageError
from ..images.loading import LoadedImage, load_image
from ..messages import Notify, log
from ..version import __version__
from . import PRECISION
from .datasets import Category
from .peers import SAME_TOKENS
from .peers.peer import FewShotDetector
from .presets import OURS, Variant, beside, with_recipe
from .published import published
from .tables import Cell, Column, Table, TableRow

FEW_IMAGES = 8
"""Images that are timed beside an accuracy benchmark, which takes long enough."""
BATCHES = (1, 8)
"""As `detect` reads images on a CPU, and as the paper does."""
TIMED_IMAGES = 24
TIMED_PRESETS = ("resolution",)
"""The presets whose published table has a time."""

Method: TypeAlias = tuple[str, int]
"""A method's label, and its number of shots."""


class Meter:
    """The clock and the memory of one device.

    A GPU returns from a call once the work is queued, so the clock waits for the device before it
    is read. On a CPU, memory is that of the whole process; CUDA counts the tensors on the GPU.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.counts_tensors = device.startswith("cuda")
        """Whether `peak` belongs to one method, whatever ran before it."""
        self._last = self.now()

    @property
    def name(self) -> str:
        """What the figures were measured on."""
        if self.counts_tensors:
            import torch

            return torch.cuda.get_device_name(self.device)
        return self.device.upper()

    def now(self) -> float:
        """Seconds, once the device has finished all work that it was given."""
        if self.device.startswith(("cuda", "mps")):
            import torch

            if self.counts_tensors:
                torch.cuda.synchronize(self.device)
            else:
                torch.mps.synchronize()
        return time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last call; laps add up to the whole."""
        before, self._last = self._last, self.now()
        return self._last - before

    def held(self) -> int:
        """Bytes that tensors hold on the device now; 0 where that is not counted."""
        if not self.counts_tensors:
            return 0
        import torch

        return torch.cuda.memory_allocated(self.device)

    def reset(self) -> None:
        """Forgets the peak, where the device can."""
        if self.counts_tensors:
            import torch

            torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self) -> int:
        """Bytes: the largest memory since `reset`; 0 where the system does not say."""
        if self.counts_tensors:
            import torch

            return torch.cuda.max_memory_allocated(self.device)
        try:
            import resource
        except ImportError:  # Windows
            return 0
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


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

    Each method scores one batch of every size first: that warms it up, and shows its memory without
    that of the methods made before it.
    """

    def read(start: int, size: int) -> list[LoadedImage]:
        return [load_image(paths[place % len(paths)]) for place in range(start, start + size)]

    meter = Meter(encoder.device)
    empty = meter.held()
    fitted: dict[Method, FewShotDetector] = {}
    peaks: dict[tuple[Method, int], int] = {}
    for method, make in methods.items():
        others = meter.held() - empty
        fitted[method] = make()
        for size in batches:
            meter.reset()
            fitted[method].score_tokens(encoder.encode(read(0, size)))
            peaks[method, size] = meter.peak() - others
    timings = []
    for size in batches:
        laps: dict[Method, list[tuple[float, ...]]] = {method: [] for method in fitted}
        for start in range(0, images, size):
            meter.lap()
            pictures = read(start, size)
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

    A file keeps them, so that a resumed run ends with the table that it began with. `load` gives an
    encoder for one image at a time, where `encoder` runs one image a core.
    """
    settings, sizes = encoder.settings, list(batches) or [encoder.usual_batch]
    machine = f"{Meter(encoder.device).name} with {encoder.engine} in {encoder.precision}"
    known = [__version__, encoder.fingerprint, machine, asdict(settings), [*shots], sizes, images]
    place = f"{category.dataset}/{category.name}"
    identity = json.dumps([*known, [asdict(variant) for variant in variants], place])
    times = partial(RunTimes, settings.name, settings.resolution, machine)
    if file is not None:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            stored = json.loads(file.read_text(encoding="utf-8"))
            if stored["identity"] == identity:
                return times(tuple(Timing(**each) for each in stored["timings"]))
    timed = load() if load else encoder

    def fitted(variant: Variant, count: int) -> FewShotDetector:
        detector = variant.detector(settings)
        detector.use_encoder(timed)
        detector.fit(list(category.normal[:count]), threshold=False)
        return detector

    methods = {
        (variant.label, count): partial(fitted, variant, count)
        for variant in variants
        for count in shots
    }
    paths = [image.path for image in category.test]
    found = time_methods(methods, timed, paths, sizes, max(images, *sizes))
    if file is not None:
        content = {"identity": identity, "timings": [asdict(timing) for timing in found]}
        write_file(file, encoded(json.dumps(content, indent=2) + "\n"), parents=True)
    return times(tuple(found))


def efficiency_table(
    categories: Sequence[Category],
    encoders: Sequence[str],
    *,
    shots: Sequence[int],
    resolution: int | None = None,
    recipe: str = PAPER_OFFLINE,
    device: str = "auto",
    engine: EngineName = "auto",
    precision: PrecisionName = PRECISION,
    work: Path | None = None,
    notify: Notify = log,
) -> Table:
    """Times images of the first category; the peers score the same tokens on the same machine.

    Times in the folder `work` are not measured again, so that the table stays the same.
    """
    if not categories or not encoders:
        raise UsageError("nothing-to-time")
    Settings(device=device, engine=engine, precision=precision)
    rows = [
        TableRow(
            row.method,
            (row.backbone, row.variant, *(None,) * 3, row.metrics["ms"], row.metrics["GB"]),
            "GPU, 1-shot, batch 8",
            published=True,
        )
        for row in published("efficiency")
    ]
    variants = with_recipe("peers", beside(SAME_TOKENS), recipe)
    measured: list[tuple[Timing, TableRow]] = []
    for number, name in enumerate(encoders):
        settings = find_recipe(recipe).settings(name, resolution)
        encoder = load_encoder(settings, device, notify, engine=engine, precision=precision)
        gpu = Meter(encoder.device).counts_tensors
        file = work / f"times-{number}.json" if work else None
        found = time_variants(
            variants,
            sorted(set(shots)),
            categories[0],
            encoder,
            file=file,
            batches=BATCHES,
            images=TIMED_IMAGES,
        )
        for timing in found.timings:
            group = f"{found.machine}, {timing.shots}-shot, batch {timing.batch}, here"
            stages = map(Cell, (timing.decode, timing.encode, timing.match, timing.total))
            peak = Cell(timing.peak_bytes / 1e9) if gpu else None
            cells = (name, str(settings.resolution), *stages, peak)
            ours = timing.method.startswith(OURS)
            measured.append((timing, TableRow(timing.method, cells, group, ours=ours)))
    measured.sort(key=lambda pair: (pair[0].shots, pair[0].batch))  # rows of a group together
    columns = (
        *(Column(name, better=None) for name in ("encoder", "pixels")),
        *(Column(f"{stage} ms", better=None) for stage in ("decode", "encode")),  # all share them
        *(Column(f"{stage} ms", better="low") for stage in ("match", "total")),
        Column("peak GB", better="low", digits=2),
    )
    notes = (
        "Published: GPU memory and time on an NVIDIA RTX 3090, batches of 8.",
        f"Measured: milliseconds per image, medians over {TIMED_IMAGES} images of"
        f" {categories[0].dataset}/{categories[0].name}; all methods score the same tokens, and the"
        " clock is read once the device has finished.",
        "Measured memory: tensors on the GPU (torch.cuda.max_memory_allocated). On a CPU it is not"
        " measured here; hyperfsad lab speed shows that of the process.",
    )
    return Table("Efficiency", columns, (*rows, *(row for _, row in measured)), notes)


def with_times(preset: str, table: Table, times: Sequence[RunTimes]) -> Table:
    """The table with the time of each row, as printed and as measured here.

    The two do not compete: the paper's times are those of its GPU.
    """
    known = {
        (row.shots, f"{row.variant} ({row.backbone})"): row.metrics["ms"]
        for row in published(preset)
        if "ms" in row.metrics
    }
    for run in times:
        for timing in run.timings:
            known[timing.shots, f"{timing.method} ({run.encoder})"] = Cell(timing.total)
    rows = []
    for row in table.rows:
        shots = re.match(r"\d+", row.group)
        cell = known.get((int(shots[0]), row.label)) if shots else None
        rows.append(replace(row, cells=(*row.cells, cell)))
    machines = ", ".join(dict.fromkeys(run.machine for run in times))
    batches = ", ".join(dict.fromkeys(str(t.batch) for run in times for t in run.timings))
    note = (
        "ms: an image from file to score. Published: NVIDIA RTX 3090, batches of 8. Measured:"
        f" {machines}, batches of {batches}; median of a few images."
    )
    columns = (*table.columns, Column("ms", better=None))
    return replace(table, columns=columns, rows=tuple(rows), notes=(*table.notes, note))
