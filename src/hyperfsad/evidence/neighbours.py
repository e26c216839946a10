"""The normal patches that rebuild a patch: the active rows of a memory, and their images."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ..arrays import Array, to_numpy, top_k
from ..images.geometry import rotate_back
from ..images.loading import LoadedImage, NormalImage

if TYPE_CHECKING:
    from ..method.matching import Comparison

MOST_NEIGHBOURS = 512
"""Active patches listed of a layer: sparsemax has dozens, dense lookups have the whole memory."""


@dataclass(frozen=True)
class NormalPatch:
    """A patch of a support image."""

    image: str
    """The support image's name, as it was given when the detector learnt."""
    sha256: str
    """The hash of its pixels."""
    view: int
    """0 is the image itself; others are the copies that the detector makes of it, such as turns."""
    row: int
    column: int
    """On the patch grid of that view."""
    angle: float
    """Degrees, counterclockwise, by which the view is turned."""
    centre: tuple[float, float]
    """x and y of the patch's centre in the support image as it is on disk, as parts of its width
    and height."""


@dataclass(frozen=True)
class NormalView:
    """A support image in one orientation."""

    image: NormalImage
    view: int = 0
    angle: float = 0.0
    """As in `NormalPatch`."""

    @property
    def name(self) -> str:
        """The image's name, and the turn of a copy."""
        return f"{self.image.name} (turned {self.angle:g}°)" if self.angle else self.image.name

    def patch(self, row: int, column: int, rows: int, columns: int) -> NormalPatch:
        """A patch of its grid."""
        x, y = (column + 0.5) / columns, (row + 0.5) / rows
        image, centre = self.image, rotate_back(x, y, self.angle, self.image.size or (1, 1))
        return NormalPatch(image.name, image.sha256, self.view, row, column, self.angle, centre)


@dataclass(frozen=True)
class Neighbour(NormalPatch):
    """An active normal patch."""

    weight: float
    similarity: float
    """Its cosine to the query patch."""
    rows: int
    columns: int
    """Of its view's patch grid."""

    @classmethod
    def of(
        cls, patch: NormalPatch, weight: float, similarity: float, shape: tuple[int, int]
    ) -> "Neighbour":
        """A patch of a grid of a shape, with its weight and similarity."""
        rows, columns = shape
        return cls(**vars(patch), weight=weight, similarity=similarity, rows=rows, columns=columns)

    @property
    def copy(self) -> str:
        """Which view of the image it is, in brackets; nothing for the image itself."""
        if self.angle:
            return f" (turned {self.angle:g}°)"
        return f" (copy {self.view})" if self.view else ""

    @property
    def place(self) -> tuple[float, float, float, float]:
        """Its x, y, width and height as parts of its view's width and height."""
        width, height = 1 / self.columns, 1 / self.rows
        return self.column * width, self.row * height, width, height


Namer: TypeAlias = Callable[[int, float, float], Neighbour]
"""The neighbour at a row of a memory, given its weight and its similarity."""


@dataclass(frozen=True)
class LayerEvidence:
    """What one layer of the encoder says of the patch."""

    layer: int
    unexplained: float
    """1 − cos of the patch and its reconstruction."""
    rest: float
    """The weight of all further patches; 0 but for dense lookups."""
    neighbours: tuple[Neighbour, ...]
    """By weight, the largest first."""

    @property
    def rebuilt_from(self) -> str:
        """How many normal patches are active."""
        count = len(self.neighbours)
        return f"{count} normal patch{'' if count == 1 else 'es'}"


def layer_evidence(
    layer: int, query: Array, memory: Array, how: "Comparison", named: Namer
) -> LayerEvidence:
    """The active rows of a memory (M, D) for one query patch (D,), `named` as neighbours."""
    from ..method.lookups import LOOKUPS, SPARSE
    from ..method.scoring import cosines

    similarities = query[None] @ memory.T
    sharp = how.sharpness * similarities
    if how.lookup in SPARSE:
        ((_, index, weights),) = [group for group in SPARSE[how.lookup](sharp) if len(group[0])]
        index, weights = index[0], weights[0]
    else:
        weights, index = top_k(LOOKUPS[how.lookup](sharp)[0], len(memory))
    unexplained = 1 - float(cosines(query, weights @ memory[index]))
    index, weights = to_numpy(index), to_numpy(weights)
    active = int((weights > 0).sum())
    listed = min(active, MOST_NEIGHBOURS)
    alike = to_numpy(similarities)[0, index[:listed]].tolist()
    rows = zip(index[:listed].tolist(), weights[:listed].tolist(), alike, strict=True)
    rest = max(0.0, float(weights[listed:].sum())) if listed < active else 0.0
    return LayerEvidence(layer, unexplained, rest, tuple(named(*row) for row in rows))


@dataclass(frozen=True)
class MissingPiece:
    """A patch of a good part that an image lacks."""

    patch: Neighbour
    """Where it is in the good part; its similarity is that of the most similar patch near the place
    where it should be."""
    excess: float
    """By how many times more than it ever varied among the good parts it differs, at most 1."""

    @property
    def words(self) -> str:
        """What is missing, in a few words."""
        across, down = self.patch.centre
        times = f"{'at least ' if self.excess >= 1 else ''}{1 + self.excess:.1f} times"
        return (
            f"missing here: what {self.patch.image} shows at {100 * across:.0f} %,"
            f" {100 * down:.0f} %; what is nearest to it differs {times} as much as good parts do"
            " there"
        )


@dataclass(frozen=True)
class LineEvidence:
    """The unlabelled parts that brought a patch nearer to normal than the good parts do."""

    asked: int
    """Unlabelled parts; the image itself, where it was learnt, is not one of them."""
    needed: int
    """How many of them must have a patch: the distance to the last of these counts."""
    support: float
    """What the good parts leave unexplained."""
    distances: tuple[float, ...]
    """Of the parts that leave less, the nearest first."""
    patches: tuple[Neighbour, ...]
    """The most similar patch of each of these parts, with its cosine, by the mean of the layers."""

    def words(self, shown: float, level: float | None) -> str:
        """How many parts have it, and what that does, where the map shows a value; above the level
        a place counts as a defect."""
        found = f"{len(self.patches)} of {self.asked} unlabelled parts"
        if level is not None and shown <= level < self.support:
            return f"normal because {found} have it"
        far = ", but not near enough" if level is not None and shown > level else ""
        return f"{found} come nearer than the good parts{far}"


def as_it_is(image: LoadedImage) -> list[LoadedImage]:
    """Remembers a support image in one orientation."""
    return [image]
