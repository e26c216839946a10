"""The geometry of the ROC: how many defects are found for how many false alarms."""

from dataclasses import dataclass

from .figures import Confusion, Curve

LEFT, TOP, SIDE = 46, 10, 260
WIDTH, HEIGHT = LEFT + SIDE + 18, TOP + SIDE + 46


@dataclass(frozen=True)
class RocChart:
    """What the template draws, in the units of the SVG's view box."""

    path: str
    """The corners of the curve, as an SVG polyline has them."""
    ticks: tuple[tuple[int, float, float], ...]
    """Percent, and where it stands along x and along y."""
    current: tuple[float, float] | None
    """The point of the current threshold."""
    label: tuple[float, float, str]
    """Where the words beside that point stand, and which end of them is there."""
    description: str
    """For screen readers."""

    left, top, side = LEFT, TOP, SIDE
    width, height = WIDTH, HEIGHT


def roc_chart(curve: Curve, current: Confusion | None, auroc: float | None) -> RocChart | None:
    """The curve with the current threshold on it; None without good parts or without defects."""
    if not curve.goods or not curve.bads:
        return None
    places = [_place(curve.confusion(gap)) for gap in curve.corners()]
    described = f"ROC with an area of {auroc:.3f}" if auroc is not None else "ROC"
    here = None
    if current is not None:
        here = _place(current)
        found, alarms = current.found.share or 0.0, current.alarms.share or 0.0
        described += (
            f"; the current threshold finds {100 * found:.1f} % of the defects with"
            f" {100 * alarms:.1f} % false alarms"
        )
    return RocChart(
        " ".join(f"{x:.2f},{y:.2f}" for x, y in places),
        tuple((mark, *_at(mark / 100, mark / 100)) for mark in (0, 25, 50, 75, 100)),
        here,
        _label(here or (0.0, 0.0)),
        described,
    )


def _label(point: tuple[float, float]) -> tuple[float, float, str]:
    """Below the point, but above it near the bottom, where the axis has its numbers."""
    x, y = point
    down = 19 if y < TOP + SIDE - 30 else -10
    return (x + 11, y + down, "start") if x < LEFT + SIDE / 2 else (x - 11, y + down, "end")


def _place(confusion: Confusion) -> tuple[float, float]:
    return _at(confusion.alarms.share or 0.0, confusion.found.share or 0.0)


def _at(x: float, y: float) -> tuple[float, float]:
    return LEFT + x * SIDE, TOP + (1 - y) * SIDE
