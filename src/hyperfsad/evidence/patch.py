"""Evidence: the normal patches that rebuilt a patch, their weights, and what they leave over.

Sparse Hyper Matching rebuilds a patch from a few normal ones, ε = w·P; the map shows 1 − cos(q, ε).
The active rows of w are the whole reason for the number, so they can be shown. Results keep no
tokens (of a thousand images they would take gigabytes): the image is encoded again when it is
asked about, by the detector that judged it.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from ..decisions.route import NO_ROUTE, Route
from ..images.geometry import rotate_back
from ..images.loading import LoadedImage, NormalImage
from ..wording import as_rows


def against(value: float, threshold: float) -> str:
    """How far a score or a map reaches, in the one unit that both share: their thresholds."""
    ratio = f"{value / threshold:.2f}" if threshold > 0 else ""
    if ratio in ("", "1.00"):  # one that is barely above must not look as if it were not
        how = "just above" if ratio else "above"
        far = f"{how if value > threshold else 'not above'} its threshold"
    else:
        far = f"{ratio} times its threshold"
    return f"{far} of {threshold:.3f}"


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
    """Degrees, against the clock, by which the view is turned."""
    centre: tuple[float, float]
    """x and y of the patch's centre in the support image as it is on disk, as parts of its width
    and height."""


@dataclass(frozen=True)
class NormalView:
    """A support image in one orientation."""

    image: NormalImage
    view: int = 0
    """0 is the image itself; others are turned copies."""
    angle: float = 0.0
    """Degrees, against the clock, by which it is turned."""

    @property
    def name(self) -> str:
        """The image's name, and the turn of a copy."""
        return f"{self.image.name} (turned {self.angle:g}°)" if self.angle else self.image.name

    def patch(self, row: int, column: int, rows: int, columns: int) -> NormalPatch:
        """A patch of its grid."""
        x, y = (column + 0.5) / columns, (row + 0.5) / rows
        centre = rotate_back(x, y, self.angle, self.image.size or (1, 1))
        image = self.image
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


def as_it_is(image: LoadedImage) -> list[LoadedImage]:
    """Remembers a support image in one orientation."""
    return [image]


@dataclass(frozen=True)
class PatchEvidence:
    """Why the map has its value at one patch of an image."""

    image: str
    x: float
    y: float
    row: int
    column: int
    grid: int
    """Patches along each side of what the encoder sees at once: the image, or a tile."""
    bbox: tuple[float, float, float, float]
    """The patch: x, y, width and height in the image's own pixels."""
    value: float
    """The mean of what the layers leave unexplained: the map's value but for missing pieces, or
    that of the tile whose centre is nearest."""
    layers: tuple[LayerEvidence, ...]
    picture: LoadedImage = field(repr=False, compare=False)
    shown: float
    """The map's value, with what a missing piece adds to it; where tiles overlap, the weighted mean
    of theirs."""
    rows: int
    columns: int
    """Of the patch grid over the whole image."""
    orientations: Callable[[LoadedImage], list[LoadedImage]] = field(
        repr=False, compare=False, default=as_it_is
    )
    """What the detector remembers of a support image: itself, and perhaps turned copies."""
    route: Route | None = None
    """The image's product, where the detector knows several; its good parts are the support."""
    missing: MissingPiece | None = None
    """The piece of a good part that should be here, where one is missing."""
    verdict: str | None = None
    """What was said of the whole image, in a few words; None where it was not judged."""
    anomalous: bool | None = None
    map_threshold: float | None = None
    """Above it a place of the map counts as a defect."""

    def place(self, neighbour: Neighbour) -> tuple[float, float, float, float]:
        """A neighbour's x, y, width and height as parts of its view's width and height."""
        width, height = 1 / neighbour.columns, 1 / neighbour.rows
        return neighbour.column * width, neighbour.row * height, width, height

    def to_dict(self) -> dict[str, Any]:
        """All of it but the pictures; `place` is a box in the view that was matched, `centre` its
        middle in the support image as it is on disk, both as parts of width and height."""
        layers = [asdict(layer) for layer in self.layers]
        for stored, layer in zip(layers, self.layers, strict=True):
            for fields, neighbour in zip(stored["neighbours"], layer.neighbours, strict=True):
                fields["place"] = self.place(neighbour)
        names = ["image", "x", "y", "row", "column", "grid", "bbox", "value"]
        names += ["shown", "rows", "columns", "verdict", "anomalous", "map_threshold"]
        own = {name: getattr(self, name) for name in names}
        missing = None if self.missing is None else asdict(self.missing)
        return {
            **own,
            "layers": layers,
            "missing": missing,
            **(self.route.to_dict() if self.route else NO_ROUTE),
        }

    def to_json(self) -> str:
        """`to_dict()` as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @property
    def shown_words(self) -> str:
        """What the map shows at the patch, against its threshold."""
        found = f"map {self.shown:.3f}"
        if self.map_threshold is None:
            return found
        return f"{found}, {against(self.shown, self.map_threshold)}"

    @property
    def unexplained_words(self) -> str:
        """What the good parts leave over, and why the map shows another value."""
        words = f"{self.value:.3f} unexplained by the good parts (mean of the layers)"
        if f"{self.shown:.3f}" == f"{self.value:.3f}":
            return words
        added = "" if self.missing is None else " and adds what is missing"
        return f"{words}; the map averages it with its neighbours{added}"

    def to_text(self, most: int = 5) -> str:
        """A table for people, with the `most` heaviest neighbours of each layer."""
        lines = [] if self.verdict is None else [self.verdict]
        lines += [
            f"{self.image} at {self.x:.0f}, {self.y:.0f}"
            f" (patch row {self.row}, column {self.column} of {self.rows}×{self.columns}):"
            f" {self.shown_words}",
            self.unexplained_words,
        ]
        if self.route is not None:
            lines.append(self.route.to_text())
        if self.missing is not None:
            lines.append(self.missing.words)
        for layer in self.layers:
            found = f"rebuilt from {layer.rebuilt_from}, {layer.unexplained:.3f} unexplained"
            lines.append(f"layer {layer.layer}: {found}")
            lines.append("   weight  similarity  place        support image")
            for n in layer.neighbours[:most]:
                place = f"{100 * n.centre[0]:.0f} %, {100 * n.centre[1]:.0f} %"
                numbers = f"  {100 * n.weight:5.1f} %{n.similarity:12.3f}"
                lines.append(f"{numbers}  {place:12} {n.image}{n.copy}")
            left = sum(n.weight for n in layer.neighbours[most:]) + layer.rest
            if left > 0:
                lines.append(f"  {100 * left:5.1f} %              of all others")
        return as_rows(lines)
