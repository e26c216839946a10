"""Milliseconds per image and stage, and peak memory: our side of the paper's Table 5."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from ..detector.base import FewShotDetector
from ..detector.hyperfsad import HyperFSAD
from ..detector.recipes import PAPER_OFFLINE
from ..errors import UsageError
from ..messages import Notify, silent
from ..version import __version__
from .datasets import Category
from .meters import Meter, meter_of
from .peers import PEERS, SAME_TOKENS
from .published import published
from .tables import Cell, Column, Row, Table
from .timing import IMAGES, Method, Timing, kept_timings, time_methods

BATCHES = (1, 8)
"""As `detect` meets images on a CPU, and as the paper does."""

OURS = "Hyper-FSAD"


def efficiency_table(
    categories: Sequence[Category],
    encoders: Sequence[str],
    *,
    shots: Sequence[int],
    resolution: int | None = None,
    recipe: str = PAPER_OFFLINE,
    device: str = "auto",
    engine: str = "torch",
    kept: Path | None = None,
    fresh: bool = True,
    notify: Notify = silent,
) -> Table:
    """Times images of the first category; the peers score the same tokens on the same machine.

    Times that are in the folder `kept` are not measured again, so that the table stays the same.
    `fresh`: whether the process has done nothing else before; on a CPU its memory says nothing
    otherwise.
    """
    if not categories or not encoders:
        raise UsageError("There is no category or no encoder to time.")
    category = categories[0]
    rows = []
    for row in published("efficiency"):
        printed = (row.backbone, row.variant, *(None,) * 3, row.metrics["ms"], row.metrics["GB"])
        rows.append(Row(row.method, printed, "GPU, 1-shot, batch 8", published=True))
    measured: list[tuple[Timing, Row]] = []
    for name in encoders:
        ours = HyperFSAD(
            name,
            recipe=recipe,
            resolution=resolution,
            device=device,
            engine=engine,
            notify=notify,
        )
        meter = meter_of(ours.encoder_.device)
        for timing in _timings(ours, category, sorted(set(shots)), kept):
            group = f"{meter.name} with {ours.encoder_.engine}, {timing.shots}-shot, batch"
            group += f" {timing.batch}, here"
            pixels = str(ours.settings.resolution)
            own = timing.method == OURS
            told = meter.tells_apart or (own and fresh)
            peak = Cell(timing.peak_bytes / 1e9) if told else None
            cells = (name, pixels, *_stages(timing), peak)
            measured.append((timing, Row(timing.method, cells, group, ours=own)))
    measured.sort(key=lambda pair: (pair[0].shots, pair[0].batch))  # rows of a group together
    rows += [row for _, row in measured]
    columns = (
        *(Column(name, better=None) for name in ("encoder", "pixels")),
        *(Column(f"{stage} ms", better=None) for stage in ("decode", "encode")),  # all share them
        *(Column(f"{stage} ms", better="low") for stage in ("match", "total")),
        Column("peak GB", better="low", digits=2),
    )
    notes = (
        "Published: GPU memory and time on an NVIDIA RTX 3090, batches of 8.",
        f"Measured: milliseconds an image, medians over {IMAGES} images of"
        f" {category.dataset}/{category.name}; all methods score the same tokens, and a clock is"
        " read when the device has done its work.",
        _about_memory(meter, fresh),
    )
    return Table("Efficiency", columns, tuple(rows), notes)


def images_encoded(shots: Sequence[int]) -> int:
    """About how many images are encoded for the rows of one encoder."""
    each = sum(sum(BATCHES) + count for count in set(shots))
    return len((OURS, *SAME_TOKENS)) * each + len(BATCHES) * IMAGES


def _about_memory(meter: Meter, fresh: bool) -> str:
    if meter.tells_apart:
        return f"Measured memory: {meter.memory}."
    if fresh:
        told = "so it is told only of the method that ran first."
        return f"Measured memory: {meter.memory}, {told}"
    return (
        "Measured memory: not told, since the process did other work before; a run of benchmark"
        " --preset efficiency tells it."
    )


def _timings(
    ours: HyperFSAD, category: Category, shots: Sequence[int], kept: Path | None
) -> Sequence[Timing]:
    def measure() -> list[Timing]:
        paths = [image.path for image in category.test]
        methods = _methods(ours, category.normal, shots)
        return time_methods(methods, ours.encoder_, paths, BATCHES)

    if kept is None:
        return measure()
    encoder = ours.encoder_
    identity = [__version__, encoder.fingerprint, encoder.engine, str(encoder.device)]
    identity += [json.dumps(asdict(ours.settings)), f"{category.dataset}/{category.name}"]
    identity += [json.dumps([list(shots), BATCHES, IMAGES, SAME_TOKENS])]
    name = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]
    machine = meter_of(encoder.device).name
    return kept_timings(kept / f"times-{name}.json", identity, machine, measure)[1]


def _methods(
    ours: HyperFSAD, normal: Sequence[str], shots: Sequence[int]
) -> dict[Method, Callable[[], FewShotDetector]]:
    """Ours, then the peers, each with so many normal images."""
    methods: dict[Method, Callable[[], FewShotDetector]] = {}
    for count in shots:
        known = list(normal[:count])
        methods[OURS, count] = partial(ours.unfitted().fit, known, threshold=False)
    for name in SAME_TOKENS:
        for count in shots:
            methods[name, count] = partial(_peer, name, ours, list(normal[:count]))
    return methods


def _peer(name: str, ours: HyperFSAD, normal: list[str]) -> FewShotDetector:
    """A peer on the encoder and the layers of our detector."""
    detector = PEERS[name](
        ours.settings.name,
        layers=ours.settings.layers,
        resolution=ours.settings.resolution,
        last_norm=ours.settings.last_norm,
    )
    detector.use_encoder(ours.encoder_)
    return detector.fit(normal)


def _stages(timing: Timing) -> tuple[Cell, Cell, Cell, Cell]:
    return Cell(timing.decode), Cell(timing.encode), Cell(timing.match), Cell(timing.total)
