"""Reports as people read them on a terminal."""

from collections.abc import Sequence

import numpy as np

from ...wording import as_rows
from .certificates import Certificates
from .ranking import LayerReport, PatchReport
from .stability import StabilityReport, quantiles


def certificate_text(report: Certificates, blocks: Sequence[int]) -> str:
    """The premises of Theorem 1, the share of certified pairs and why the others are not."""
    lines = [
        f"Theorem 1: {len(report.good)} good × {len(report.bad)} bad images (medians)",
        "layer  ε      γ      gap of γ  r      δ      γ − ε²/2  (δ² − r²)/2",
    ]
    for place, block in enumerate(blocks):
        columns = (report.epsilon, report.gamma, report.gamma_gap, report.r, report.delta)
        epsilon, gamma, gap, near, far = (np.median(column[:, place]) for column in columns)
        lines.append(
            f"{block:5}  {epsilon:.3f}  {gamma:.3f}  {gap:.0e}     {near:.3f}  {far:.3f}"
            f"  {gamma - epsilon**2 / 2:+8.3f}  {(far**2 - near**2) / 2:+11.4f}"
        )
    margin, gaps = report.margin, report.gap
    lines += [
        "",
        f"certified margin: median {np.median(margin):+.4f}, largest {margin.max():+.4f};"
        f" real gap: median {np.median(gaps):+.4f}, smallest {gaps.min():+.4f}",
        f"{report.share:.1%} of {margin.size} pairs certified.",
    ]
    meanings = {
        "misranked": "are ranked wrongly: nothing could certify them",
        "premise (i)": "fail by (i): a good patch draws on normal patches that are far away",
        "premise (ii)": "fail by (ii): a mixture of normal patches comes close to the defect",
        "either": "fail by (i) and (ii) together; either made exact would do",
        "both": "fail by (i) and by (ii); neither made exact would do",
    }
    counts = report.counts()
    lines += [f"  {counts[reason]:5} {text}" for reason, text in meanings.items() if counts[reason]]
    return as_rows(lines)


def ranking_text(report: LayerReport) -> str:
    """Theorem 2: η of each layer, the bound beside what was measured, and what to keep."""
    lines = ["Theorem 2: η over all pairs", "layer  mean     deviation  alone: bound  misranked"]
    for block, mean, deviation, alone in zip(
        report.eta.blocks, report.eta.means, report.eta.deviations, report.alone, strict=True
    ):
        lines.append(
            f"{block:5}  {mean:+.4f}  {deviation:.4f}     {alone.bound:8.1%}"
            f"      {alone.misranked:.1%}"
        )
    count = len(report.eta.blocks)
    if count > 1:
        off = report.eta.correlations[~np.eye(count, dtype=bool)]
        lines.append(f"correlation between layers: {off.min():.2f} to {off.max():.2f}")
    together = report.together
    lines += [
        f"together: misranked at most {together.bound:.1%} (AUROC at least"
        f" {1 - together.bound:.3f}); measured {together.misranked:.1%} (AUROC"
        f" {1 - together.misranked:.3f})",
        f"uniform bound {report.uniform:.1%}, for one layer {report.single:.1%}",
    ]
    for rest, block in zip(report.without, report.eta.blocks, strict=False):
        lines.append(f"without {block:2}: at most {rest.bound:.1%}; measured {rest.misranked:.1%}")
    if report.best is not None:
        named = ", ".join(str(report.eta.blocks[place]) for place in report.best.layers)
        lines.append(
            f"lowest bound: layers {named} with {report.best.bound:.1%};"
            f" measured {report.best.misranked:.1%}"
        )
    kept = ", ".join(map(str, report.keep())) or "none: any one may go"
    lines.append(f"Worth keeping (the bound rises without them): {kept}")
    return as_rows(lines)


def patches_text(report: PatchReport) -> str:
    """Theorem 2 for patches: the bound beside what was measured."""
    where = "in the masks" if report.masked else "the highest of each bad image"
    together = report.together
    lines = [
        f"Theorem 2 for patches: {report.defective} defective ({where}) × {report.normal} normal",
        f"η {together.mean:+.4f} on average; misranked at most {together.bound:.1%} (AUROC at least"
        f" {1 - together.bound:.3f}); measured {together.misranked:.1%} (AUROC"
        f" {1 - together.misranked:.3f})",
    ]
    return as_rows(lines)


def stability_text(report: StabilityReport) -> str:
    """Limits beside the largest ratios that noise brought out."""
    lines = [
        f"{len(report.names)} images, tokens moved by {report.noise:g}; limits in brackets",
        "layer  ‖Δw‖/‖Δz‖ (1)  ‖Δε‖/‖Δq‖ (‖P‖²)    ‖G_R‖ median, max  active  |Δs|/‖Δc‖ (1)  √(2s)",
    ]
    for layer in report.layers:
        gains, sizes = quantiles(layer.sets.gain), quantiles(layer.sets.size)
        lines.append(
            f"{layer.block:5}  {layer.largest.weights:.3f}          {layer.largest.rebuilt:.3f}"
            f" ({layer.bound:8.1f})    {gains['median']:.3f}, {gains['max']:.3f}"
            f"       {sizes['median']:6.0f}  {layer.largest.cls:.3f}"
            f"          {np.median(layer.cls_distance):.3f}"
        )
    lines.append("Every limit is kept." if report.holds else "A limit is BROKEN; please report it.")
    lines += ["", "mass of irrelevant rows, all at similarity τ (sparsemax: exactly 0)"]
    lines.append("layer" + "".join(f"{count:>10}" for count in report.distractors))
    for layer in report.layers:
        lines.append(f"{layer.block:5}" + "".join(f"{mass:10.1%}" for mass in layer.softmax))
    return as_rows(lines)
