"""The figures of a finished run, from its records, its stored maps and the cached tokens."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from ...arrays import to_numpy
from ...images.loading import load_image
from ...quality.test_set import load_mask
from ..datasets import Category
from ..presets import OURS, PRESETS
from ..protocol import CategoryRun
from ..published import published, six_set_mean
from ..records import Record, encoder_name, short_name, summarise
from ..supports import SupportSets
from ..timing import RunTimes, time_variants
from .canvas import save_figure
from .charts import TSNE_LEAST, Point, ablation_curves, accuracy_efficiency, tsne_cls
from .galleries import GalleryRow, qualitative_grid, truth_over_map

QUALITATIVE, TRUTH_OVER_MAP = "qualitative", "truth-over-map"
TSNE, ACCURACY_EFFICIENCY = "tsne-cls", "accuracy-efficiency"
ALL_FIGURES: Mapping[str, int | None] = dict.fromkeys(
    (QUALITATIVE, TRUTH_OVER_MAP, TSNE, ACCURACY_EFFICIENCY)
)
"""What a run draws, and how many images a gallery shows at most (None: all)."""

MASK_SIZE = 256
TSNE_CATEGORIES = 8
"""As many as the paper's figure shows."""
TSNE_IMAGES = 400
"""Of a category; more cost minutes and hide each other."""
TILES_PER_PAGE = 60
METHOD_PRESETS = ("main", "peers")
"""The presets whose rows are methods, which stand beside the published ones in Figure 1."""

_T = TypeVar("_T")


def draw_figures(
    preset: str,
    evaluations: Sequence[CategoryRun],
    sets: SupportSets,
    out: Path,
    records: Sequence[Record],
    figures: Mapping[str, int | None],
) -> list[Path]:
    """Writes every figure that is asked for and that the run has the data for, as PNG and PDF."""
    variants, cache = evaluations[0].variants, evaluations[0].cache
    methods = [variant.label for variant in variants]
    paths: list[Path] = []
    if QUALITATIVE in figures:
        rows = _gallery(evaluations, _first_of_each_kind, figures[QUALITATIVE])
        paths += save_figure(qualitative_grid(rows, methods), out, f"{preset}-qualitative")
    if TRUTH_OVER_MAP in figures:
        ours = next((v.label for v in variants if v.peer is None), methods[0])
        rows = _gallery(evaluations, _defects, figures[TRUTH_OVER_MAP])
        for page, start in enumerate(range(0, len(rows), TILES_PER_PAGE), start=1):
            figure = truth_over_map(rows[start : start + TILES_PER_PAGE], ours)
            paths += save_figure(figure, out, f"{preset}-truth-over-map-{page}")
    if TSNE in figures:
        groups = {}
        for category in [each.category for each in evaluations[:TSNE_CATEGORIES]]:
            images = category.test[:: max(1, len(category.test) // TSNE_IMAGES)]
            if len(images) >= TSNE_LEAST:
                tokens = np.stack([to_numpy(cache.tokens(image.path).cls) for image in images])
                groups[category.name] = (tokens, np.array([image.anomalous for image in images]))
        if groups:
            paths += save_figure(tsne_cls(groups, cache.settings.layers), out, TSNE)
    if ACCURACY_EFFICIENCY in figures:
        points, note = published_points(), ""
        if preset in METHOD_PRESETS:
            shots, first = min(sets.shots), evaluations[0]
            file = first.work / "times-figure.json"
            known = variants, [shots], first.category, cache.encoder
            timed = time_variants(*known, file=file, load=cache.load_alone)
            points += measured_points([r for r in records if r.shots == shots], timed)
            note = _measured_on([e.category for e in evaluations], shots, len(sets.runs), timed)
        paths += save_figure(accuracy_efficiency(points, note), out, ACCURACY_EFFICIENCY)
    return paths


def draw_curves(preset: str, records: Sequence[Record], out: Path) -> list[Path]:
    """The curves of an ablation over numbers, one figure for each encoder and metric."""
    axis = {"lambda": "λ", "resolution": "input resolution (pixels)"}.get(preset)
    if axis is None:
        return []
    paths: list[Path] = []
    encoders = list(dict.fromkeys(record.encoder for record in records))
    for encoder in encoders:
        mine: dict[tuple[int, str], list[Record]] = {}
        for record in records:
            if record.encoder == encoder:
                mine.setdefault((record.shots, record.method), []).append(record)
        for metric in PRESETS[preset].tables[0]:  # the others do not depend on it
            series: dict[str, list[tuple[float, float, float | None]]] = {}
            for (shots, method), found in sorted(mine.items()):
                if cell := summarise(found, metric):
                    point = float(method), cell.mean, cell.std
                    series.setdefault(f"{shots}-shot", []).append(point)
            if series:
                figure = ablation_curves(series, axis, f"{metric} (%)")
                stem = f"{preset}-{encoder_name(encoder, encoders)}-{metric.lower()}"
                paths += save_figure(figure, out, stem)
    return paths


def published_points() -> list[Point]:
    """The methods of the paper's Figure 1: one-shot averages, and the times of its Table 5."""
    points = []
    for timed in published("efficiency"):
        rows = published("main", method=timed.method, shots=1)
        rows = [row for row in rows if row.backbone in (None, timed.backbone)]
        image, pixel = (six_set_mean(rows, metric) for metric in ("I-AUROC", "P-AUROC"))
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
        sets: dict[str, list[Record]] = {}
        for record in records:
            if record.method == timing.method:
                sets.setdefault(record.dataset, []).append(record)
        image, pixel = (
            [cell.mean for own in sets.values() if (cell := summarise(own, metric))]
            for metric in ("I-AUROC", "P-AUROC")
        )
        if image and pixel:  # means over the data sets that have the metric
            means = sum(image) / len(image), sum(pixel) / len(pixel)
            ours = timing.method.startswith(OURS)
            points.append(Point(timing.method, *means, timing.total, ours, measured=True))
    return points


def _measured_on(categories: Sequence[Category], shots: int, runs: int, times: RunTimes) -> str:
    """What the measured points are of, for the figure."""
    sets: dict[str, list[str]] = {}
    for category in categories:
        sets.setdefault(category.dataset, []).append(category.name)
    of = "; ".join(
        f"{name} ({', '.join(own) if len(own) < 4 else f'{len(own)} categories'})"
        for name, own in sets.items()
    )
    encoder = f"{short_name(times.encoder)}, {times.resolution} px"
    supports = "1 run" if runs == 1 else f"{runs} runs"
    return f"{shots}-shot, {supports}, on {of}; {encoder}; {times.machine}"


def _gallery(
    evaluations: Sequence[CategoryRun], choose: Callable[[Category], list[int]], limit: int | None
) -> list[GalleryRow]:
    """Rows of the first run at the fewest shots; pictures are read once they are chosen."""
    places = [(n, place) for n, e in enumerate(evaluations) for place in choose(e.category)]
    chosen: dict[int, list[int]] = {}
    for number, place in places if limit is None else evenly(places, limit):
        chosen.setdefault(number, []).append(place)
    rows = []
    for number, own in chosen.items():
        category, maps = evaluations[number].category, evaluations[number].maps()[:, 0]
        for place in own:
            image = category.test[place]
            of = {v.label: maps[r, place] for r, v in enumerate(evaluations[number].variants)}
            mask = load_mask(image, MASK_SIZE) if image.mask else None
            label = f"{category.name}\n{image.defect}"
            rows.append(GalleryRow(label, load_image(image.path).rgb(), mask, of))
    return rows


def _first_of_each_kind(category: Category) -> list[int]:
    """The first image of each kind of defect, good ones included."""
    first: dict[str, int] = {}
    for place, image in enumerate(category.test):
        first.setdefault(image.defect, place)
    return list(first.values())


def _defects(category: Category) -> list[int]:
    return [place for place, image in enumerate(category.test) if image.anomalous]


def evenly(items: Sequence[_T], limit: int) -> list[_T]:
    """At most `limit` of the items, in order and at even distances."""
    if len(items) <= limit:
        return list(items)
    return [items[place * len(items) // limit] for place in range(limit)]
