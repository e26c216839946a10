"""Figures of the theory: a report in, a matplotlib figure out."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ...quality.coverage import Coverage
from ...quality.covering import curve, exponential, jensen_curve
from ...quality.drift import DriftReport
from ...report.canvas import BLUE, COLOURS, GREEN, INK, VERMILION, new_figure, style
from .certificates import Certificates
from .ranking import LayerReport
from .stability import StabilityReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAYERS = (*COLOURS[:4], *COLOURS[5:], COLOURS[4])
"""Black comes last: measured curves have it."""


@style()
def coverage_figure(report: Coverage) -> "Figure":
    """The miss rate against K: of the layer that is hardest to cover, and of all layers."""
    figure, left, right = _two_plots(sharey=True)
    hardest = max(report.layers, key=lambda layer: float(layer.measured.mean()))
    shots = report.shots
    left.plot(shots, hardest.measured, color=INK, marker="o", ms=3, label="measured")
    left.plot(shots, jensen_curve(hardest.shares, shots), color=BLUE, label="mean of (1 − p)^K")
    left.plot(shots, curve(hardest.alpha, shots), color=VERMILION, ls="--", label="(1 − α)^K")
    left.plot(shots, exponential(hardest.alpha, shots), color=GREEN, ls=":", label="e^(−Kα)")
    left.set(title=f"layer {hardest.block}, α = {hardest.alpha:.2f}", ylabel="miss rate")
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
def certificate_figure(report: Certificates, layers: LayerReport) -> "Figure":
    """Certified margins against real gaps, and η of each layer."""
    figure, left, right = _two_plots(height=2.8)
    margin, gap = report.margin.ravel(), report.gap.ravel()
    shown = np.isfinite(margin)
    certified = report.certified.ravel()
    for chosen, colour, label in (
        (shown & ~certified, BLUE, "not certified"),
        (shown & certified, VERMILION, "certified"),
    ):
        left.scatter(gap[chosen], margin[chosen], s=5, color=colour, lw=0, label=label)
    edge = [float(gap.min()), float(gap.max())]
    left.plot(edge, edge, color=INK, lw=0.8)
    left.axhline(0, color="#bbbbbb", lw=0.8)
    left.set(
        xlabel="real gap of the scores",
        ylabel="certified margin",
        title=f"Theorem 1: {report.share:.0%} of {margin.size} pairs",
    )
    left.legend()
    places = np.arange(len(layers.blocks))
    together = layers.together
    for x, mean, deviation, colour, marker in (
        (places, layers.means, layers.deviations, BLUE, "o"),
        (len(places), together.mean, together.variance**0.5, VERMILION, "s"),
    ):
        right.errorbar(x, mean, deviation, fmt=marker, color=colour, capsize=3)
    right.set_xticks([*places, len(places)], [*map(str, layers.blocks), "mean"])
    right.axhline(0, color="#bbbbbb", lw=0.8)
    limit = f"misranked at most {together.bound:.0%}, in fact {together.misranked:.1%}"
    right.set(xlabel="layer", ylabel="η, mean and deviation", title=f"Theorem 2: {limit}")
    right.grid(False, axis="x")
    return figure


@style()
def stability_figure(report: StabilityReport) -> "Figure":
    """The local gain of all patches, and what dense softmax gives to irrelevant rows."""
    figure, left, right = _two_plots()
    for layer, colour in zip(report.layers, LAYERS * 4, strict=False):
        gains = np.sort(layer.sets.gain)
        share = np.arange(1, len(gains) + 1) / len(gains)
        left.plot(gains, share, color=colour, label=f"layer {layer.block}")
        right.plot(report.distractors, layer.softmax, color=colour, marker="o", ms=3)
    right.plot(report.distractors, [0.0] * len(report.distractors), color=INK, lw=2)
    right.text(report.distractors[0], 0.03, "sparsemax: 0", color=INK)
    left.set(xlabel="local gain ‖G_R‖", ylabel="share of patches below")
    left.legend()
    right.set_xscale("log")
    right.set_xticks(report.distractors, [f"{count:,}" for count in report.distractors])
    right.minorticks_off()
    right.set(
        xlabel="irrelevant rows at similarity τ",
        ylabel="their mass under softmax",
        ylim=(-0.02, 1),
    )
    return figure


@style()
def drift_figure(report: DriftReport) -> "Figure":
    """The gambler's capital and the CLS scores along the stream."""
    figure, left, right = _two_plots()
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


def _two_plots(height: float = 2.6, **options: Any) -> "tuple[Figure, Axes, Axes]":
    """A figure with two plots side by side, both with a grid."""
    figure = new_figure(6.8, height, layout="constrained")
    left, right = figure.subplots(1, 2, **options)
    for axes in (left, right):
        axes.grid(True)
    return figure, left, right
