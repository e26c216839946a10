"""Charts of the benchmark: plain data in, a matplotlib figure out."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from .canvas import (
    BLUE,
    COLOURS,
    DPI,
    FONT_SIZE,
    INK,
    VERMILION,
    new_figure,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TSNE_LEAST = 4
"""Fewer images have a perplexity below one."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_DASHES = ("-", "--", ":", "-.")
_PEN = {"linewidth": 1.4, "markersize": 6, "markeredgecolor": "white", "markeredgewidth": 0.5}
_SMALLEST, _LARGEST = 64.0, 784.0  # areas of the bubbles of the fastest and the slowest method

# Where a name may stand around its bubble: the right reads best. Gaps are in points.
_ANGLES = (0, 180, 90, 270, 45, 135, 315, 225, 22, 338, 158, 202, 67, 113, 247, 293)
_GAPS = (2, 6, 12, 20, 30, 42, 56, 72)


@dataclass(frozen=True)
class Point:
    """One method in the chart of accuracy against time."""

    name: str
    i_auroc: float
    """Mean over the data sets, in percent."""
    p_auroc: float
    milliseconds: float
    """Per image."""
    ours: bool = False
    measured: bool = False
    """Whether it was measured here; otherwise it is published."""


@style()
def accuracy_efficiency(points: Sequence[Point], measured_on: str = "") -> "Figure":
    """Figure 1 of the paper: image against pixel AUROC, bubbles that grow with the log of time.

    Published points are discs and measured ones rings; `measured_on` says what the latter are of.
    """
    here = any(point.measured for point in points)
    figure = new_figure(6.4, 4.7 if here else 4.2, layout="constrained")
    axes = figure.add_subplot(
        xlabel="mean image-level AUROC (%)", ylabel="mean pixel-level AUROC (%)"
    )
    axes.grid(True)
    axes.margins(0.09, 0.11)
    area = _bubble_area([point.milliseconds for point in points])
    # The large ones first, so that none hides a smaller one; what is measured of ours last of all.
    for point in sorted(points, key=lambda p: (p.ours and p.measured, -p.milliseconds)):
        place = point.i_auroc, point.p_auroc
        axes.scatter(*place, s=area(point.milliseconds), **_bubble(point))
    _bubble_legend(figure, points, area)
    if here:
        _kinds_legend(axes, points, measured_on)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # names are placed on the layout as it is now
    _name_bubbles(axes, points, area)
    return figure


def _bubble(point: Point) -> dict[str, Any]:
    """A disc, or a ring for what was measured here; ours stands out."""
    colour = VERMILION if point.ours else BLUE
    if point.measured:
        return {"facecolor": "none", "edgecolor": colour, "linewidth": 2.0}
    edge, line = (INK, 1.4) if point.ours else ("white", 0.6)
    return {"facecolor": colour, "edgecolor": edge, "linewidth": line}


def _kinds_legend(axes: "Axes", points: Sequence[Point], measured_on: str) -> None:
    """Says below the chart which points are published and which were measured here, and on what."""
    words = {True: "\n".join(textwrap.wrap(f"measured here: {measured_on}", 92))}
    if not all(point.measured for point in points):
        words[False] = "published: 1-shot on all six data sets; NVIDIA RTX 3090"
    handles = [
        axes.scatter([], [], s=81, label=words[kind], **_bubble(Point("", 0, 0, 1, measured=kind)))
        for kind in sorted(words)
    ]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(-0.06, -0.15), borderpad=0)
    for handle in handles:
        handle.remove()


def _bubble_area(times: Sequence[float]) -> Callable[[float], float]:
    """Area in square points, linear in the log of the time."""
    low, high = math.log(min(times)), math.log(max(times))

    def area(milliseconds: float) -> float:
        share = (math.log(milliseconds) - low) / (high - low) if high > low else 0.0
        return _SMALLEST + min(max(share, 0.0), 1.0) * (_LARGEST - _SMALLEST)

    return area


def _bubble_legend(
    figure: "Figure", points: Sequence[Point], area: Callable[[float], float]
) -> None:
    from matplotlib.lines import Line2D

    times = [point.milliseconds for point in points]
    middle = math.sqrt(min(times) * max(times))
    handles = [Line2D([], [], linestyle="", label="time per image,\narea on a log scale:")]
    for time in sorted({float(f"{time:.0e}") for time in (min(times), middle, max(times))}):
        circle = Line2D([], [], linestyle="", marker="o", markersize=math.sqrt(area(time)))
        label = f"{time:g} ms" if time < 1000 else f"{time / 1000:g} s"
        circle.set(markerfacecolor="none", markeredgecolor=INK, label=label)
        handles.append(circle)
    space = math.sqrt(_LARGEST) / FONT_SIZE  # legends measure in the size of their letters
    place: dict[str, Any] = {"loc": "outside upper center", "ncols": len(handles)}
    place |= {"handlelength": space, "borderpad": space / 2 - 0.5, "columnspacing": 0.8}
    figure.legend(handles=handles, **place)


def _name_bubbles(axes: "Axes", points: Sequence[Point], area: Callable[[float], float]) -> None:
    """Names beside the bubbles, the most crowded first: each takes the nearest free place.

    A thin line leads from a name that had to move away to its bubble.
    """
    from matplotlib.transforms import Bbox

    unit = 72 / DPI  # names are laid out in points, which hold for PNG and PDF alike
    centres = axes.transData.transform([(p.i_auroc, p.p_auroc) for p in points]) * unit
    radii = [math.sqrt(area(point.milliseconds)) / 2 for point in points]
    covered = [Bbox([c - r, c + r]) for c, r in zip(centres, radii, strict=True)]
    left, bottom, right, top = (side * unit for side in axes.bbox.extents)
    distances = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    for index in np.argsort(-np.exp(-distances / 50).sum(axis=1), kind="stable"):
        point = points[index]
        options: dict[str, Any] = {"textcoords": "offset points", "color": INK}
        options |= {"weight": "bold" if point.ours else "normal", "ha": "center", "va": "center"}
        name = f"{point.name}, here" if point.measured else point.name
        text = axes.annotate(name, (point.i_auroc, point.p_auroc), xytext=(0, 0), **options)
        extent = text.get_window_extent()
        half = np.array([extent.width, extent.height]) * unit / 2 + 1
        best = (math.inf, 0.0, 0.0, 0)
        for gap, angle in ((gap, angle) for gap in _GAPS for angle in _ANGLES):
            way = np.array([math.cos(math.radians(angle)), math.sin(math.radians(angle))])
            offset = (radii[index] + gap) * way + half * np.clip(2 * way, -1, 1)
            box = Bbox([centres[index] + offset - half, centres[index] + offset + half])
            outside = box.x0 < left or box.y0 < bottom or box.x1 > right or box.y1 > top
            harm = 100 * outside + sum(box.overlaps(other) for other in covered)
            if harm < best[0]:
                best = (harm, *offset, gap)
            if harm == 0:
                break
        _, dx, dy, gap = best
        middle = centres[index] + (dx, dy)
        covered.append(Bbox([middle - half, middle + half]))
        if gap > _GAPS[0]:
            text.remove()
            line = {"arrowstyle": "-", "color": "#777777", "linewidth": 0.6, "shrinkA": 0}
            options["arrowprops"] = {**line, "shrinkB": radii[index]}
            place = point.i_auroc, point.p_auroc
            text = axes.annotate(name, place, xytext=(dx, dy), **options)
        text.set_position((dx, dy))


@style()
def ablation_curves(
    series: Mapping[str, Sequence[tuple[float, float, float | None]]], xlabel: str, ylabel: str
) -> "Figure":
    """A curve for each label through its (x, mean, deviation or None), with error bars."""
    longest = max(len(label) for label in series)
    figure = new_figure(4.6 + 0.07 * longest, 3.0, layout="constrained")
    axes = figure.add_subplot(xlabel=xlabel, ylabel=ylabel)
    axes.grid(True, axis="y")
    for index, (label, values) in enumerate(series.items()):
        x, mean, deviation = np.array(sorted(values, key=lambda v: v[0]), dtype=float).T
        axes.errorbar(
            x,
            mean,
            None if np.isnan(deviation).all() else deviation,
            label=label,
            color=COLOURS[index % len(COLOURS)],
            marker=_MARKERS[index % len(_MARKERS)],
            linestyle=_DASHES[index // len(COLOURS) % len(_DASHES)],
            capsize=2.5,
            **_PEN,  # type: ignore[arg-type]
        )
    places = sorted({x for values in series.values() for x, _, _ in values})
    if len(places) <= 8:
        axes.set_xticks(places, [f"{x:g}" for x in places])
    figure.legend(loc="outside right center", handlelength=2.6, labelspacing=0.9)
    return figure


@style()
def tsne_cls(
    groups: Mapping[str, tuple[NDArray[Any], NDArray[np.bool_]]], layers: Sequence[int]
) -> "Figure":
    """CLS tokens (n, layers, D) of each category in the plane, by layer and all layers together."""
    titles = [*(f"layer {layer}" for layer in layers), "all layers"]
    figure = new_figure(0.3 + 1.35 * len(titles), 0.55 + 1.35 * len(groups), layout="constrained")
    panels = figure.subplots(len(groups), len(titles), squeeze=False)
    kinds = (("normal", "o", BLUE), ("anomalous", "^", VERMILION))
    for row, (category, (tokens, anomalous)) in zip(panels, groups.items(), strict=True):
        # As in the method, every token has length one, so that no layer outweighs another.
        unit = tokens / np.maximum(np.linalg.norm(tokens, axis=2, keepdims=True), 1e-12)
        views = [*unit.transpose(1, 0, 2), unit.reshape(len(unit), -1)]
        row[0].set_ylabel(category)
        for axes, view in zip(row, views, strict=True):
            axes.set(xticks=[], yticks=[], box_aspect=1)
            axes.spines[:].set_visible(True)
            plane = _embed(view)
            for truth, (label, marker, colour) in enumerate(kinds):
                x, y = plane[np.asarray(anomalous, dtype=bool) == truth].T
                shape = {"marker": marker, "facecolor": colour, "label": label}
                axes.scatter(x, y, s=11, edgecolor="white", linewidth=0.3, **shape)
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(title)
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=2, markerscale=1.5)
    return figure


def _embed(tokens: NDArray[Any]) -> NDArray[np.float32]:
    """t-SNE (van der Maaten and Hinton, 2008) into the plane, the same every time."""
    try:
        from sklearn.manifold import TSNE
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise UsageError("lab-needs-package", package="scikit-learn") from error
    perplexity = min(30.0, (len(tokens) - 1) / 3)
    # On several threads the order of its sums, and with them the picture, would vary.
    with threadpool_limits(limits=1):
        plane = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(tokens)
    return np.asarray(plane, dtype=np.float32)
