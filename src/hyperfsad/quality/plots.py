"""Figures of coverage and drift: a report in, a matplotlib figure out."""

from typing import TYPE_CHECKING

import numpy as np

from ..report.canvas import BLUE, GREEN, INK, VERMILION, style, two_plots
from .coverage import Coverage
from .drift import DriftReport
from .miss_rates import exponential_curve, jensen_curve, power_curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@style()
def coverage_figure(report: Coverage) -> "Figure":
    """The miss rate against K: of the layer that is hardest to cover, and of all layers."""
    figure, left, right = two_plots(sharey=True)
    hardest = max(report.layers, key=lambda layer: float(layer.measured.mean()))
    alpha, shots = hardest.alpha, report.shots
    left.plot(shots, hardest.measured, color=INK, marker="o", ms=3, label="measured")
    left.plot(shots, jensen_curve(hardest.shares, shots), color=BLUE, label="mean of (1 − p)^K")
    left.plot(shots, power_curve(alpha, shots), color=VERMILION, ls="--", label="(1 − α)^K")
    left.plot(shots, exponential_curve(alpha, shots), color=GREEN, ls=":", label="e^(−Kα)")
    left.set(title=f"layer {hardest.block}, α = {alpha:.2f}", ylabel="miss rate")
    if report.joint is not None:
        right.plot(shots, report.joint, color=INK, marker="o", ms=3, label="measured")
    right.plot(shots, report.union, color=BLUE, label="sum of measured")
    right.plot(shots, report.union_exponential, color=GREEN, ls=":", label="sum of e^(−Kα)")
    right.set_title("missed in some layer")
    for axes in (left, right):
        axes.axhline(1 - report.chance, color="#bbbbbb", lw=0.8)
        axes.set(xlabel="support images K", ylim=(0, 1))
        axes.legend()
    return figure


@style()
def drift_figure(report: DriftReport) -> "Figure":
    """The CLS scores along the stream, and the evidence of a change."""
    figure, left, right = two_plots()
    places = np.arange(1, len(report.names) + 1)
    left.plot(places, report.scores, "o", ms=3, color=BLUE)
    left.axhline(report.level, color="#bbbbbb", lw=0.8)
    left.set_ylabel("CLS score")
    left.set_ylim(bottom=0)
    right.plot(places, [step.capital / np.log(10) for step in report.steps], color=BLUE)
    right.axhline(-np.log10(report.false_alarms), color=VERMILION, ls="--", label="alarm")
    right.set_ylabel("evidence of a move, log10")
    for axes in (left, right):
        if report.moved_at is not None:
            axes.axvline(report.moved_at + 1, color=GREEN, lw=0.8, ls=":", label="likely change")
        axes.set_xlabel("inspection")
    right.legend()
    return figure
