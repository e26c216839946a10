"""An evaluation for readers: the text for a terminal, and a page that needs nothing else.

Names of files, kinds and products are other people's input; the templates escape them.
"""

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from ..report import pages
from ..report.pages import level_histogram, score_histogram, write_page
from ..report.records import csv_table
from ..wording import as_rows, of_limit
from .evaluation import IMAGE_FIELDS, Evaluation
from .operating_points import OperatingPoint, Rate, scaled

EVALUATION_PAGE = "evaluation.html"
CAUTION = (
    "A threshold that was chosen on these images looks better on them than it will on others. Check"
    " it on other parts before you trust it."
)
COLOUR_SCALE = (
    "Colours begin at half the value where they begin elsewhere, since most errors lie close to the"
    " threshold."
)


def save_evaluation(evaluation: Evaluation, folder: str | os.PathLike[str]) -> Path:
    """Writes evaluation.html, evaluation.json and images.csv; returns the path of the page."""
    out = Path(folder)
    figures = json.dumps(evaluation.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    write_page(out / "evaluation.json", [figures, "\n"])
    rows = (image.to_dict() for image in evaluation.images)
    write_page(out / "images.csv", csv_table(IMAGE_FIELDS, rows))
    write_page(out / EVALUATION_PAGE, _evaluation_html(evaluation))
    return out / EVALUATION_PAGE


def evaluation_text(evaluation: Evaluation) -> str:
    """The confusion table and the other figures for a terminal."""
    return as_rows(_lines(evaluation))


def _lines(evaluation: Evaluation) -> Iterator[str]:
    confusion, auroc = evaluation.confusion, f"AUROC {_score(evaluation.auroc['score'])}"
    if "level" in evaluation.auroc:
        auroc += f" of the score, {_score(evaluation.auroc['level'])} of the level"
    if evaluation.has_verdicts:
        yield "            called good  called anomalous"
        rates = {"good parts": (confusion.alarms, "false alarms")}
        rates["defects"] = (confusion.found, "found")
        for name, (rate, what) in rates.items():
            share = f"{_percent(rate.share)} {what} (95 %: {_between(rate)})"
            share = share if rate.total else "none given"
            yield f"{name:10}  {rate.rest.count:11}  {rate.count:16}   {share}"
        yield f"balanced accuracy {_percent(confusion.balanced_accuracy)}, {auroc}"
    elif evaluation.scored:
        good, bad = evaluation.part_counts()
        yield f"{good} good parts, {bad} defects, {auroc}"
    if evaluation.pixels:
        figures = ", ".join(f"{name} {_score(value)}" for name, value in evaluation.pixels.items())
        yield f"places of defects: {figures}"
    kinds = {kind: _of(rate) for kind, rate in evaluation.kinds.items()}
    products = {
        name: f"{_of(own.alarms)} good parts, {_of(own.found)} defects"
        for name, own in evaluation.products.items()
    }
    for head, rows in (
        (("kind of defect", "found"), kinds),
        (("product", "called anomalous"), products),
    ):
        if len(rows) > 1:
            width = max(map(len, [head[0], *rows]))
            yield ""
            yield from (f"{name:{width}}  {value}" for name, value in (head, *rows.items()))
    sentences = list(evaluation.sentences())
    if better := evaluation.better:
        at = "With all thresholds" if evaluation.threshold is None else "At a threshold of"
        command = _command(better, evaluation)
        sentences.append(
            f"{at} {_threshold(better, evaluation)} it would find {_of(better.confusion.found)}"
            f" defects with {_of(better.confusion.alarms)} good parts called anomalous"
            f"{f': `{command}`' if command else ''}. {CAUTION}"
        )
    if sentences:
        yield from ("", *sentences)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _of(rate: Rate) -> str:
    return f"{rate.count:,} of {rate.total:,}" if rate.total else "–"


def _between(rate: Rate) -> str:
    if rate.interval is None:
        return "–"
    low, high = rate.interval
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _threshold(point: OperatingPoint, evaluation: Evaluation) -> str:
    """The threshold of an operating point, or by what to multiply those of several products."""
    if evaluation.threshold is None:
        return f"× {point.factor:.6g}"
    return f"{scaled(evaluation.threshold, point.factor):{'.4g' if point.current else '.12g'}}"


def _command(point: OperatingPoint, evaluation: Evaluation) -> str | None:
    """What sets this threshold; None for the current one, and if products have several."""
    if evaluation.threshold is None or point.current:
        return None
    value = _threshold(point, evaluation)
    return shlex.join(["hyperfsad", "calibrate", evaluation.file, "--threshold", value])


def _evaluation_html(evaluation: Evaluation) -> Iterator[str]:
    """The page in small chunks."""
    environment = pages.environment(__package__)
    filters = {"percent": _percent, "of": _of, "between": _between, "score": _score}
    filters["of_limit"] = of_limit
    environment.filters.update(filters)
    confusion, curve = evaluation.confusion, evaluation.curve
    values = evaluation.values(evaluation.axis)
    histogram = level_histogram if evaluation.has_verdicts else score_histogram
    try:  # names are shown without the folder that all images lie below
        folders = [os.path.dirname(image.image) for image in evaluation.images]
        shared = os.path.commonpath(folders) if folders else ""
    except ValueError:  # relative and absolute names, or two drives
        shared = ""
    return environment.get_template("evaluation.html.j2").generate(
        **pages.head(__package__, "evaluation.css"),
        evaluation=evaluation,
        counts=list(_counts(evaluation)),
        sentences=list(evaluation.sentences()),
        caution=CAUTION,
        rows=[
            (point, _threshold(point, evaluation), _command(point, evaluation))
            for point in evaluation.points
        ],
        roc=[curve.confusion(g) for g in curve.corners()] if curve.goods and curve.bads else [],
        histogram=histogram(values) if values else None,
        galleries=[
            ("Missed defects", "lowest", evaluation.missed, confusion.found.rest),
            ("False alarms", "highest", evaluation.false_alarms, confusion.alarms),
        ],
        about_colours=COLOUR_SCALE,
        brief=lambda name: os.path.relpath(name, shared) if shared else name,
    )


def _counts(evaluation: Evaluation) -> Iterator[tuple[str, str, str]]:
    """Name, figure and CSS class of each count."""
    if evaluation.has_verdicts:
        confusion = evaluation.confusion
        errors = {"false alarms": confusion.alarms, "missed defects": confusion.found.rest}
        for name, rate in errors.items():
            if rate.total:
                yield name, _of(rate), "bad" if rate.count else "good"
        if (accuracy := confusion.balanced_accuracy) is not None:
            yield "balanced accuracy", _percent(accuracy), ""
    for name, value in evaluation.auroc.items():
        if value is not None:
            label = f"AUROC of the {name}" if len(evaluation.auroc) > 1 else "AUROC"
            yield label, _score(value), ""
    if evaluation.failed:
        yield "failed", f"{len(evaluation.failed):,}", "failed"
