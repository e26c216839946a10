"""The geometry of the page's chart: the share of drawn defects that settings find, over size."""

from dataclasses import dataclass
from typing import NamedTuple

from .comparing import Advice
from .defects import SIZES

WIDTH, HEIGHT = 420, 220
LEFT, RIGHT, TOP, BOTTOM = 44, 408, 12, 180


class Tick(NamedTuple):
    """A mark on an axis."""

    at: float
    label: str


class Series(NamedTuple):
    """The line of one setting."""

    name: str
    points: tuple[tuple[float, float], ...]
    advised: bool

    @property
    def path(self) -> str:
        """For an SVG polyline."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)


@dataclass(frozen=True)
class Chart:
    """What the template draws, in the units of the SVG's view box."""

    series: list[Series]
    across: list[Tick]
    down: list[Tick]
    description: str
    """For screen readers."""

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, RIGHT, TOP, BOTTOM


def size_chart(advice: Advice) -> Chart:
    """A line for each setting; sizes double from one tick to the next."""
    step = (RIGHT - LEFT) / (len(SIZES) - 1)
    across = [
        Tick(LEFT + step * place, f"{advice.pixels(share)} px") for place, share in enumerate(SIZES)
    ]
    down = [Tick(_height(part / 4), f"{25 * part} %") for part in range(5)]
    series = []
    for trial in advice.trials:
        counts = [trial.found(share=share) for share in SIZES]
        shares = [found / total for found, total in counts]
        points = tuple(
            (tick.at, _height(share)) for tick, share in zip(across, shares, strict=True)
        )
        series.append(Series(trial.setting.name, points, trial is advice.advised))
    found = "; ".join(
        f"{trial.setting.name} {100 * trial.share_found:.0f} %" for trial in advice.trials
    )
    return Chart(series, across, down, f"Share of drawn defects found, by size. {found}.")


def _height(share: float) -> float:
    return BOTTOM - share * (BOTTOM - TOP)
