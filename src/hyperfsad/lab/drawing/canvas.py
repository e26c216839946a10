"""What all figures of the lab share: our style, empty figures, and files with reproducible bytes.

matplotlib comes with the extra `bench` and is imported only when something is drawn.
"""

import contextlib
import io
import textwrap
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...disk.files import write_file
from ...errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 200
INK = "#333333"
# Okabe and Ito's colours, told apart by the colour-blind; without their yellow, too pale on white.
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
COLOURS = (VERMILION, BLUE, GREEN, "#CC79A7", "#000000", "#E69F00", "#56B4E9")
FONT_SIZE = 8
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": FONT_SIZE,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "axes.titlesize": 8,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.edgecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # TrueType: many publishers refuse matplotlib's usual Type 3
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Our style for all that is drawn inside; without matplotlib it says what to install."""
    try:
        import matplotlib
    except ImportError as error:
        raise UsageError("lab-needs-package", package="matplotlib") from error
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
        yield


def new_figure(width: float, height: float, **options: Any) -> "Figure":
    """An empty figure, measured in inches, that belongs to no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white", **options)
    FigureCanvasAgg(figure)
    return figure


def text_width(lines: Sequence[str], size: float | None = None) -> float:
    """The width in inches of the longest of some lines of text."""
    figure = new_figure(1, 1)
    texts = [figure.text(0, 0, line, size=size) for line in lines]
    return float(max(text.get_window_extent().width for text in texts) / DPI)


_FOOTNOTE: ContextVar[str] = ContextVar("footnote", default="")


@contextlib.contextmanager
def footnote(text: str) -> Iterator[None]:
    """A line under every figure that is saved inside, whoever draws it; none without text.

    A figure that is measured on a part of a data set says so itself: it is copied without its page.
    """
    token = _FOOTNOTE.set(text)
    try:
        yield
    finally:
        _FOOTNOTE.reset(token)


@style()
def save_figure(figure: "Figure", folder: Path, stem: str) -> list[Path]:
    """Writes `stem`.png and `stem`.pdf; the same figure gives the same bytes, whatever the date."""
    anonymous: dict[str, dict[str, None]] = {
        "png": {"Software": None},
        "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    }
    options: dict[str, Any] = {}
    if note := _FOOTNOTE.get():
        width = max(40, int(figure.get_figwidth() * 16))
        figure.text(0.5, -0.02, textwrap.fill(note, width), ha="center", va="top", color=INK)
        options = {"bbox_inches": "tight", "pad_inches": 0.08}
    paths = []
    for kind, metadata in anonymous.items():
        path = folder / f"{stem}.{kind}"
        content = io.BytesIO()
        figure.savefig(content, format=kind, dpi=DPI, metadata=metadata, **options)
        write_file(path, content.getbuffer(), parents=True)
        paths.append(path)
    return paths
