"""What all our HTML pages share: templates that escape, one style, a strict policy, histograms.

A page is one file that needs nothing else. What stands in it is other people's input, so templates
escape it, and a policy in the page's head lets nothing run or load but the page's own style and
script.
"""

import base64
import hashlib
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..disk.files import atomic_path, encoded
from ..wording import percent

if TYPE_CHECKING:
    from jinja2 import Environment

_BARS = 32
_LABEL_HEIGHT = 14


def environment(package: str) -> "Environment":
    """The templates of a package, in its folder `templates`, and those that all pages share."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    def readable(value: Any) -> Any:
        """Bytes of a file's name that are not Unicode cannot stand in a page."""
        is_text = type(value) is str
        return value.encode("utf-8", errors="replace").decode() if is_text else value

    found = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(__package__)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=readable,
    )
    found.filters["thousands"] = "{:,}".format
    found.filters["basename"] = os.path.basename
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return found


def head(package: str, style: str, script: str | None = None) -> dict[str, Any]:
    """What a template needs for its head: `policy`, `style` and `script`.

    `style` and `script` name files of the package; the style of all pages comes first.
    """
    from markupsafe import Markup

    styles = _asset(__package__, "base.css") + _asset(package, style)
    code = "" if script is None else _asset(package, script)
    return {
        "policy": Markup(_policy(styles, code)),
        "style": Markup(styles),  # unescaped, as the policy names the hash of these very bytes
        "script": Markup(code),
    }


def _asset(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing may load from elsewhere; only our own style and script may run."""
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    )
    return (
        f"default-src 'none'; img-src data: file: 'self'; style-src 'sha256-{style}';"
        f" script-src 'sha256-{script}'; base-uri 'none'; form-action 'none'"
    )


def write_page(path: Path, chunks: Iterable[str]) -> None:
    """Writes a text file chunk by chunk, completely or not at all; makes its folder."""
    with atomic_path(path, parents=True) as temporary, temporary.open("wb") as file:
        for chunk in chunks:
            file.write(encoded(chunk))


class Bar(NamedTuple):
    """The images of one range of values with the same verdict, or of the same kind."""

    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Histogram:
    """What the template draws, in the units of the SVG's view box."""

    bars: list[Bar]
    limit: float | None
    """Where the line of the limit stands; None for scores, which have none."""
    low: str
    high: str
    axis: str
    """What is counted."""
    description: str
    """For screen readers."""

    width, height = 420, 150
    left, right, bottom = 12, 408, 122

    @property
    def anchor(self) -> str:
        """Which end of its label stands at the limit, so that all of it can be seen."""
        at, quarter = self.limit or 0.0, self.width / 4
        return "start" if at < quarter else "end" if at > 3 * quarter else "middle"


def level_histogram(verdicts: Sequence[tuple[float, bool | None]]) -> Histogram:
    """Levels, each with whether its image is anomalous, whose bars are `above`; a line at 1."""
    return _histogram(verdicts, 1.0, "% of the limit", percent)


def score_histogram(verdicts: Sequence[tuple[float, bool | None]]) -> Histogram:
    """The same of scores, where there is no limit."""
    return _histogram(verdicts, None, "score", "{:.2f}".format)


def _histogram(
    verdicts: Sequence[tuple[float, bool | None]],
    limit: float | None,
    axis: str,
    words: Callable[[float], str],
) -> Histogram:
    values = [value for value, _ in verdicts]
    low, high = _range(values if limit is None else [*values, limit])

    def across(value: Any) -> Any:
        width = Histogram.right - Histogram.left
        return Histogram.left + (value - low) / (high - low) * width

    edges = _edges(low, high, limit)
    found = f"{len(values)} images, from {words(min(values))} to {words(max(values))}"
    return Histogram(
        _bars(verdicts, edges, across(edges)),
        None if limit is None else across(limit),
        words(low),
        words(high),
        axis,
        found if limit is None else f"{found} of the limit",
    )


def _bars(
    verdicts: Sequence[tuple[float, bool | None]],
    edges: NDArray[np.float64],
    places: NDArray[np.float64],
) -> list[Bar]:
    """Stacked, the good images below; `places` is where the edges are drawn."""
    values = np.array([value for value, _ in verdicts])
    index = np.clip(np.searchsorted(edges, values) - 1, 0, _BARS - 1)
    above = np.array([bool(anomalous) for _, anomalous in verdicts])
    counts = {
        kind: np.bincount(index[chosen], minlength=_BARS)
        for kind, chosen in (("below", ~above), ("above", above))
    }
    unit = (Histogram.bottom - 2 * _LABEL_HEIGHT) / np.bincount(index).max()
    bars = []
    for place, (x, to) in enumerate(pairwise(map(float, places))):
        y = float(Histogram.bottom)
        for kind, numbers in counts.items():
            if numbers[place]:
                height = max(float(numbers[place] * unit), 1.5)
                y -= height
                bars.append(Bar(kind, x + 0.5, y, to - x - 1, height))
    return bars


def _edges(low: float, high: float, limit: float | None) -> NDArray[np.float64]:
    """Where bars begin and end; none crosses the limit, so that each has one verdict."""
    middle = low if limit is None else limit
    count = round((middle - low) / (high - low) * _BARS)
    if not 0 < count < _BARS:
        return np.linspace(low, high, _BARS + 1)
    lower = np.linspace(low, middle, count, endpoint=False)
    return np.concatenate([lower, np.linspace(middle, high, _BARS - count + 1)])


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Round numbers below and above all values."""
    span = max(max(values) - min(values), 1e-3)
    unit = 10 ** math.floor(math.log10(span))
    step = next(unit * part for part in (0.1, 0.2, 0.5, 1.0, 2.0) if unit * part * 8 >= span)
    step = max(step, 0.01)
    low, high = math.floor(min(values) / step) * step, math.ceil(max(values) / step) * step
    return (low, high) if high > low else (low, low + step)
