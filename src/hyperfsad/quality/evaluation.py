"""Evaluation: images with their truth and their verdict, and all figures that follow from them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..version import __version__
from ..wording import count
from .evaluated_images import ErrorPicture, EvaluatedImage
from .metrics import image_metrics
from .operating_points import (
    BEST_ACCURACY,
    Confusion,
    OperatingPoint,
    Rate,
    RocCurve,
    operating_points,
)

EVALUATION_FORMAT = 1
"""Of evaluation.json: fields may be added, never changed."""
SMALL_SAMPLE = 20
"""With fewer parts of a kind, one of them is more than 5 %."""
CHANCE_ACCURACY = 0.5
"""The balanced accuracy of one and the same verdict on all images."""


@dataclass(frozen=True)
class EvaluatedDetector:
    """The detector, as far as the figures need it."""

    file: str
    """How commands name it."""
    threshold: float | None
    map_threshold: float | None = None
    """If the map has a say in the verdict."""
    threshold_from: str | None = None
    products: tuple[str, ...] = ()
    """The names of its products, if it knows several; then each has a threshold of its own."""


@dataclass(frozen=True)
class Evaluation:
    """How good the verdicts are on known parts, and what other thresholds would do."""

    detector: EvaluatedDetector
    images: tuple[EvaluatedImage, ...]
    learnt: tuple[str, ...] = ()
    """Good parts that were left out, since the detector has learnt them."""
    missed: tuple[ErrorPicture, ...] = ()
    false_alarms: tuple[ErrorPicture, ...] = ()
    pixels: dict[str, float | None] | None = None
    """P-AUROC, PRO and P-AP, if there are masks."""
    pixel_side: int | None = None
    """The side at which maps and masks were compared."""
    notes: tuple[str, ...] = ()
    """What was skipped, a sentence each."""
    complete: bool = True
    """Whether every folder could be opened."""

    @cached_property
    def failed(self) -> list[EvaluatedImage]:
        """Images that could not be read."""
        return [image for image in self.images if image.error is not None]

    @cached_property
    def scored(self) -> list[EvaluatedImage]:
        """Images that could be read."""
        return [image for image in self.images if image.error is None]

    @cached_property
    def judged(self) -> list[EvaluatedImage]:
        """Images with a verdict."""
        return [image for image in self.scored if image.anomalous is not None]

    @property
    def has_verdicts(self) -> bool:
        """Whether there is a threshold, hence a verdict."""
        return bool(self.judged)

    @cached_property
    def confusion(self) -> Confusion:
        """Verdicts against the truth."""
        return _confusion(self.judged)

    @property
    def kinds(self) -> dict[str, Rate]:
        """How many defects of each kind are found."""
        bad = [image for image in self.judged if image.bad]
        groups = sorted({image.kind for image in bad})
        return {kind: _confusion(i for i in bad if i.kind == kind).found for kind in groups}

    @property
    def products(self) -> dict[str, Confusion]:
        """Verdicts against the truth for each product, if the detector knows several."""
        groups = sorted({image.product for image in self.judged if image.product is not None})
        return {name: _confusion(i for i in self.judged if i.product == name) for name in groups}

    @property
    def axis(self) -> str:
        """What the ROC and the histogram run over: the score if it alone decides."""
        several = bool(self.detector.products) or self.detector.map_threshold is not None
        return "strength" if self.has_verdicts and several else "score"

    @cached_property
    def curve(self) -> RocCurve:
        """All verdicts that other thresholds would give; over the score if there is none."""
        pairs = self.values("strength" if self.has_verdicts else "score")
        return RocCurve([v for v, bad in pairs if not bad], [v for v, bad in pairs if bad])

    @cached_property
    def points(self) -> list[OperatingPoint]:
        """What other thresholds would do; nothing without a current one."""
        return operating_points(self.curve, self.detector.threshold) if self.has_verdicts else []

    @property
    def better(self) -> OperatingPoint | None:
        """The threshold that would have judged these images best; None if it is the current one
        or no better than chance, and if most images show another product."""
        best = next((point for point in self.points if BEST_ACCURACY in point.names), None)
        if best is None or best.current or self.mostly_foreign:
            return None
        return best if (best.confusion.balanced_accuracy or 0.0) > CHANCE_ACCURACY else None

    @cached_property
    def foreign(self) -> int:
        """How many images look like another product than the good parts."""
        return sum(image.foreign for image in self.scored)

    @property
    def mostly_foreign(self) -> bool:
        """Whether the detector may be the wrong one for these images."""
        return 2 * self.foreign > len(self.scored)

    @cached_property
    def auroc(self) -> dict[str, float | None]:
        """Of the score, and of the strength if it ranks otherwise; None for one kind of part."""
        found = {"score": _auroc(self.values("score"))}
        if self.has_verdicts:
            strength = _auroc(self.values("strength"))
            found |= {"strength": strength} if strength != found["score"] else {}
        return found

    def values(self, name: str) -> list[tuple[float, bool]]:
        """The score or the strength of each image, and whether it shows a defect."""
        pairs = ((getattr(image, name), image.bad) for image in self.scored)
        return [(value, bad) for value, bad in pairs if value is not None]

    def part_counts(self) -> tuple[int, int]:
        """How many good parts and how many defects could be read."""
        bad = sum(image.bad for image in self.scored)
        return len(self.scored) - bad, bad

    def sentences(self) -> Iterator[str]:
        """What a reader of the figures has to know beside them."""
        if not self.scored:
            yield "No image could be read, so there are no figures."
            return
        yield from self._about_foreign()
        yield from self._about_thresholds()
        for number, what, other in zip(
            self.part_counts(), ("good part", "defect"), ("bad", "good"), strict=True
        ):
            if number == 0:
                yield f"There are no {what}s here, so {other} parts are all that can be judged."
            elif number < SMALL_SAMPLE:
                yield (
                    f"With {count(number, what)}, one of them is {100 / number:.3g} %: read the"
                    " rate with its interval."
                )
        if self.learnt:
            yield _left_out(self.learnt)
        if self.failed:
            are = "is" if len(self.failed) == 1 else "are"
            yield f"{count(len(self.failed), 'image')} could not be read and {are} left out."
        yield from self.notes

    def _about_foreign(self) -> Iterator[str]:
        if not self.foreign:
            return
        one, several = self.foreign == 1, bool(self.detector.products)
        does = ("fits" if one else "fit") if several else ("looks" if one else "look")
        what = "none of its products" if several else "like another product than its good parts"
        lead = f"{self.foreign:,} of {count(len(self.scored), 'image')} {does} {what}"
        if self.mostly_foreign:
            yield (
                f"{lead}, so these figures mean little: is {self.detector.file} the right"
                " detector, and are light and camera the same?"
            )
        else:
            yield f"{lead}, so {'its score means' if one else 'their scores mean'} little."

    def _about_thresholds(self) -> Iterator[str]:
        unjudged = len(self.scored) - len(self.judged)
        if not self.has_verdicts:
            product = " --product NAME" if self.detector.products else ""
            yield (
                "The detector has no threshold, so there are no verdicts; run hyperfsad calibrate"
                f" {self.detector.file}{product} to estimate one from the parts that it has"
                " learnt, or add further good parts to bound the false alarms."
            )
        elif unjudged:
            yield f"{count(unjudged, 'image')} went to a product without a threshold: no verdict."

    def to_dict(self) -> dict[str, Any]:
        """All figures, and each image; what evaluation.json holds."""
        detector, confusion, curve = self.detector, self.confusion, self.curve
        good, bad = self.part_counts()
        return {
            "format": EVALUATION_FORMAT,
            "version": __version__,
            "detector": detector.file,
            "threshold": detector.threshold,
            "map_threshold": detector.map_threshold,
            "threshold_from": detector.threshold_from,
            "good_parts": good,
            "defects": bad,
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
            "thresholds": [point.to_dict(detector.threshold) for point in self.points],
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


def _left_out(learnt: tuple[str, ...], named: int = 3) -> str:
    """One sentence on good parts that the detector has learnt."""
    more = f" and {len(learnt) - named} more" if len(learnt) > named else ""
    names = ", ".join(learnt[:named]) + more
    if len(learnt) == 1:
        return f"A good part that the detector has learnt is left out, it would flatter: {names}."
    return (
        f"{len(learnt)} good parts that the detector has learnt are left out, they would flatter:"
        f" {names}."
    )


def _confusion(images: Iterable[EvaluatedImage]) -> Confusion:
    verdicts: dict[bool, list[bool]] = {False: [], True: []}
    for image in images:
        verdicts[image.bad].append(bool(image.anomalous))
    good, bad = (Rate(sum(found), len(found)) for found in verdicts.values())
    return Confusion(good, bad)


def _auroc(pairs: list[tuple[float, bool]]) -> float | None:
    scores = np.array([value for value, _ in pairs])
    return image_metrics([bad for _, bad in pairs], scores)["I-AUROC"]
