"""What `hyperfsad evaluate` prints: the confusion table, and how far to trust it."""

from collections.abc import Iterator

from ...messages import as_rows
from .findings import Findings
from .words import CAUTION, better, between, of, percent, score


def findings_text(found: Findings) -> str:
    """The figures in a few lines."""
    return as_rows(_lines(found))


def _lines(found: Findings) -> Iterator[str]:
    if found.has_verdicts:
        yield from _confusion(found)
        accuracy = percent(found.confusion.balanced_accuracy)
        yield f"balanced accuracy {accuracy}, {_auroc(found)}"
    elif found.scored:
        counts = [sum(image.bad is bad for image in found.scored) for bad in (False, True)]
        yield f"{counts[0]} good parts, {counts[1]} defects, {_auroc(found)}"
    if found.pixels:
        figures = ", ".join(f"{name} {score(value)}" for name, value in found.pixels.items())
        yield f"places of defects: {figures}"
    if len(found.kinds) > 1:
        yield ""
        rows = {kind: of(rate) for kind, rate in found.kinds.items()}
        yield from _table(("kind of defect", "found"), rows)
    if len(found.products) > 1:
        yield ""
        rows = {
            name: f"{of(own.alarms)} good parts, {of(own.found)} defects"
            for name, own in found.products.items()
        }
        yield from _table(("product", "called anomalous"), rows)
    told = list(found.sentences())
    if found.better is not None:
        told.append(f"{better(found.better, found.judge)} {CAUTION}")
    if told:
        yield ""
        yield from told


def _confusion(found: Findings) -> Iterator[str]:
    alarms, hits = found.confusion.alarms, found.confusion.found
    yield "            called good  called anomalous"
    for name, rate, what in (("good parts", alarms, "false alarms"), ("defects", hits, "found")):
        share = (
            f"{percent(rate.share)} {what} (95 %: {between(rate)})" if rate.total else "none given"
        )
        yield f"{name:10}  {rate.rest.count:11}  {rate.count:16}   {share}"


def _auroc(found: Findings) -> str:
    words = f"AUROC {score(found.auroc['score'])}"
    if "strength" in found.auroc:
        words += f" of the score, {score(found.auroc['strength'])} of the strength"
    return words


def _table(head: tuple[str, str], rows: dict[str, str]) -> Iterator[str]:
    width = max(map(len, [head[0], *rows]))
    yield f"{head[0]:{width}}  {head[1]}"
    for name, told in rows.items():
        yield f"{name:{width}}  {told}"
