"""Charts of the benchmark: plain data in, a matplotlib figure out."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ...report.canvas import (
    BLUE,
    COLOURS,
    DPI,
    FONT_SIZE,
    GREEN,
    INK,
    VERMILION,
    missing_package,
    new_figure,
    style,
)
from ..speed import SpeedReport
from .labels import Disc, place_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_DASHES = ("-", "--", ":", "-.")
_PEN: dict[str, Any] = {
    "linewidth": 1.4,
    "markersize": 6,
    "markeredgecolor": "white",
    "markeredgewidth": 0.5,
}

_SMALLEST, _LARGEST = 64.0, 784.0  # areas of the bubbles of the fastest and the slowest method
_PERPLEXITY = 30.0
_FEWEST = 4  # fewer images have a perplexity below one
_GROUPS = (("normal", "o", BLUE), ("anomalous", "^", VERMILION))


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
    if not points:
        raise UsageError("There is no method to draw.")
    for point in points:
        if not (math.isfinite(point.milliseconds) and point.milliseconds > 0):
            raise UsageError(
                f"The time of {point.name} is {point.milliseconds} ms; bubbles need more than 0."
            )
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
        axes.scatter(
            point.i_auroc,
            point.p_auroc,
            s=area(point.milliseconds),
            **_bubble(point),
        )
    _bubble_legend(figure, points, area)
    if here:
        _kinds_legend(axes, points, measured_on)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # labels are placed on the layout as it is now
    _label_bubbles(axes, points, area)
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
    from matplotlib.lines import Line2D

    marks: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 9}
    words = "\n".join(textwrap.wrap(f"measured here: {measured_on}", 92))
    ring: dict[str, Any] = {
        "markerfacecolor": "none",
        "markeredgecolor": BLUE,
        "markeredgewidth": 2.0,
    }
    handles = [Line2D([], [], **marks, **ring, label=words)]
    if not all(point.measured for point in points):
        disc: dict[str, Any] = {"markerfacecolor": BLUE, "markeredgecolor": "white"}
        words = "published: 1-shot on all six data sets; NVIDIA RTX 3090"
        handles.insert(0, Line2D([], [], **marks, **disc, label=words))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(-0.06, -0.15), borderpad=0)


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
    shown = sorted({float(f"{time:.0e}") for time in (min(times), middle, max(times))})
    handles = [Line2D([], [], linestyle="", label="time per image,\narea on a log scale:")]
    for time in shown:
        circle = Line2D([], [], linestyle="", marker="o", markersize=math.sqrt(area(time)))
        label = f"{time:g} ms" if time < 1000 else f"{time / 1000:g} s"
        circle.set(markerfacecolor="none", markeredgecolor=INK, label=label)
        handles.append(circle)
    room = math.sqrt(_LARGEST) / FONT_SIZE  # legends measure in the size of their letters
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=len(handles),
        handlelength=room,
        borderpad=room / 2 - 0.5,
        columnspacing=0.8,
    )


def _label_bubbles(axes: "Axes", points: Sequence[Point], area: Callable[[float], float]) -> None:
    """Names beside the bubbles, and a thin leader where a name had to move away."""
    unit = 72 / DPI  # labels are laid out in points, which hold for PNG and PDF alike
    texts = [
        axes.annotate(
            f"{point.name}, here" if point.measured else point.name,
            (point.i_auroc, point.p_auroc),
            xytext=(0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            weight="bold" if point.ours else "normal",
            color=INK,
        )
        for point in points
    ]
    boxes = [text.get_window_extent() for text in texts]
    sizes = [(box.width * unit, box.height * unit) for box in boxes]
    centres = axes.transData.transform([(p.i_auroc, p.p_auroc) for p in points]) * unit
    discs = [
        Disc(float(x), float(y), math.sqrt(area(point.milliseconds)) / 2)
        for (x, y), point in zip(centres, points, strict=True)
    ]
    left, bottom, right, top = (float(side * unit) for side in axes.bbox.extents)
    labels = place_labels(discs, sizes, (left, bottom, right, top))
    for text, disc, label in zip(texts, discs, labels, strict=True):
        text.set_position((label.middle[0] - disc.x, label.middle[1] - disc.y))
        if label.leader:
            x, y = label.leader[0]
            leader = {"arrowstyle": "-", "color": "#777777", "linewidth": 0.6}
            axes.annotate(
                "",
                text.xy,
                xytext=(x - disc.x, y - disc.y),
                textcoords="offset points",
                arrowprops={**leader, "shrinkA": 0, "shrinkB": disc.radius},
            )


@style()
def ablation_curves(
    series: Mapping[str, Sequence[tuple[float, float, float | None]]], xlabel: str, ylabel: str
) -> "Figure":
    """A curve for each label through its (x, mean, deviation or None), with error bars."""
    series = {label: values for label, values in series.items() if values}
    if not series:
        raise UsageError("There is no value to draw.")
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
            capthick=0.9,
            elinewidth=0.9,
            **_PEN,
        )
    places = sorted({x for values in series.values() for x, _, _ in values})
    if len(places) <= 8:
        axes.set_xticks(places, [f"{x:g}" for x in places])
    figure.legend(loc="outside right center", handlelength=2.6, labelspacing=0.9)
    return figure


@style()
def cost_against_shots(report: SpeedReport) -> "Figure":
    """Milliseconds of matching, ours and others', and of the encoder over the number of normal
    images."""
    figure = new_figure(5.6, 3.0, layout="constrained")
    axes = figure.add_subplot(
        xlabel="normal images", ylabel="milliseconds an image", xscale="log", yscale="log"
    )
    axes.grid(True, axis="y")
    shots = [cost.shots for cost in report.costs]
    match = [cost.match for cost in report.costs]
    textbook = [(c.shots, c.textbook) for c in report.costs if c.textbook is not None]
    linear = [match[0] * count / shots[0] for count in shots]
    axes.plot(shots, linear, ":", color="#999999", label="proportional")
    axes.axhline(report.encode, color=BLUE, linestyle="--", label="encoder")
    if textbook:
        axes.plot(*zip(*textbook, strict=True), "s-", color=GREEN, label="textbook", **_PEN)
    for name in dict.fromkeys(peer.name for cost in report.costs for peer in cost.peers[1:]):
        own = [(c.shots, peer.match) for c in report.costs for peer in c.peers if peer.name == name]
        axes.plot(*zip(*own, strict=True), ".--", color="#777777", linewidth=0.8)
        axes.annotate(name, own[-1], xytext=(3, 3), textcoords="offset points", fontsize=6)
    axes.plot(shots, match, "o-", color=VERMILION, label="our matching", **_PEN)
    axes.set_xticks(shots, [str(count) for count in shots])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.minorticks_off()
    figure.legend(loc="outside right center")
    return figure


@style()
def tsne_cls(
    groups: Mapping[str, tuple[NDArray[Any], NDArray[np.bool_]]], layers: Sequence[int]
) -> "Figure":
    """CLS tokens (n, layers, D) of each category in the plane, by layer and all layers together."""
    if not groups:
        raise UsageError("There is no category to draw.")
    titles = [*(f"layer {layer}" for layer in layers), "all layers"]
    figure = new_figure(0.3 + 1.35 * len(titles), 0.55 + 1.35 * len(groups), layout="constrained")
    panels = figure.subplots(len(groups), len(titles), squeeze=False)
    for row, (category, (tokens, anomalous)) in zip(panels, groups.items(), strict=True):
        if tokens.ndim != 3 or tokens.shape[1] != len(layers) or len(anomalous) != len(tokens):
            raise UsageError(
                f"The CLS tokens of {category} have the shape {tokens.shape} with {len(anomalous)}"
                f" labels; they need (images, {len(layers)} layers, width) and a label for each"
                " image."
            )
        if len(tokens) < _FEWEST:
            raise UsageError(
                f"{category} has {len(tokens)} images; t-SNE needs {_FEWEST} at least."
            )
        # As in the method, every token has length one, so that no layer outweighs another.
        unit = tokens / np.maximum(np.linalg.norm(tokens, axis=2, keepdims=True), 1e-12)
        views = [*unit.transpose(1, 0, 2), unit.reshape(len(unit), -1)]
        row[0].set_ylabel(category)
        for axes, view in zip(row, views, strict=True):
            axes.set(xticks=[], yticks=[], box_aspect=1)
            axes.spines[:].set_visible(True)
            plane = _embed(view)
            for truth, (label, marker, colour) in enumerate(_GROUPS):
                x, y = plane[np.asarray(anomalous, dtype=bool) == truth].T
                look = {"marker": marker, "facecolor": colour, "label": label}
                axes.scatter(x, y, s=11, edgecolor="white", linewidth=0.3, **look)
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
        raise missing_package("scikit-learn") from error
    perplexity = min(_PERPLEXITY, (len(tokens) - 1) / 3)
    # On several threads the order of its sums, and with them the picture, would vary.
    with threadpool_limits(limits=1):
        plane = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(tokens)
    return np.asarray(plane, dtype=np.float32)
