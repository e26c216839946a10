"""The figures of a finished run, from its records, its stored maps and the cached tokens."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...images.loading import load_image
from ...quality.test_set import TestImage, load_mask
from ...report.canvas import save_figure
from ..datasets import Category
from ..naming import encoder_label
from ..presets import OURS, PRESETS
from ..protocol import Protocol, Record, read_maps, summarise
from ..published import published, six_set_average
from ..timing import RunTimes, time_variants
from ..token_cache import TokenCache
from .figures import Point, ablation_curves, accuracy_efficiency, tsne_cls
from .galleries import GalleryRow, qualitative_grid, truth_over_map

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MASK_SIZE = 256
TSNE_CATEGORIES = 8
"""As many as the paper's figure shows."""
TSNE_IMAGES = 400
"""Of a category; more cost minutes and hide each other."""
TILES = 60
METHODS = ("main", "peers")
"""The presets whose rows are methods, which stand beside the published ones in Figure 1."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Drawn:
    """Which figures a run draws, and how many images the galleries show (None: all)."""

    qualitative: bool = True
    truth_over_map: bool = True
    tsne: bool = True
    accuracy_efficiency: bool = True
    rows: int | None = None
    """Of the qualitative figure."""
    tiles: int | None = None
    """Of all pages of maps under the truth together."""


def draw_figures(
    preset: str,
    categories: Sequence[Category],
    protocol: Protocol,
    cache: TokenCache,
    work: Path,
    out: Path,
    records: Sequence[Record],
    drawn: Drawn,
) -> list[Path]:
    """Writes every figure that is asked for and that the run has the data for, as PNG and PDF."""
    methods = [variant.label for variant in protocol.variants]
    paths: list[Path] = []
    if drawn.qualitative:
        rows = _gallery(categories, work, methods, _kinds, drawn.rows)
        paths += save_figure(qualitative_grid(rows, methods), out, f"{preset}-qualitative")
    if drawn.truth_over_map:
        ours = next((v.label for v in protocol.variants if v.peer is None), methods[0])
        rows = _gallery(categories, work, methods, _defects, drawn.tiles)
        for page, start in enumerate(range(0, len(rows), TILES), start=1):
            figure = truth_over_map(rows[start : start + TILES], ours)
            paths += save_figure(figure, out, f"{preset}-truth-over-map-{page}")
    if drawn.tsne:
        paths += save_figure(_tsne(categories, cache), out, "tsne-cls")
    if drawn.accuracy_efficiency:
        paths += _bubbles(preset, categories, protocol, cache, work, out, records)
    return paths


def _bubbles(
    preset: str,
    categories: Sequence[Category],
    protocol: Protocol,
    cache: TokenCache,
    work: Path,
    out: Path,
    records: Sequence[Record],
) -> list[Path]:
    points, note = published_points(), ""
    if preset in METHODS:
        fewest = min(protocol.shots)
        file = work / "times-figure.json"
        times = time_variants(protocol.variants, [fewest], categories[0], cache, file)
        points += measured_points([r for r in records if r.shots == fewest], times)
        note = measured_words(categories, fewest, protocol.runs, times)
    return save_figure(accuracy_efficiency(points, note), out, "accuracy-efficiency")


def draw_curves(preset: str, records: Sequence[Record], out: Path) -> list[Path]:
    """The curves of an ablation over numbers, one figure for each encoder and metric."""
    axis = {"lambda": "λ", "resolution": "input resolution (pixels)"}.get(preset)
    paths: list[Path] = []
    if axis is None:
        return paths
    encoders = list(dict.fromkeys(record.encoder for record in records))
    for encoder in encoders:
        mine = [record for record in records if record.encoder == encoder]
        for metric in PRESETS[preset].tables[0]:  # the others do not depend on it
            if series := _series(mine, metric):
                figure = ablation_curves(series, axis, f"{metric} (%)")
                stem = f"{preset}-{encoder_label(encoder, encoders)}-{metric.lower()}"
                paths += save_figure(figure, out, stem)
    return paths


def published_points() -> list[Point]:
    """The methods of the paper's Figure 1: one-shot averages, and the times of its Table 5."""
    points = []
    for timed in published("efficiency"):
        rows = published("main", method=timed.method, shots=1)
        average = six_set_average([r for r in rows if r.backbone in (None, timed.backbone)])
        image, pixel = average.get("I-AUROC"), average.get("P-AUROC")
        if image is not None and pixel is not None:
            ours = timed.method == OURS
            points.append(Point(timed.method, image, pixel, timed.metrics["ms"].mean, ours))
    return points


def measured_points(records: Sequence[Record], times: RunTimes) -> list[Point]:
    """The methods of a run: averages over its data sets, and times on this machine.

    A method without pixel metrics, for lack of masks, has no place in the figure.
    """
    points = []
    for timing in times.timings:
        mine = [record for record in records if record.method == timing.method]
        image, pixel = (_over_sets(mine, metric) for metric in ("I-AUROC", "P-AUROC"))
        if image is not None and pixel is not None:
            ours = timing.method.startswith(OURS)
            points.append(Point(timing.method, image, pixel, timing.total, ours, measured=True))
    return points


def measured_words(categories: Sequence[Category], shots: int, runs: int, times: RunTimes) -> str:
    """What the measured points are of, for the figure."""
    sets: dict[str, list[str]] = {}
    for category in categories:
        sets.setdefault(category.dataset, []).append(category.name)
    of = "; ".join(
        f"{name} ({', '.join(own) if len(own) < 4 else f'{len(own)} categories'})"
        for name, own in sets.items()
    )
    encoder = f"{os.path.basename(times.encoder)}, {times.resolution} px"
    draws = "1 draw" if runs == 1 else f"{runs} draws"
    return f"{shots}-shot, {draws}, on {of}; {encoder}; {times.machine}"


def _over_sets(records: Sequence[Record], metric: str) -> float | None:
    """The mean over the data sets that have the metric."""
    sets: dict[str, list[Record]] = {}
    for record in records:
        sets.setdefault(record.dataset, []).append(record)
    found = [figure.mean for own in sets.values() if (figure := summarise(own, metric))]
    return sum(found) / len(found) if found else None


def _gallery(
    categories: Sequence[Category],
    work: Path,
    methods: Sequence[str],
    choose: Callable[[Category], list[int]],
    most: int | None,
) -> list[GalleryRow]:
    """Rows of the first run at the fewest shots; pictures are read once they are chosen."""
    places = [(category, place) for category in categories for place in choose(category)]
    chosen: dict[int, list[int]] = {}
    index = {id(category): number for number, category in enumerate(categories)}
    for category, place in places if most is None else spread(places, most):
        chosen.setdefault(index[id(category)], []).append(place)
    rows = []
    for number, own in chosen.items():
        category = categories[number]
        maps = read_maps(category, work)[:, 0]
        for place in own:
            drawn = {method: maps[row, place] for row, method in enumerate(methods)}
            rows.append(_row(category, category.test[place], drawn))
    return rows


def _row(category: Category, image: TestImage, maps: dict[str, NDArray[np.float32]]) -> GalleryRow:
    picture, label = load_image(image.path).rgb(), f"{category.name}\n{image.defect}"
    mask = load_mask(image, MASK_SIZE) if image.mask else None
    return GalleryRow(label, picture, mask, maps)


def _kinds(category: Category) -> list[int]:
    """The first image of each kind of defect, good ones included."""
    first: dict[str, int] = {}
    for place, image in enumerate(category.test):
        first.setdefault(image.defect, place)
    return list(first.values())


def _defects(category: Category) -> list[int]:
    return [place for place, image in enumerate(category.test) if image.anomalous]


def spread(items: Sequence[_T], most: int) -> list[_T]:
    """At most so many of the items, in order and at even distances."""
    if len(items) <= most:
        return list(items)
    return [items[place * len(items) // most] for place in range(most)]


def _tsne(categories: Sequence[Category], cache: TokenCache) -> "Figure":
    groups = {}
    for category in categories[:TSNE_CATEGORIES]:
        step = max(1, len(category.test) // TSNE_IMAGES)
        images = category.test[::step]
        tokens = np.stack([cache.tokens(image.path).cls.cpu().numpy() for image in images])
        groups[category.name] = (tokens, np.array([image.anomalous for image in images]))
    return tsne_cls(groups, cache.settings.layers)


def _series(
    records: Sequence[Record], metric: str
) -> dict[str, list[tuple[float, float, float | None]]]:
    """For each number of shots the curve over the numbers that name the variants."""
    chosen: dict[tuple[int, str], list[Record]] = {}
    for record in records:
        chosen.setdefault((record.shots, record.method), []).append(record)
    series: dict[str, list[tuple[float, float, float | None]]] = {}
    for (shots, method), found in sorted(chosen.items()):
        figure = summarise(found, metric)
        if figure:
            point = (float(method), figure.mean, figure.std)
            series.setdefault(f"{shots}-shot", []).append(point)
    return series
