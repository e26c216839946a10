"""The page of an evaluation: one HTML file that needs nothing else, no script included.

Names of files, kinds and products are other people's input; the templates escape them.
"""

import os
from collections.abc import Iterator, Sequence

from ...report import pages
from ...report.pages import Histogram, score_histogram
from . import words
from .chart import roc_chart
from .findings import Findings


def evaluation_html(found: Findings) -> Iterator[str]:
    """The page in small chunks."""
    environment = pages.environment(__package__)
    filters = {"percent": words.percent, "of": words.of, "between": words.between}
    environment.filters.update({**filters, "score": words.score})
    shared = _shared_folder([image.image for image in found.images])
    current = found.confusion if found.has_verdicts else None
    return environment.get_template("evaluation.html.j2").generate(
        **pages.head(__package__, "evaluation.css"),
        found=found,
        counts=_counts(found),
        sentences=[sentence.replace("`", "") for sentence in found.sentences()],
        caution=words.CAUTION,
        rows=[
            (point, words.threshold(point, found.judge), words.command(point, found.judge))
            for point in found.points
        ],
        roc=roc_chart(found.curve, current, found.auroc.get("strength", found.auroc["score"])),
        histogram=_histogram(found),
        galleries=[
            ("Missed defects", "lowest", found.missed, found.confusion.found.rest),
            ("False alarms", "highest", found.alarms, found.confusion.alarms),
        ],
        about_colours=words.WIDE,
        brief=lambda name: os.path.relpath(name, shared) if shared else name,
    )


def _counts(found: Findings) -> list[tuple[str, str, str]]:
    """Name, figure and CSS class of each count."""
    counts = []
    if found.has_verdicts:
        alarms, missed = found.confusion.alarms, found.confusion.found.rest
        if alarms.total:
            counts.append(("false alarms", words.of(alarms), "bad" if alarms.count else "good"))
        if missed.total:
            counts.append(("missed defects", words.of(missed), "bad" if missed.count else "good"))
        if (accuracy := found.confusion.balanced_accuracy) is not None:
            counts.append(("balanced accuracy", words.percent(accuracy), ""))
    for name, value in found.auroc.items():
        label = f"AUROC of the {name}" if len(found.auroc) > 1 else "AUROC"
        counts += [(label, words.score(value), "")] if value is not None else []
    if found.failed:
        counts.append(("failed", f"{len(found.failed):,}", "failed"))
    return counts


def _histogram(found: Findings) -> Histogram | None:
    values = found.axis_values()
    if not values:
        return None
    if found.axis == "score":
        return score_histogram(values, {"threshold": found.judge.threshold})
    return score_histogram(values, {"threshold": 1.0}, found.axis, "multiples of the threshold")


def _shared_folder(names: Sequence[str]) -> str:
    """The folder that all images lie below; names are shown without it."""
    try:
        return os.path.commonpath([os.path.dirname(name) for name in names]) if names else ""
    except ValueError:  # relative and absolute names, or two drives
        return ""
