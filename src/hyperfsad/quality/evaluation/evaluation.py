"""Evaluation: what `evaluate` returns; prints itself, and writes its page and tables."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...disk.files import atomic_path, encoded
from ...report.records import csv_table
from ...version import __version__
from .findings import Findings
from .inspected import Inspected
from .page import evaluation_html
from .text import findings_text

FORMAT = 1
"""Of evaluation.json: fields may be added, never changed."""
PAGE, FIGURES, TABLE = "evaluation.html", "evaluation.json", "images.csv"
COLUMNS = ("image", "truth", "kind", "verdict", "score", "strength", "error", "product", "foreign")


@dataclass(frozen=True)
class Evaluation(Findings):
    """How good the verdicts of a detector are on known parts, and what other thresholds would do.

    >>> found = evaluate(detector, good="good/", bad="bad/")
    >>> found.confusion.balanced_accuracy, found.auroc["score"]
    """

    complete: bool = True
    """Whether every folder could be opened."""

    def to_text(self) -> str:
        """The figures in a few lines."""
        return findings_text(self)

    def to_dict(self) -> dict[str, Any]:
        """All figures, and each image; what evaluation.json holds."""
        judge, confusion = self.judge, self.confusion
        curve = self.curve
        return {
            "format": FORMAT,
            "version": __version__,
            "detector": judge.file,
            "threshold": judge.threshold,
            "map_threshold": judge.map_threshold,
            "threshold_from": judge.threshold_from,
            "good_parts": sum(not image.bad for image in self.scored),
            "defects": sum(image.bad for image in self.scored),
            "failed": len(self.failed),
            "without_verdict": len(self.scored) - len(self.judged),
            "learnt": list(self.learnt),
            "false_alarms": confusion.alarms.to_dict() if self.has_verdicts else None,
            "found": confusion.found.to_dict() if self.has_verdicts else None,
            "balanced_accuracy": confusion.balanced_accuracy,
            "auroc": self.auroc,
            "kinds": {kind: rate.to_dict() for kind, rate in self.kinds.items()},
            "products": {
                name: {"false_alarms": own.alarms.to_dict(), "found": own.found.to_dict()}
                for name, own in self.products.items()
            },
            "thresholds": [point.to_dict(judge.threshold) for point in self.points],
            "roc": {
                "above": "strength" if self.has_verdicts else "score",
                "points": [
                    {
                        "from": curve.bounds(gap)[0],
                        "false_alarms": int(curve.alarms[gap]),
                        "found": int(curve.found[gap]),
                    }
                    for gap in range(len(curve))[::-1]
                ],
            },
            "pixels": None if self.pixels is None else {**self.pixels, "side": self.pixel_side},
            "notes": list(self.sentences()),
            "images": [image.to_dict() for image in self.images],
        }

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes evaluation.html, evaluation.json and images.csv; earlier ones are replaced."""
        out = Path(folder)
        figures = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        _write(out / FIGURES, [figures, "\n"])
        _write(out / TABLE, images_csv(self.images))
        _write(out / PAGE, evaluation_html(self))


def images_csv(images: Iterable[Inspected]) -> Iterator[str]:
    """A row for each image."""
    return csv_table(COLUMNS, (image.to_dict() for image in images))


def _write(path: Path, chunks: Iterable[str]) -> None:
    with atomic_path(path, parents=True) as temporary, temporary.open("wb") as file:
        for chunk in chunks:
            file.write(encoded(chunk))
