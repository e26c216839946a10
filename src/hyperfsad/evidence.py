"""Evidence: the normal patches that rebuilt a patch, their weights, and what they leave over.

Sparse Hyper Matching rebuilds a patch from a few normal ones, ε = w·P; the map shows 1 − cos(q, ε).
The active rows of w are the whole reason for the number, so they can be shown. Results keep no
tokens (of a thousand images they would take gigabytes): the image is encoded again when it is
asked about, by the detector that judged it.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from .base import ImageTokens
from .errors import UsageError
from .images import LoadedImage
from .matcher import Comparison
from .matching import LOOKUPS, SPARSE
from .memory import NormalImage
from .routing import Route, route_fields
from .turning import turned_back

if TYPE_CHECKING:
    from PIL import Image

    from .detector import HyperFSAD
    from .results import AnomalyResult

MOST_NEIGHBOURS = 512
"""Active patches listed of a layer: sparsemax has dozens, dense lookups have the whole memory."""

SAME = 1e-3
"""An image or a detector has changed when the map now differs by more than rounding explains."""


@dataclass(frozen=True)
class Neighbour:
    """An active normal patch."""

    image: str
    """The support image's name, as it was given when the detector learnt."""
    sha256: str
    """The hash of its pixels."""
    view: int
    """0 is the image itself; others are the copies that the detector makes of it, such as turns."""
    row: int
    column: int
    """On the patch grid of that view."""
    weight: float
    similarity: float
    """Its cosine to the query patch."""
    rows: int
    columns: int
    """Of that patch grid."""
    angle: float = 0.0
    """Degrees, against the clock, by which the view is turned."""
    centre: tuple[float, float] = (0.0, 0.0)
    """x and y of the patch's centre in the support image as it is on disk, as parts of its width
    and height."""

    @property
    def copy(self) -> str:
        """Which view of the image it is, in brackets; nothing for the image itself."""
        if self.angle:
            return f" (turned {self.angle:g}°)"
        return f" (copy {self.view})" if self.view else ""


Namer: TypeAlias = Callable[[int, float, float], Neighbour]
"""What is told of a row of a memory, given its weight and its similarity."""


@dataclass(frozen=True)
class LayerEvidence:
    """What one layer of the encoder says of the patch."""

    layer: int
    unexplained: float
    """1 − cos of the patch and its reconstruction."""
    neighbours: tuple[Neighbour, ...]
    """By weight, the largest first."""
    rest: float = 0.0
    """The weight of all further patches; 0 but for dense lookups."""
    scale: int = 1
    """1: the patch and its neighbours by themselves; 3: each averaged over 3×3 patches."""

    @property
    def name(self) -> str:
        """The layer, and whether the patch was averaged with its neighbours."""
        return f"layer {self.layer}" + (", neighbourhood" if self.scale > 1 else "")


@dataclass(frozen=True)
class Evidence:
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
    """The mean of what the layers leave unexplained, at all scales: the map's value, or that of
    the tile whose centre is nearest."""
    layers: tuple[LayerEvidence, ...]
    picture: LoadedImage = field(repr=False, compare=False)
    views: Callable[[LoadedImage], list[LoadedImage]] = field(repr=False, compare=False)
    """What the detector remembers of a support image."""
    shown: float
    """The map's value; where tiles overlap, the weighted mean of theirs."""
    rows: int
    columns: int
    """Of the patch grid over the whole image."""
    route: Route | None = None
    """The image's product, where the detector knows several; its good parts are the support."""

    def place(self, neighbour: Neighbour) -> tuple[float, float, float, float]:
        """A neighbour's x, y, width and height as parts of its view's width and height."""
        width, height = 1 / neighbour.columns, 1 / neighbour.rows
        return neighbour.column * width, neighbour.row * height, width, height

    def plot(self, normal: Sequence[str | os.PathLike[str]] = ()) -> "Image.Image":
        """The patch in its image, its neighbours in theirs, and what is left unexplained.

        Support images are looked for under their stored names, then by their hash in `normal`
        (files, globs or folders). Of those that are not on disk any more, only the names and places
        are shown.
        """
        from .evidence_plot import draw_evidence

        return draw_evidence(self, normal)

    def save(
        self, path: str | os.PathLike[str], normal: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        """Writes the picture of `plot()`; the kind of file follows from the name."""
        from .render import save_picture

        save_picture(self.plot(normal), Path(path))

    def to_dict(self) -> dict[str, Any]:
        """All of it but the pictures; `place` is a box in the view that was matched, `centre` its
        middle in the support image as it is on disk, both as parts of width and height."""
        layers = [
            {
                "layer": layer.layer,
                "scale": layer.scale,
                "unexplained": layer.unexplained,
                "rest": layer.rest,
                "neighbours": [{**asdict(n), "place": self.place(n)} for n in layer.neighbours],
            }
            for layer in self.layers
        ]
        names = ["image", "x", "y", "row", "column", "grid", "bbox", "value"]
        names += ["shown", "rows", "columns"]
        fields = {name: getattr(self, name) for name in names}
        return {**fields, "layers": layers, **route_fields(self.route)}

    def to_json(self) -> str:
        """`to_dict()` as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def to_text(self, most: int = 5) -> str:
        """A table for people, with the `most` heaviest neighbours of each layer."""
        lines = [
            f"{self.image} at {self.x:.0f}, {self.y:.0f}"
            f" (patch row {self.row}, column {self.column} of {self.rows}×{self.columns}):"
            f" {self.value:.3f} unexplained"
        ]
        if self.route is not None:
            lines.append(self.route.to_text())
        for layer in self.layers:
            count = len(layer.neighbours)
            patches = "1 normal patch" if count == 1 else f"{count} normal patches"
            lines.append(
                f"{layer.name}: rebuilt from {patches}, {layer.unexplained:.3f} unexplained"
            )
            lines.append("  weight  similarity  place        support image")
            for n in layer.neighbours[:most]:
                place = f"{100 * n.centre[0]:.0f} %, {100 * n.centre[1]:.0f} %"
                numbers = f"  {100 * n.weight:4.1f} %       {n.similarity:.3f}"
                lines.append(f"{numbers}  {place:12} {n.image}{n.copy}")
            left = sum(n.weight for n in layer.neighbours[most:]) + layer.rest
            if left > 0:
                lines.append(f"  {100 * left:4.1f} %              of all others")
        return "\n".join(lines)


def evidence_of(result: "AnomalyResult", x: float | None, y: float | None) -> Evidence:
    """The evidence for a result that a detector gave before."""
    if result.error is not None or result.source is None:
        raise UsageError(f"There is nothing to explain for {result.image}: {result.error}")
    detector = result.detector() if result.detector is not None else None
    if detector is None:
        raise UsageError(
            f"The detector that judged {result.image} is gone; keep it while its results are asked,"
            " or call the evidence method of a loaded one with the image."
        )
    from .detector import HyperFSAD

    if not isinstance(detector, HyperFSAD):
        raise UsageError(f"{type(detector).__name__} rebuilds no patches; only HyperFSAD explains.")
    if x is None and y is None:
        row, column = divmod(int(result.anomaly_map.argmax()), result.anomaly_map.shape[1])
        x = (column + 0.5) * result.size[0] / result.anomaly_map.shape[1]
        y = (row + 0.5) * result.size[1] / result.anomaly_map.shape[0]
    found = explain(detector, result.loaded(), x, y)
    if abs(found.shown - float(result.anomaly_map[found.row, found.column])) > SAME:
        raise UsageError(
            f"{result.image} or the detector has changed since the result was made; predict again."
        )
    return found


def explain(
    detector: "HyperFSAD", picture: LoadedImage, x: float | None = None, y: float | None = None
) -> Evidence:
    """The evidence at x, y of an image's own pixels; without a place, at the map's peak."""
    width, height = picture.size
    if (x is None) != (y is None):
        raise UsageError("A place is given by both x and y.")
    if x is not None and y is not None and not (0 <= x < width and 0 <= y < height):
        raise UsageError(
            f"{x:g}, {y:g} lies outside {picture.name}, which has {width}×{height} pixels."
        )
    if detector.tile_side is not None:
        from .tile_evidence import explain_tile

        return explain_tile(detector, picture, x, y)
    grid = detector.settings.grid
    tokens = detector.encoder_.encode([detector.seen(picture)])
    image = ImageTokens(tuple(tokens.patches[0]), tokens.cls[0])
    anomaly_map = detector.patch_scores(image).mean(dim=0)
    inside = detector.inside(image)
    if x is None or y is None:
        looked_at = anomaly_map if inside is None else anomaly_map.where(inside, -1)
        row, column = divmod(int(looked_at.argmax()), grid)
        x, y = (column + 0.5) * width / grid, (row + 0.5) * height / grid
    else:
        row, column = min(int(y * grid / height), grid - 1), min(int(x * grid / width), grid - 1)
    patch = row * grid + column
    if inside is not None and not inside[patch]:
        raise UsageError(
            f"{x:g}, {y:g} of {picture.name} lies outside the region of interest, where nothing is"
            " compared."
        )
    how = detector.comparison
    rows = how.rows(detector.memory_)
    place = patch if inside is None else int(inside[:patch].sum())
    named = _namer(detector, None if rows is None else rows.nonzero().flatten().tolist())
    layers = [
        (scale, *layer)
        for scale in how.scales
        for layer in zip(
            detector.settings.layers,
            how.tokens(image.patches, scale, inside),
            how.tokens(detector.memory_.patches, scale, rows),
            strict=True,
        )
    ]
    value = float(anomaly_map[patch])
    return Evidence(
        picture.name,
        x,
        y,
        row,
        column,
        grid,
        (column * width / grid, row * height / grid, width / grid, height / grid),
        value,
        tuple(
            layer_evidence(layer, scale, query[place], memory, how, named)
            for scale, layer, query, memory in layers
        ),
        picture,
        detector.support_views,
        value,
        grid,
        grid,
    )


def _namer(detector: "HyperFSAD", kept: list[int] | None) -> Namer:
    """Names rows of the memory bank; `kept` are their places in it where some are left out."""
    images, grid = detector.memory_.images, detector.settings.grid
    views = views_of(images)

    def named(row: int, weight: float, similarity: float) -> Neighbour:
        which, patch = divmod(row if kept is None else kept[row], grid**2)
        image, place = images[which], divmod(patch, grid)
        angle = detector.angle_of_view(views[which])
        x, y = (place[1] + 0.5) / grid, (place[0] + 0.5) / grid
        return Neighbour(
            image.name,
            image.sha256,
            views[which],
            *place,
            weight,
            similarity,
            grid,
            grid,
            angle,
            turned_back(x, y, angle, image.size or (1, 1)),
        )

    return named


def layer_evidence(
    layer: int,
    scale: int,
    query: Tensor,
    memory: Tensor,
    how: Comparison,
    named: Namer,
) -> LayerEvidence:
    """The active rows of a memory, `named` as neighbours."""
    similarities = query[None] @ memory.T
    sharp = how.sharpness * similarities
    if how.lookup in SPARSE:
        ((_, index, weights),) = [group for group in SPARSE[how.lookup](sharp) if len(group[0])]
        index, weights = index[0], weights[0]
    else:
        weights, index = LOOKUPS[how.lookup](sharp)[0].sort(descending=True, stable=True)
    rebuilt = weights @ memory[index]
    unexplained = 1 - float(torch.cosine_similarity(query, rebuilt, dim=0))
    active = int((weights > 0).sum())
    told = min(active, MOST_NEIGHBOURS)
    cosines = similarities[0, index[:told]].tolist()
    rows = zip(index[:told].tolist(), weights[:told].tolist(), cosines, strict=True)
    neighbours = [named(row, weight, cosine) for row, weight, cosine in rows]
    rest = max(0.0, float(weights[told:].sum())) if told < active else 0.0
    return LayerEvidence(layer, unexplained, tuple(neighbours), rest, scale)


def views_of(images: tuple[NormalImage, ...]) -> list[int]:
    """For each entry of the memory bank, the how-manieth copy of its image it is."""
    seen: dict[str, int] = {}
    views = []
    for image in images:
        views.append(seen.get(image.sha256, 0))
        seen[image.sha256] = views[-1] + 1
    return views
