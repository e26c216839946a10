"""Figures of the theory: a report in, a matplotlib figure out."""

from typing import TYPE_CHECKING

import numpy as np

from ...report.canvas import BLUE, COLOURS, INK, VERMILION, style, two_plots
from .certificates import Certificates
from .ranking import LayerReport
from .stability import StabilityReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAYER_COLOURS = (*COLOURS[:4], *COLOURS[5:], COLOURS[4])
"""Black comes last: measured curves have it."""


@style()
def certificate_figure(report: Certificates, layers: LayerReport) -> "Figure":
    """Certified margins against real gaps, and η of each layer."""
    figure, left, right = two_plots(height=2.8)
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
    places = np.arange(len(layers.eta.blocks))
    together = layers.together
    for x, mean, deviation, colour, marker in (
        (places, layers.eta.means, layers.eta.deviations, BLUE, "o"),
        (len(places), together.mean, together.variance**0.5, VERMILION, "s"),
    ):
        right.errorbar(x, mean, deviation, fmt=marker, color=colour, capsize=3)
    right.set_xticks([*places, len(places)], [*map(str, layers.eta.blocks), "mean"])
    right.axhline(0, color="#bbbbbb", lw=0.8)
    limit = f"misranked at most {together.bound:.0%}, in fact {together.misranked:.1%}"
    right.set(xlabel="layer", ylabel="η, mean and deviation", title=f"Theorem 2: {limit}")
    right.grid(False, axis="x")
    return figure


@style()
def stability_figure(report: StabilityReport) -> "Figure":
    """The local gain of all patches, and what dense softmax gives to irrelevant rows."""
    figure, left, right = two_plots()
    for layer, colour in zip(report.layers, LAYER_COLOURS * 4, strict=False):
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
