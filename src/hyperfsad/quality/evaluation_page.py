"""An evaluation for readers: the text for a terminal, and a page that needs nothing else.

Names of files, kinds and products are other people's input; the templates escape them.
"""

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..report import pages
from ..report.pages import Histogram, score_histogram, write_page
from ..report.records import csv_table
from ..wording import as_rows
from .evaluation import EvaluatedDetector, Evaluation
from .operating_points import Confusion, OperatingPoint, Rate, scaled

EVALUATION_PAGE, _FIGURES_FILE, _IMAGES_FILE = "evaluation.html", "evaluation.json", "images.csv"
_IMAGE_COLUMNS = (
    *("image", "truth", "kind", "verdict", "score", "strength", "error", "product", "foreign"),
)
CAUTION = (
    "A threshold that was chosen on these images flatters itself on them. Check it on other parts"
    " before you trust it."
)
COLOUR_SCALE = (
    "Colours begin at half the value where they begin elsewhere, since most errors lie close to the"
    " threshold."
)


def save_evaluation(evaluation: Evaluation, folder: str | os.PathLike[str]) -> Path:
    """Writes evaluation.html, evaluation.json and images.csv; returns the path of the page."""
    out = Path(folder)
    figures = json.dumps(evaluation.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    write_page(out / _FIGURES_FILE, [figures, "\n"])
    rows = (image.to_dict() for image in evaluation.images)
    write_page(out / _IMAGES_FILE, csv_table(_IMAGE_COLUMNS, rows))
    write_page(out / EVALUATION_PAGE, _evaluation_html(evaluation))
    return out / EVALUATION_PAGE


def evaluation_text(evaluation: Evaluation) -> str:
    """The confusion table and the other figures for a terminal."""
    return as_rows(_lines(evaluation))


def _lines(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.has_verdicts:
        yield from _confusion_table(evaluation.confusion)
        accuracy = _percent(evaluation.confusion.balanced_accuracy)
        yield f"balanced accuracy {accuracy}, {_auroc_text(evaluation)}"
    elif evaluation.scored:
        good, bad = evaluation.part_counts()
        yield f"{good} good parts, {bad} defects, {_auroc_text(evaluation)}"
    if evaluation.pixels:
        figures = ", ".join(f"{name} {_score(value)}" for name, value in evaluation.pixels.items())
        yield f"places of defects: {figures}"
    if len(evaluation.kinds) > 1:
        rows = {kind: _of(rate) for kind, rate in evaluation.kinds.items()}
        yield from _table(("kind of defect", "found"), rows)
    if len(evaluation.products) > 1:
        rows = {
            name: f"{_of(own.alarms)} good parts, {_of(own.found)} defects"
            for name, own in evaluation.products.items()
        }
        yield from _table(("product", "called anomalous"), rows)
    sentences = list(evaluation.sentences())
    if evaluation.better is not None:
        sentences.append(f"{_advise_threshold(evaluation.better, evaluation.detector)} {CAUTION}")
    if sentences:
        yield from ("", *sentences)


def _confusion_table(confusion: Confusion) -> Iterator[str]:
    yield "            called good  called anomalous"
    rows = (("good parts", confusion.alarms, "false alarms"), ("defects", confusion.found, "found"))
    for name, rate, what in rows:
        share = f"{_percent(rate.share)} {what} (95 %: {_between(rate)})"
        if not rate.total:
            share = "none given"
        yield f"{name:10}  {rate.rest.count:11}  {rate.count:16}   {share}"


def _auroc_text(evaluation: Evaluation) -> str:
    words = f"AUROC {_score(evaluation.auroc['score'])}"
    if "strength" in evaluation.auroc:
        words += f" of the score, {_score(evaluation.auroc['strength'])} of the strength"
    return words


def _table(head: tuple[str, str], rows: dict[str, str]) -> Iterator[str]:
    width = max(map(len, [head[0], *rows]))
    yield ""
    for name, value in (head, *rows.items()):
        yield f"{name:{width}}  {value}"


def _percent(share: float | None) -> str:
    """A share in percent."""
    return "–" if share is None else f"{100 * share:.1f} %"


def _of(rate: Rate) -> str:
    """A count out of a total."""
    return f"{rate.count:,} of {rate.total:,}" if rate.total else "–"


def _between(rate: Rate) -> str:
    """The interval of a rate."""
    if rate.interval is None:
        return "–"
    low, high = rate.interval
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def _score(value: float | None) -> str:
    """A figure from 0 to 1 with as many digits as scores have elsewhere."""
    return "–" if value is None else f"{value:.3f}"


def _threshold(point: OperatingPoint, detector: EvaluatedDetector) -> str:
    """The threshold of an operating point, or by what to multiply those of several products."""
    if detector.threshold is None:
        return f"× {point.factor:.6g}"
    return f"{scaled(detector.threshold, point.factor):{'.4g' if point.current else '.12g'}}"


def _command(point: OperatingPoint, detector: EvaluatedDetector) -> str | None:
    """What sets this threshold; None for the current one, and if products have several."""
    if detector.threshold is None or point.current:
        return None
    value = _threshold(point, detector)
    return shlex.join(["hyperfsad", "calibrate", detector.file, "--threshold", value])


def _advise_threshold(point: OperatingPoint, detector: EvaluatedDetector) -> str:
    """What a threshold would do that judges these images better, and how to set it."""
    at = "With all thresholds" if detector.threshold is None else "At a threshold of"
    text = (
        f"{at} {_threshold(point, detector)} it would find {_of(point.confusion.found)} defects"
        f" with {_of(point.confusion.alarms)} good parts called anomalous"
    )
    command = _command(point, detector)
    return f"{text}: `{command}`." if command else f"{text}."


def _evaluation_html(evaluation: Evaluation) -> Iterator[str]:
    """The page in small chunks."""
    environment = pages.environment(__package__)
    filters = {"percent": _percent, "of": _of, "between": _between, "score": _score}
    environment.filters.update(filters)
    shared = _shared_folder([image.image for image in evaluation.images])
    confusion, detector, curve = evaluation.confusion, evaluation.detector, evaluation.curve
    both_kinds = curve.goods and curve.bads
    return environment.get_template("evaluation.html.j2").generate(
        **pages.head(__package__, "evaluation.css"),
        evaluation=evaluation,
        counts=list(_counts(evaluation)),
        sentences=list(evaluation.sentences()),
        caution=CAUTION,
        rows=[
            (point, _threshold(point, detector), _command(point, detector))
            for point in evaluation.points
        ],
        roc=[curve.confusion(gap) for gap in curve.corners()] if both_kinds else [],
        histogram=_histogram(evaluation),
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


def _histogram(evaluation: Evaluation) -> Histogram | None:
    values = evaluation.values(evaluation.axis)
    if not values:
        return None
    if evaluation.axis == "score":
        return score_histogram(values, {"threshold": evaluation.detector.threshold})
    unit = "multiples of the threshold"
    return score_histogram(values, {"threshold": 1.0}, evaluation.axis, unit)


def _shared_folder(names: Sequence[str]) -> str:
    """The folder that all images lie below; names are shown without it."""
    try:
        return os.path.commonpath([os.path.dirname(name) for name in names]) if names else ""
    except ValueError:  # relative and absolute names, or two drives
        return ""
