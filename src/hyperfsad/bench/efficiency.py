"""Milliseconds per image and stage, and peak memory: our side of the paper's efficiency table."""

import statistics
import time
from collections.abc import Sequence

from ..detector.hyperfsad import HyperFSAD
from ..detector.recipes import PAPER_OFFLINE
from ..errors import UsageError
from ..images.loading import load_image
from ..messages import Notify, silent
from .datasets import Category
from .published import published
from .speed import peak_memory
from .tables import Cell, Column, Row, Table

IMAGES = 24
WARM_UP = 3


def efficiency_table(
    categories: Sequence[Category],
    encoders: Sequence[str],
    *,
    shots: Sequence[int],
    resolution: int | None = None,
    recipe: str = PAPER_OFFLINE,
    device: str = "auto",
    engine: str = "torch",
    notify: Notify = silent,
) -> Table:
    """Times images of the first category, one after the other, as `detect` meets them."""
    if not categories:
        raise UsageError("There is no category to time.")
    category = categories[0]
    rows = []
    for row in published("efficiency"):
        printed = (row.backbone, row.variant, *(None,) * 3, row.metrics["ms"], row.metrics["GB"])
        rows.append(Row(row.method, printed, "GPU, 1-shot", published=True))
    for encoder in encoders:
        for count in shots:
            detector = HyperFSAD(
                encoder,
                recipe=recipe,
                resolution=resolution,
                device=device,
                engine=engine,
                notify=notify,
            )
            detector.fit(category.normal[:count])
            stages = _timed(detector, [image.path for image in category.test])
            cells: list[Cell | str] = [encoder, str(detector.settings.resolution)]
            cells += [*(Cell(1000 * seconds) for seconds in stages), Cell(peak_memory() / 1e9)]
            ran = detector.encoder_
            group = f"{ran.device.type.upper()} with {ran.engine}, here"
            rows.append(Row(f"Hyper-FSAD, {count}-shot", tuple(cells), group, ours=True))
    columns = (
        *(Column(name, better=None) for name in ("encoder", "pixels")),
        *(Column(f"{stage} ms", better="low") for stage in ("decode", "encode", "match", "total")),
        Column("peak GB", better="low", digits=2),
    )
    notes = (
        "Published: GPU memory and time on an NVIDIA RTX 3090, batches of 8.",
        f"Measured: median of {IMAGES} images of {category.dataset}/{category.name}, one at a time;"
        " memory is that of the whole process so far.",
    )
    return Table("Efficiency", columns, tuple(rows), notes)


def _timed(detector: HyperFSAD, paths: Sequence[str]) -> list[float]:
    """Median seconds of decoding, encoding, matching and all three."""
    laps = []
    for place in range(IMAGES + WARM_UP):
        start = time.perf_counter()
        image = load_image(paths[place % len(paths)])
        decoded = time.perf_counter()
        tokens = detector.encoder_.encode([image])
        encoded = time.perf_counter()
        detector.score_tokens(tokens)
        done = time.perf_counter()
        laps.append((decoded - start, encoded - decoded, done - encoded, done - start))
    return [statistics.median(stage) for stage in zip(*laps[WARM_UP:], strict=True)]
