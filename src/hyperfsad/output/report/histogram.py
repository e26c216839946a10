"""The scores of a run as a small picture: how many images have which score, and the threshold."""

import html
import math
from collections.abc import Mapping, Sequence

_BARS = 32
_WIDTH, _HEIGHT = 420, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 12, 408, 28, 122
_LABEL = 14
"""Height of a label; those of several thresholds stand above one another."""
MOST_LINES = 4
"""Thresholds of more products would hide the bars."""
_LONGEST = 24


def histogram_svg(scores: Sequence[float], threshold: float | None) -> str:
    """An SVG whose colours come from the page; scores above the threshold are set apart."""
    parted = [(score, threshold is not None and score > threshold) for score in scores]
    return _svg(parted, [] if threshold is None else [("threshold", threshold)])


def products_svg(
    scores: Sequence[tuple[float, bool | None]], thresholds: Mapping[str, float | None]
) -> str:
    """Scores with their verdicts, of several products; a line for each product while they are few.

    The verdicts are by each product's own threshold, so the colours overlap.
    """
    lines = [(name, line) for name, line in thresholds.items() if line is not None]
    shown = lines if len(lines) <= MOST_LINES else []
    return _svg([(score, bool(bad)) for score, bad in scores], shown)


def _svg(scores: Sequence[tuple[float, bool]], thresholds: Sequence[tuple[str, float]]) -> str:
    values = [score for score, _ in scores]
    low, high = _range([*values, *(line for _, line in thresholds)])
    counts = [[0, 0] for _ in range(_BARS)]
    for score, above in scores:
        counts[min(int((score - low) / (high - low) * _BARS), _BARS - 1)][above] += 1
    most = max(sum(pair) for pair in counts)
    step = (_RIGHT - _LEFT) / _BARS
    bars = []
    for index, pair in enumerate(counts):
        foot = float(_BOTTOM)
        for kind, count in zip(("below", "above"), pair, strict=True):
            if count:
                tall = max(count / most * (_BOTTOM - _TOP), 1.5)
                foot -= tall
                bars.append(
                    f'<rect class="{kind}" x="{_LEFT + index * step + 0.5:.2f}" y="{foot:.2f}"'
                    f' width="{step - 1:.2f}" height="{tall:.2f}"/>'
                )
    words = f"Scores of {len(values)} images from {min(values):.3f} to {max(values):.3f}"
    lines, labels, top = "", "", 0
    for place, (name, line) in enumerate(sorted(thresholds, key=lambda pair: -pair[1])):
        x = _LEFT + (line - low) / (high - low) * (_RIGHT - _LEFT)
        top = -_LABEL * place
        label = f"{_safe(name)} {line:.3f}"
        words += f", {label}"
        anchor = "start" if x < _WIDTH / 4 else "end" if x > 3 * _WIDTH / 4 else "middle"
        lines += (
            f'<line class="threshold" x1="{x:.2f}" x2="{x:.2f}" y1="{_TOP - 8 + top}"'
            f' y2="{_BOTTOM}"/>'
        )
        labels += (
            f'<text class="label" x="{x:.2f}" y="{_TOP - 13 + top}" text-anchor="{anchor}">'
            f"{label}</text>"
        )
    return (
        f'<svg class="histogram" viewBox="0 {top} {_WIDTH} {_HEIGHT - top}" role="img"'
        f' aria-label="{words}">'
        f'{"".join(bars)}<line class="axis" x1="{_LEFT}" x2="{_RIGHT}" y1="{_BOTTOM}"'
        f' y2="{_BOTTOM}"/>{lines}{labels}<text x="{_LEFT}" y="{_BOTTOM + 17}">{low:.2f}</text>'
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_BOTTOM + 17}" text-anchor="middle">score</text>'
        f'<text x="{_RIGHT}" y="{_BOTTOM + 17}" text-anchor="end">{high:.2f}</text></svg>'
    )


def _safe(name: str) -> str:
    """A product's name is other people's input; a long one would leave the picture."""
    brief = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
    return html.escape(brief.encode("utf-8", errors="replace").decode())


def _range(values: Sequence[float]) -> tuple[float, float]:
    """From and to round numbers around all scores and thresholds."""
    span = max(max(values) - min(values), 1e-3)
    unit = 10 ** math.floor(math.log10(span))
    step = next(unit * part for part in (0.1, 0.2, 0.5, 1.0, 2.0) if unit * part * 8 >= span)
    step = max(step, 0.01)
    low, high = math.floor(min(values) / step) * step, math.ceil(max(values) / step) * step
    return (low, high) if high > low else (low, low + step)
