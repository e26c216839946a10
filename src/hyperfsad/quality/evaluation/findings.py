"""All that an evaluation has found out, and the figures that follow from it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..metrics import image_metrics
from .figures import BEST, Confusion, Curve, OperatingPoint, Rate, operating_points
from .inspected import Inspected, Shot

FEW = 20
"""With fewer parts of a kind, one of them is more than 5 %."""
MOST_NAMED = 3
CHANCE = 0.5
"""The balanced accuracy of one and the same verdict on all images."""


@dataclass(frozen=True)
class Judge:
    """The detector, as far as the figures need it."""

    file: str
    """How commands name it."""
    threshold: float | None
    map_threshold: float | None = None
    """Where the map has a say in the verdict."""
    threshold_from: str | None = None
    products: tuple[str, ...] = ()
    """The names of its products, if it knows several; then each has a threshold of its own."""


@dataclass(frozen=True)
class Findings:
    """Images with their truth and their verdict, and all figures of them."""

    judge: Judge
    images: tuple[Inspected, ...]
    learnt: tuple[str, ...] = ()
    """Good parts that were left out, since the detector knows them by heart."""
    missed: tuple[Shot, ...] = ()
    alarms: tuple[Shot, ...] = ()
    pixels: dict[str, float | None] | None = None
    """P-AUROC, PRO and P-AP, where there are masks."""
    pixel_side: int | None = None
    """The side at which maps and masks were compared."""
    notes: tuple[str, ...] = ()
    """What was passed over, a sentence each."""

    @cached_property
    def failed(self) -> list[Inspected]:
        """Images that could not be read."""
        return [image for image in self.images if image.error is not None]

    @cached_property
    def scored(self) -> list[Inspected]:
        """Images that could be read."""
        return [image for image in self.images if image.error is None]

    @cached_property
    def judged(self) -> list[Inspected]:
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
        """What the ROC and the histogram run over: the score where it alone decides."""
        several = bool(self.judge.products) or self.judge.map_threshold is not None
        return "strength" if self.has_verdicts and several else "score"

    @cached_property
    def curve(self) -> Curve:
        """All verdicts that other thresholds would give; over the score if there is none."""
        pairs = list(self._values("strength" if self.has_verdicts else "score"))
        return Curve([v for v, bad in pairs if not bad], [v for v, bad in pairs if bad])

    @cached_property
    def points(self) -> list[OperatingPoint]:
        """What other thresholds would do; nothing without a current one."""
        return operating_points(self.curve, self.judge.threshold) if self.has_verdicts else []

    @property
    def better(self) -> OperatingPoint | None:
        """The threshold that would have judged these images best; None where it is the current one
        or no better than chance, and where most images show another product."""
        best = next((point for point in self.points if BEST in point.names), None)
        if best is None or best.current or self.mostly_foreign:
            return None
        return best if (best.confusion.balanced_accuracy or 0.0) > CHANCE else None

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
        """Of the score, and of the strength where it ranks otherwise; None for one kind of part."""
        found = {"score": _auroc(self._values("score"))}
        if self.has_verdicts:
            strength = _auroc(self._values("strength"))
            found |= {"strength": strength} if strength != found["score"] else {}
        return found

    def axis_values(self) -> list[tuple[float, bool | None]]:
        """What the histogram counts: a value for each image, and whether it shows a defect."""
        return list(self._values(self.axis))

    def sentences(self) -> Iterator[str]:
        """What a reader of the figures has to know beside them."""
        if not self.scored:
            yield "No image could be read, so there are no figures."
            return
        yield from self._about_foreign()
        yield from self._about_thresholds()
        counts = [sum(image.bad is bad for image in self.scored) for bad in (False, True)]
        for count, what, other in zip(
            counts, ("good part", "defect"), ("bad", "good"), strict=True
        ):
            if count == 0:
                missing = "good parts" if what == "good part" else "defects"
                yield f"There are no {missing} here, so {other} parts are all that can be judged."
            elif count < FEW:
                plural = "s" if count > 1 else ""
                yield (
                    f"With {count} {what}{plural}, one of them is {100 / count:.3g} %: read the"
                    " rate with its interval."
                )
        if self.learnt:
            yield left_out(self.learnt)
        if self.failed:
            yield f"{_images(len(self.failed))} could not be read and {_is(self.failed)} left out."
        yield from self.notes

    def _about_foreign(self) -> Iterator[str]:
        if not self.foreign:
            return
        one, several = self.foreign == 1, bool(self.judge.products)
        does = ("fits" if one else "fit") if several else ("looks" if one else "look")
        what = "none of its products" if several else "like another product than its good parts"
        told = f"{self.foreign:,} of {_images(len(self.scored))} {does} {what}"
        if self.mostly_foreign:
            yield (
                f"{told}, so these figures mean little: is {self.judge.file} the right detector,"
                " and are light and camera the same?"
            )
        else:
            yield f"{told}, so {'its score means' if one else 'their scores mean'} little."

    def _about_thresholds(self) -> Iterator[str]:
        unjudged = len(self.scored) - len(self.judged)
        if not self.has_verdicts:
            product = " --product NAME" if self.judge.products else ""
            yield (
                "The detector has no threshold, so there are no verdicts; run `hyperfsad calibrate"
                f" {self.judge.file}{product}` to estimate one from the parts that it has learnt,"
                " or add further good parts to bound the false alarms."
            )
        elif unjudged:
            yield f"{_images(unjudged)} went to a product without a threshold: no verdict."

    def _values(self, name: str) -> Iterator[tuple[float, bool]]:
        for image in self.scored:
            value: float | None = getattr(image, name)
            if value is not None:
                yield value, image.bad


def left_out(learnt: tuple[str, ...]) -> str:
    """One sentence on good parts that the detector knows by heart."""
    more = f" and {len(learnt) - MOST_NAMED} more" if len(learnt) > MOST_NAMED else ""
    names = ", ".join(learnt[:MOST_NAMED]) + more
    if len(learnt) == 1:
        return f"A good part that the detector has learnt is left out, it would flatter: {names}."
    return (
        f"{len(learnt)} good parts that the detector has learnt are left out, they would flatter:"
        f" {names}."
    )


def _confusion(images: Iterable[Inspected]) -> Confusion:
    verdicts: dict[bool, list[bool]] = {False: [], True: []}
    for image in images:
        verdicts[image.bad].append(bool(image.anomalous))
    good, bad = (Rate(sum(found), len(found)) for found in verdicts.values())
    return Confusion(good, bad)


def _auroc(values: Iterable[tuple[float, bool]]) -> float | None:
    pairs = list(values)
    scores = np.array([value for value, _ in pairs])
    return image_metrics([bad for _, bad in pairs], scores)["I-AUROC"]


def _images(count: int) -> str:
    return f"{count} image{'' if count == 1 else 's'}"


def _is(items: list[Inspected]) -> str:
    return "is" if len(items) == 1 else "are"
