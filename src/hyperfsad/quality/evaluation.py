"""Evaluation: images with their truth and their verdict, and all figures that follow from them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..messages import Notice
from ..version import __version__
from ..wording import count
from .advice import Judged, advice, tells_apart
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
IMAGE_FIELDS = (
    *("image", "truth", "kind", "verdict", "score", "level", "error", "product", "foreign"),
)
"""Of an image in images.csv and evaluation.json."""
SMALL_SAMPLE = 20
"""With fewer parts of a kind, one of them is more than 5 %."""
MAX_NAMED = 3
"""Learnt parts that a sentence names."""


@dataclass(frozen=True)
class EvaluatedImage:
    """One image: what it is, and what the detector says."""

    image: str
    bad: bool
    kind: str
    """The kind of defect, or good."""
    score: float | None
    level: float | None
    """How far it reaches; 1 is the limit."""
    anomalous: bool | None
    error: str | None = None
    """One sentence, if the image could not be read."""
    product: str | None = None
    """The product whose thresholds applied, if the detector knows several."""
    foreign: bool = False
    """Whether it looks like another product than the good parts; its score then means little."""
    jpeg: str = ""
    """Of the worst errors: the picture, small, as base64."""
    overlay: str = ""
    """And its map, a PNG with transparency, as base64."""

    @property
    def wrong(self) -> bool:
        """Whether the verdict contradicts the truth; no verdict is not an error."""
        return self.anomalous is not None and self.anomalous != self.bad

    @property
    def truth(self) -> str:
        """In one word."""
        return "bad" if self.bad else "good"

    @property
    def verdict(self) -> str | None:
        """In one word."""
        return None if self.anomalous is None else "anomalous" if self.anomalous else "good"

    def to_dict(self) -> dict[str, Any]:
        """The row of the image in images.csv and evaluation.json."""
        return {name: getattr(self, name) for name in IMAGE_FIELDS}


@dataclass(frozen=True)
class Evaluation:
    """How good the verdicts are on known parts, and what other thresholds would do."""

    file: str
    """How commands name the detector."""
    images: tuple[EvaluatedImage, ...]
    threshold: float | None
    """None without one, and where each of several products has its own."""
    map_threshold: float | None = None
    """If regions of the map decide, too."""
    product_names: tuple[str, ...] = ()
    """If the detector knows several."""
    learnt: tuple[str, ...] = ()
    """Good parts that were left out, since the detector has learnt them."""
    support: int = 0
    """How many good parts the detector has learnt."""
    adapted: bool = False
    """Whether it has learnt from the line."""
    missed: tuple[EvaluatedImage, ...] = ()
    false_alarms: tuple[EvaluatedImage, ...] = ()
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
    def decided(self) -> list[EvaluatedImage]:
        """Images with a verdict."""
        return [image for image in self.scored if image.anomalous is not None]

    @property
    def has_verdicts(self) -> bool:
        """Whether there is a threshold, hence a verdict."""
        return bool(self.decided)

    @cached_property
    def confusion(self) -> Confusion:
        """Verdicts against the truth."""
        return _confusion(self.decided)

    @cached_property
    def kinds(self) -> dict[str, Rate]:
        """How many defects of each kind are found."""
        bad = [image for image in self.decided if image.bad]
        groups = sorted({image.kind for image in bad})
        return {kind: _confusion(i for i in bad if i.kind == kind).found for kind in groups}

    @cached_property
    def products(self) -> dict[str, Confusion]:
        """Verdicts against the truth for each product, if the detector knows several."""
        groups = sorted({image.product for image in self.decided if image.product is not None})
        return {name: _confusion(i for i in self.decided if i.product == name) for name in groups}

    @property
    def axis(self) -> str:
        """What the ROC and the histogram run over."""
        return "level" if self.has_verdicts else "score"

    @cached_property
    def curve(self) -> RocCurve:
        """All verdicts that other thresholds would give."""
        pairs = self.values(self.axis)
        return RocCurve([v for v, bad in pairs if not bad], [v for v, bad in pairs if bad])

    @cached_property
    def points(self) -> list[OperatingPoint]:
        """What other thresholds would do; nothing without a current one."""
        return operating_points(self.curve, self.threshold) if self.has_verdicts else []

    @property
    def better(self) -> OperatingPoint | None:
        """The threshold with the best verdicts on these images; None if it is the current one,
        if the detector does not surely tell the parts apart, and if most images show another
        product."""
        best = next((point for point in self.points if BEST_ACCURACY in point.names), None)
        if best is None or best.current or self.mostly_foreign:
            return None
        return best if tells_apart(self._ranking, *self.part_counts()) else None

    @property
    def _ranking(self) -> float | None:
        """The AUROC of what verdicts follow from."""
        return self.auroc.get(self.axis, self.auroc["score"])

    @property
    def advice(self) -> list[Notice]:
        """What to do about wrong verdicts, the first thing first."""
        if not self.has_verdicts or self.mostly_foreign:
            return []
        good, bad = self.part_counts()
        wrong = [image for image in self.decided if image.wrong]
        found = Judged(
            learnt=self.support,
            good=good,
            bad=bad,
            alarms=[image.image for image in wrong if not image.bad],
            missed=sum(image.bad for image in wrong),
            auroc=self._ranking,
            adapted=self.adapted,
            threshold_helps=self.better is not None,
        )
        return advice(found)

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
        """Of the score, and of the level if it ranks otherwise; None for one kind of part."""
        found = {}
        for name in dict.fromkeys(("score", self.axis)):
            pairs = self.values(name)
            scores = np.array([value for value, _ in pairs])
            found[name] = image_metrics([bad for _, bad in pairs], scores)["I-AUROC"]
        return found if len(set(found.values())) > 1 else {"score": found["score"]}

    def values(self, name: str) -> list[tuple[float, bool]]:
        """The score or the level of each image, and whether it shows a defect."""
        pairs = ((getattr(image, name), image.bad) for image in self.scored)
        return [(value, bad) for value, bad in pairs if value is not None]

    def part_counts(self) -> tuple[int, int]:
        """How many good parts and how many defects could be read."""
        bad = sum(image.bad for image in self.scored)
        return len(self.scored) - bad, bad

    def sentences(self) -> Iterator[str]:
        """What a reader of the figures has to know beside them."""
        several = bool(self.product_names)
        if not self.scored:
            yield "No image could be read, so there are no figures."
            return
        if self.foreign:
            what = "none of its products" if several else "another product than its good parts"
            mean = "such scores mean little."
            if self.mostly_foreign:
                mean = (
                    f"these figures mean little: is {self.file} the right detector, and are light"
                    " and camera the same?"
                )
            yield (
                f"{self.foreign:,} of {count(len(self.scored), 'image')} may show {what}, so {mean}"
            )
        if not self.has_verdicts:
            yield (
                "The detector has no threshold, so there are no verdicts; run hyperfsad calibrate"
                f" {self.file}{' --product NAME' if several else ''} to estimate one from the parts"
                " that it has learnt, or add further good parts to bound the false alarms."
            )
        elif undecided := len(self.scored) - len(self.decided):
            yield f"{count(undecided, 'image')} went to a product without a threshold: no verdict."
        for number, what in zip(self.part_counts(), ("good part", "defect"), strict=True):
            if number == 0:
                yield f"There are no {what}s here, so only one kind of error can be counted."
            elif number < SMALL_SAMPLE:
                yield (
                    f"With {count(number, what)}, one of them is {100 / number:.3g} %: read the"
                    " rate with its interval."
                )
        if self.learnt:
            hidden = len(self.learnt) - MAX_NAMED
            more = f" and {hidden} more" if hidden > 0 else ""
            names = ", ".join(self.learnt[:MAX_NAMED])
            yield f"Parts that it has learnt score too well and are left out: {names}{more}."
        if self.failed:
            yield f"{count(len(self.failed), 'image')} could not be read and had to be left out."
        yield from self.notes
        yield from map(str, self.advice)

    def to_dict(self) -> dict[str, Any]:
        """All figures, and each image; what evaluation.json holds."""
        confusion = self.confusion
        good, bad = self.part_counts()
        return {
            "format": EVALUATION_FORMAT,
            "version": __version__,
            "detector": self.file,
            "threshold": self.threshold,
            "map_threshold": self.map_threshold,
            "good_parts": good,
            "defects": bad,
            "failed": len(self.failed),
            "without_verdict": len(self.scored) - len(self.decided),
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
            "thresholds": [point.to_dict(self.threshold) for point in self.points],
            "pixels": None if self.pixels is None else {**self.pixels, "side": self.pixel_side},
            "notes": list(self.sentences()),
            "advice": [{"code": step.code, "facts": dict(step.facts)} for step in self.advice],
            "images": [image.to_dict() for image in self.images],
        }


def _confusion(images: Iterable[EvaluatedImage]) -> Confusion:
    verdicts: dict[bool, list[bool]] = {False: [], True: []}
    for image in images:
        verdicts[image.bad].append(bool(image.anomalous))
    good, bad = (Rate(sum(found), len(found)) for found in verdicts.values())
    return Confusion(good, bad)
