"""The scores of a run as a small picture: how many images have which score, and the threshold."""

import math
from collections.abc import Sequence

_BARS = 32
_WIDTH, _HEIGHT = 420, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 12, 408, 28, 122


def histogram_svg(scores: Sequence[float], threshold: float | None) -> str:
    """An SVG whose colours come from the page; scores above the threshold are set apart."""
    low, high = _range(scores, threshold)
    counts = [[0, 0] for _ in range(_BARS)]
    for score in scores:
        bar = min(int((score - low) / (high - low) * _BARS), _BARS - 1)
        counts[bar][threshold is not None and score > threshold] += 1
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
    words = f"Scores of {len(scores)} images from {min(scores):.3f} to {max(scores):.3f}"
    line = ""
    if threshold is not None:
        words += f", threshold {threshold:.3f}"
        x = _LEFT + (threshold - low) / (high - low) * (_RIGHT - _LEFT)
        anchor = "start" if x < _WIDTH / 4 else "end" if x > 3 * _WIDTH / 4 else "middle"
        line = (
            f'<line class="threshold" x1="{x:.2f}" x2="{x:.2f}" y1="{_TOP - 8}" y2="{_BOTTOM}"/>'
            f'<text x="{x:.2f}" y="{_TOP - 13}" text-anchor="{anchor}">'
            f"threshold {threshold:.3f}</text>"
        )
    return (
        f'<svg class="histogram" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{words}">'
        f'{"".join(bars)}<line class="axis" x1="{_LEFT}" x2="{_RIGHT}" y1="{_BOTTOM}"'
        f' y2="{_BOTTOM}"/>{line}<text x="{_LEFT}" y="{_BOTTOM + 17}">{low:.2f}</text>'
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_BOTTOM + 17}" text-anchor="middle">score</text>'
        f'<text x="{_RIGHT}" y="{_BOTTOM + 17}" text-anchor="end">{high:.2f}</text></svg>'
    )


def _range(scores: Sequence[float], threshold: float | None) -> tuple[float, float]:
    """From and to round numbers around all scores and the threshold."""
    values = [*scores, *([threshold] if threshold is not None else [])]
    span = max(max(values) - min(values), 1e-3)
    unit = 10 ** math.floor(math.log10(span))
    step = next(unit * part for part in (0.1, 0.2, 0.5, 1.0, 2.0) if unit * part * 8 >= span)
    step = max(step, 0.01)
    low, high = math.floor(min(values) / step) * step, math.ceil(max(values) / step) * step
    return (low, high) if high > low else (low, low + step)
