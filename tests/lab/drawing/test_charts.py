"""Charts: legible labels, honest sizes and error bars, and files that come out the same."""

import io
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox
from numpy.typing import NDArray
from PIL import Image

from hyperfsad.errors import UsageError
from hyperfsad.lab.drawing.canvas import VERMILION, save_figure
from hyperfsad.lab.drawing.charts import Point, ablation_curves, accuracy_efficiency, tsne_cls
from tests.codes import raises

PUBLISHED = [
    Point("RegAD", 64.87, 91.72, 1517.1),
    Point("FastRecon", 83.70, 96.02, 106.6),
    Point("WinCLIP", 81.80, 92.80, 8033.5),
    Point("APRIL-GAN", 83.98, 93.15, 204.6),
    Point("PromptAD", 86.67, 96.13, 80.1),
    Point("AnomalyGPT", 84.18, 92.37, 1653.2),
    Point("ReMP-AD", 88.02, 95.05, 118.8),
    Point("KAG-prompt", 82.97, 94.12, 100.6),
    Point("SubspaceAD", 87.20, 97.10, 86.9),
    Point("Hyper-FSAD*", 89.95, 97.00, 52.6, ours=True),
]
"""One shot: means over the six data sets of Table 1 and times of the efficiency table."""

CURVES: dict[str, list[tuple[float, float, float | None]]] = {
    "MVTec AD": [(1.0, 96.3, 0.2), (2.0, 96.8, 0.1), (4.0, 96.9, None)],
    "VisA": [(1.0, 94.0, None), (4.0, 94.8, None), (2.0, 94.8, None)],
}


def tokens(count: int = 12, layers: int = 3, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((count, layers, 8)).astype(np.float32)


def halves(count: int = 12) -> NDArray[np.bool_]:
    return np.arange(count) >= count // 2


def names_of(figure: Figure) -> dict[str, Bbox]:
    """The boxes of the names in the bubble chart, in pixels."""
    figure.draw_without_rendering()
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    return {text.get_text(): Text.get_window_extent(text) for text in texts}


def bubbles_of(figure: Figure) -> list[PathCollection]:
    return [c for c in figure.axes[0].collections if isinstance(c, PathCollection)]


@pytest.mark.parametrize("chart", ["bubbles", "curves", "t-SNE"])
def test_files_are_valid_and_the_same_every_time(chart: str, tmp_path: Path) -> None:
    contents = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        figure = {
            "bubbles": lambda: accuracy_efficiency(PUBLISHED),
            "curves": lambda: ablation_curves(CURVES, "shots", "AUROC (%)"),
            "t-SNE": lambda: tsne_cls({"tile": (tokens(), halves())}, [3, 6, 9]),
        }[chart]()
        paths = save_figure(figure, folder, "figure 1")
        assert [path.name for path in paths] == ["figure 1.png", "figure 1.pdf"]
        assert sorted(folder.iterdir()) == sorted(paths)
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]
    png, pdf = contents[0]
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.info["dpi"] == pytest.approx((200, 200), abs=0.1)
        assert "Software" not in picture.info
        assert np.asarray(picture.convert("L")).std() > 5
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert b"CreationDate" not in pdf


@pytest.mark.parametrize("dpi", [200, 72])
def test_the_published_names_cover_nothing(dpi: int) -> None:
    """PDF is laid out at 72 dots an inch, so names must not depend on those of the PNG."""
    figure = accuracy_efficiency(PUBLISHED)
    figure.set_dpi(dpi)
    names = names_of(figure)
    assert set(names) == {point.name for point in PUBLISHED}
    for a, b in itertools.combinations(names.values(), 2):
        assert not a.overlaps(b)
    axes = figure.axes[0]
    for bubble in bubbles_of(figure):
        x, y = axes.transData.transform(bubble.get_offsets())[0]
        radius = np.sqrt(bubble.get_sizes()[0]) / 2 * figure.dpi / 72
        for box in names.values():
            near_x, near_y = np.clip(x, box.x0, box.x1), np.clip(y, box.y0, box.y1)
            assert np.hypot(near_x - x, near_y - y) > radius
    for box in names.values():
        assert axes.bbox.x0 <= box.x0
        assert box.x1 <= axes.bbox.x1
        assert axes.bbox.y0 <= box.y0
        assert box.y1 <= axes.bbox.y1


def test_measured_points_are_rings_and_the_figure_says_so() -> None:
    here = [
        Point("nearest", 88, 97, 300.0, measured=True),
        Point("Ours", 88, 97, 400.0, True, True),
    ]
    figure = accuracy_efficiency([*PUBLISHED, *here], "1-shot on bottle; CPU with torch")
    (axes,) = figure.axes
    bubbles = bubbles_of(figure)
    assert len(bubbles) == len(PUBLISHED) + 2
    rings = [bubble for bubble in bubbles if not len(np.asarray(bubble.get_facecolor()))]
    assert len(rings) == 2
    assert bubbles[-1] is rings[-1]  # ours is hidden by none
    assert to_hex(np.asarray(rings[-1].get_edgecolor())[0]).upper() == VERMILION
    assert {"nearest, here", "Ours, here"} < set(names_of(figure))
    legend = axes.get_legend()
    assert legend is not None
    words = [text.get_text() for text in legend.get_texts()]
    assert words[0].startswith("published: ")
    assert words[1] == "measured here: 1-shot on bottle; CPU with torch"
    assert accuracy_efficiency(PUBLISHED).axes[0].get_legend() is None


def test_a_name_that_had_to_move_is_tied_to_its_bubble() -> None:
    crowd = [Point(f"a long name, {i}", 90 + 0.01 * i, 95, 100) for i in range(6)]
    crowd.append(Point("far away", 80, 90, 100))
    figure = accuracy_efficiency(crowd)
    names = names_of(figure)
    for a, b in itertools.combinations(names.values(), 2):
        assert not a.overlaps(b)
    lines = [text for text in figure.axes[0].texts if isinstance(text, Annotation)]
    assert any(text.arrow_patch is not None for text in lines)


def test_area_grows_with_the_log_of_time() -> None:
    times = [10, 100, 1000, 10_000]
    points = [Point(str(time), 80 + time / 1000, 90, time) for time in times]
    figure = accuracy_efficiency(points)
    bubbles = sorted(bubbles_of(figure), key=lambda b: float(np.asarray(b.get_offsets())[0, 0]))
    steps = np.diff([bubble.get_sizes()[0] for bubble in bubbles])
    assert (steps > 0).all()
    assert steps == pytest.approx(steps[0])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[1:] == ["10 ms", "300 ms", "10 s"]


def test_ours_stands_out_by_more_than_colour() -> None:
    figure = accuracy_efficiency(PUBLISHED)
    bold = [t.get_text() for t in figure.axes[0].texts if t.get_fontweight() == "bold"]
    assert bold == ["Hyper-FSAD*"]


def test_error_bars_are_the_deviations() -> None:
    figure = ablation_curves(CURVES, "shots", "AUROC (%)")
    axes = figure.axes[0]
    first, second = (c for c in axes.containers if isinstance(c, ErrorbarContainer))
    bars = [path.vertices for path in first.lines[2][0].get_paths()]
    spans = [np.ptp(np.asarray(bar)[:, 1]) for bar in bars[:2]]
    assert spans == pytest.approx([0.4, 0.2])
    assert not any(np.isfinite(bar).all() for bar in bars[2:])
    assert not second.has_yerr
    for line in axes.lines:
        assert (np.diff(np.asarray(line.get_xdata(), dtype=float)) >= 0).all()
    assert axes.get_xlabel() == "shots"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(CURVES)


def test_many_curves_are_told_apart_without_colour_alone() -> None:
    series = {f"curve {i}": [(0.0, float(i), None), (1.0, float(i), None)] for i in range(20)}
    lines = ablation_curves(series, "x", "y").axes[0].lines
    looks = {(to_hex(x.get_color()), str(x.get_marker()), x.get_linestyle()) for x in lines}
    assert len(looks) == 20
    assert len({look[1:] for look in looks}) > 10


@pytest.mark.parametrize("categories", [["bottle"], ["bottle", "tile"]])
def test_tsne_has_a_panel_for_each_layer_and_one_for_all(categories: list[str]) -> None:
    groups = {name: (tokens(seed=i), halves()) for i, name in enumerate(categories)}
    figure = tsne_cls(groups, [3, 6, 9])
    assert len(figure.axes) == 4 * len(categories)
    titles = [axes.get_title() for axes in figure.axes[:4]]
    assert titles == ["layer 3", "layer 6", "layer 9", "all layers"]
    assert [axes.get_ylabel() for axes in figure.axes[::4]] == categories
    for axes in figure.axes:
        normal, anomalous = axes.collections
        assert len(np.asarray(normal.get_offsets())) == 6
        assert len(np.asarray(anomalous.get_offsets())) == 6
        assert not np.array_equal(normal.get_facecolor(), anomalous.get_facecolor())
        shapes = [np.asarray(c.get_paths()[0].vertices) for c in (normal, anomalous)]
        assert shapes[0].shape != shapes[1].shape


def test_tsne_keeps_neighbours_together() -> None:
    cloud = 0.01 * tokens(layers=1) + np.where(halves(), 1, -1)[:, None, None]
    figure = tsne_cls({"tile": (cloud, halves())}, [12])
    for axes in figure.axes:
        normal, anomalous = (np.asarray(c.get_offsets()) for c in axes.collections)
        across = np.linalg.norm(normal[:, None] - anomalous[None], axis=2).min()
        within = np.linalg.norm(normal - normal.mean(axis=0), axis=1).max()
        assert across > within


def test_tsne_gives_every_layer_the_same_weight() -> None:
    cloud = tokens()
    scaled = cloud * np.array([1, 1024, 1 / 1024], dtype=np.float32)[:, None]
    panels = [tsne_cls({"x": (c, halves())}, [1, 2, 3]).axes[-1] for c in (cloud, scaled)]
    places = [np.asarray(axes.collections[0].get_offsets()) for axes in panels]
    assert (places[0] == places[1]).all()


@pytest.mark.parametrize(
    ("package", "shown"), [("matplotlib", "matplotlib"), ("sklearn", "scikit-learn")]
)
def test_a_missing_package_says_what_to_install(
    package: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with raises(UsageError, "lab-needs-package", package=shown):
        tsne_cls({"x": (tokens(), halves())}, [1, 2, 3])
