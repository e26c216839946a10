"""Which defect an image shows: that of the nearest of a few examples which somebody has named.

How near a defect is comes half from its nearest example and half from all of them: so one that has
more examples is not named more often for that alone.

Examples of different defects are somewhat alike, too: all show places that good parts do not have.
So an image is `unknown` unless it is nearer to an example than these are to one another. How near
that is differs between products, and a few examples say little, so it is taken half way towards
what is usual.
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from ..errors import UsageError, brief
from ..method.signature import Signature

UNKNOWN = "unknown"
"""What a defect is called that resembles none of the examples."""
LONGEST_DEFECT_NAME = 60
"""Characters."""
MOST_EXAMPLES = 500
"""Of all defects of a product; four of each are enough."""
USUAL_LIKENESS = 0.4
"""Of examples of different defects, on seven products (docs/measurements/defects.md)."""


@dataclass(frozen=True)
class DefectExample:
    """A bad part whose defect somebody has named."""

    defect: str
    image: str
    """The name of the picture."""
    sha256: str
    """The hash of its pixels."""
    signature: Signature


@dataclass(frozen=True)
class NamedDefect:
    """The name of a defect, and how like it an image is."""

    defect: str
    likeness: float
    """To the nearest example of it, 1 means the same; of an `unknown` one, of the defect that it
    is nearest to."""


@dataclass(frozen=True)
class TaughtDefects:
    """The examples of a product, by which further defects are named."""

    examples: tuple[DefectExample, ...] = ()

    @property
    def counts(self) -> Counter[str]:
        """How many examples each defect has, in the order in which they were taught."""
        return Counter(example.defect for example in self.examples)

    def with_example(self, example: DefectExample) -> "TaughtDefects":
        """With one more; a picture that was taught before is what it was called last."""
        kept = [one for one in self.examples if one.sha256 != example.sha256]
        if len(kept) >= MOST_EXAMPLES:
            raise UsageError("examples-many", most=MOST_EXAMPLES)
        return replace(self, examples=(*kept, example))

    def without(self, defect: str) -> "TaughtDefects":
        """Without the examples of a defect."""
        if defect not in self.counts:
            raise UsageError("defect-not-taught", defect=defect, known=[*self.counts])
        return replace(self, examples=tuple(o for o in self.examples if o.defect != defect))

    def without_example(self, sha256: str) -> "TaughtDefects":
        """Without one example, given by the hash of its pixels."""
        return replace(self, examples=tuple(o for o in self.examples if o.sha256 != sha256))

    @cached_property
    def least_likeness(self) -> float:
        """With less, an image is like none of the examples."""
        if len(self.counts) < 2:
            return least_likeness([])
        return least_likeness(
            [
                max(
                    one.signature.likeness(other.signature)
                    for other in self.examples
                    if other.defect != one.defect
                )
                for one in self.examples
            ]
        )

    def name(self, signature: Signature | None) -> NamedDefect:
        """The defect of a signature, or `unknown` where no example is near."""
        if signature is None:
            return NamedDefect(UNKNOWN, 0.0)
        likenesses: dict[str, list[float]] = {}
        for one in self.examples:
            own = likenesses.setdefault(one.defect, [])
            own.append(signature.likeness(one.signature))
        defect = max(likenesses, key=lambda name: nearness(likenesses[name]))
        likeness = max(likenesses[defect])
        return NamedDefect(defect if likeness >= self.least_likeness else UNKNOWN, likeness)


def nearness(likenesses: Sequence[float]) -> float:
    """How near a defect is, from the likenesses of its examples."""
    return (max(likenesses) + fmean(likenesses)) / 2


def least_likeness(others: Sequence[float]) -> float:
    """Below it an image is like no example; `others` are the likenesses of each to the nearest
    example of another defect, none where there is only one defect."""
    return (USUAL_LIKENESS + fmean(others)) / 2 if others else USUAL_LIKENESS


def defect_name(text: object) -> str:
    """The name of a defect; blanks around it do not count."""
    name = text.strip() if isinstance(text, str) else ""
    shown = all(unicodedata.category(character)[0] != "C" for character in name)
    if not name or not shown or len(name) > LONGEST_DEFECT_NAME or name.casefold() == UNKNOWN:
        raise UsageError("defect-name", given=brief(text), longest=LONGEST_DEFECT_NAME)
    return name
