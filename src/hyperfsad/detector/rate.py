"""Keeping up with a line: the highest resolution at which this machine inspects parts fast enough.

Rates are measured with the user's own pictures, not looked up. What a lower resolution costs in
accuracy was measured on 15 products with the encoder of the recipe `default`
(docs/measurements/speed.md).
"""

import statistics
import time
from collections.abc import Iterable
from itertools import cycle, islice
from typing import Any

from ..encoders import SUBSTITUTE
from ..errors import UsageError
from ..images.reading import Images, single_images
from ..messages import Notice, Notify, log
from .detector import HyperFSAD
from .settings import Settings

SIDES = (8, 7, 6, 5, 4)
"""Resolutions that are tried, in eighths of the usual one."""

SPARE = 1.25
"""How much faster than asked a machine must be: other work comes in between."""

FEW, TIMED = 4, 12
"""Good parts that a trial learns, and images that it times after a first one."""

LOSSES = {392: (0.0, 0.7), 336: (0.3, 3.1), 280: (1.0, 4.3), 224: (3.5, 7.4)}
"""Resolution: the mean loss of I-AUROC and balanced accuracy, in points."""


def resolution_for_rate(good: Images, rate: float, *, notify: Notify = log, **choices: Any) -> int:
    """The highest resolution at which `rate` images a second can be inspected here.

    `choices` are those of `HyperFSAD`; a `resolution` among them is the first that is tried. Where
    no resolution is low enough, the error says what this machine can do.
    """
    if not rate > 0:
        raise UsageError("line-rate-range", given=rate)
    few = list(islice(single_images(good), FEW))
    usual = Settings(**choices).encoding
    measured: dict[int, float] = {}
    for part in SIDES:
        side = usual.resolution * part // SIDES[0] // usual.patch * usual.patch
        measured[side] = images_per_second(Settings(**{**choices, "resolution": side}), few)
        if measured[side] >= SPARE * rate:
            notify(_chosen(side, rate, measured, usual.name == SUBSTITUTE))
            return side
    best = max(measured.values()) / SPARE
    raise UsageError("rate-too-high", given=rate, possible=best, resolution=min(measured))


def images_per_second(settings: Settings, few: list[Any]) -> float:
    """How many images a detector that has learnt them inspects, from files to verdicts."""
    detector = HyperFSAD.of(settings, lambda _: None)  # what it says is said by the one that stays
    images: Iterable[Any] = islice(cycle(few), TIMED + 1)
    results, times = detector.fit(few).predict_many(images), []
    next(results)
    start = time.perf_counter()
    for _ in results:
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
    return 1 / statistics.median(times)


def _chosen(side: int, rate: float, measured: dict[int, float], known: bool) -> Notice:
    facts = {"resolution": side, "rate": rate, "measured": measured[side]}
    usual, *_ = measured
    if side == usual:
        return Notice("rate-usual", **facts)
    loss, balanced = LOSSES.get(side, (None, None)) if known else (None, None)
    more = {"usual": usual, "usual_rate": measured[usual], "loss": loss, "balanced": balanced}
    return Notice("rate-lower", **facts, **more)
