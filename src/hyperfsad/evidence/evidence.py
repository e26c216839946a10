"""Evidence: the normal patches that rebuilt a patch, their weights, and what they leave over.

Sparse Hyper Matching rebuilds a patch from a few normal ones, ε = w·P; the map shows 1 − cos(q, ε).
The active rows of w are the whole reason for the number, so they can be shown. Results keep no
tokens (of a thousand images they would take gigabytes): the image is encoded again when it is
asked about, by the detector that judged it.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from PIL import Image

from ..decisions.routing import NO_ROUTE, Route
from ..decisions.thresholds import level_of
from ..images.loading import LoadedImage, save_picture
from ..wording import as_rows, of_limit
from .neighbours import LayerEvidence, LineEvidence, MissingPiece, Neighbour, as_it_is
from .page import LINE, NOTHING, PAGE_MARGIN, PALE, Page, SupportPictures, fitted

_MARK, _NEAR = (200, 20, 40), (0, 95, 190)
_GOOD = (20, 105, 60)
_MARGIN, _SIDE, _ROW, _LABEL = PAGE_MARGIN, 400, 176, 170
_TITLE_HEIGHT = 98
"""Pixels of the title: the verdict and the image, the verdict's reason, the place, and the line."""
_CROP = 112
"""Pixels of the largest crop's side; the area of the others follows their weight."""
_SMALLEST = 30
_MOST_CROPS, _MOST_SUPPORT = 6, 6
_CONTEXT = 3
"""Patches along a crop's side: one says little without its surroundings."""
_WIDTH = 2 * _MARGIN + _SIDE + 24 + _LABEL + 2 * _CROP + 6 * 104


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
    """The mean of what the layers leave unexplained, or what unlabelled parts leave where that is
    less: the map's value but for missing pieces, or that of the tile whose centre is nearest."""
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
    line: LineEvidence | None = None
    """The unlabelled parts that have it; None: they changed nothing here."""
    verdict: str | None = None
    """What was said of the whole image, in a few words; None where it was not judged."""
    anomalous: bool | None = None
    map_threshold: float | None = None
    """Above it a place of the map counts as a defect."""

    def plot(
        self, normal: Sequence[str | os.PathLike[str]] = (), *, by_name: bool = True
    ) -> Image.Image:
        """The patch in its image, its neighbours in theirs, and what is left unexplained.

        Support images are looked for under their stored names, then by their hash in `normal`
        (files, globs or folders). Of those that are not on disk any more, only the names and places
        are shown, and a warning names them. `by_name=False` looks in `normal` alone: the names in a
        stranger's detector file may be any paths.
        """
        return _drawn(self, normal, by_name)

    def save(
        self, path: str | os.PathLike[str], normal: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        """Writes the picture of `plot()`; the kind of file follows from the name."""
        save_picture(self.plot(normal), Path(path))

    def to_dict(self) -> dict[str, Any]:
        """All of it but the pictures; `place` is a box in the view that was matched, `centre` its
        middle in the support image as it is on disk, both as parts of width and height."""
        pictures = ("picture", "orientations", "route")
        names = [own.name for own in fields(self) if own.name not in pictures]
        content = {name: getattr(self, name) for name in names}
        content["layers"] = [
            {
                **vars(layer),
                "neighbours": [{**vars(n), "place": n.place} for n in layer.neighbours],
            }
            for layer in self.layers
        ]
        content["missing"] = None if self.missing is None else asdict(self.missing)
        content["line"] = None if self.line is None else asdict(self.line)
        return {**content, **(self.route.to_dict() if self.route else NO_ROUTE)}

    def to_json(self) -> str:
        """`to_dict()` as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @property
    def shown_words(self) -> str:
        """What the map shows at the patch, and how far that reaches."""
        found = f"map {self.shown:.3f}"
        if self.map_threshold is None:
            return found
        return f"{found}, {of_limit(level_of(self.shown, self.map_threshold))}"

    @property
    def unexplained_words(self) -> str:
        """What the good parts leave over, and why the map shows another value."""
        support = self.value if self.line is None else self.line.support
        words = f"{support:.3f} unexplained by the good parts (mean of the layers)"
        if self.line is not None:
            words += f", {self.value:.3f} by {self.line.needed} unlabelled parts"
        if f"{self.shown:.3f}" == f"{self.value:.3f}":
            return words
        added = "" if self.missing is None else " and adds what is missing"
        return f"{words}; the map averages it with its neighbours{added}"

    @property
    def line_words(self) -> str | None:
        """How many unlabelled parts have it, and whether it is normal therefore."""
        return None if self.line is None else self.line.words(self.shown, self.map_threshold)

    def to_text(self, most: int = 5) -> str:
        """A table for people, with the `most` heaviest neighbours of each layer."""
        place = f"patch row {self.row}, column {self.column} of {self.rows}×{self.columns}"
        lines = [
            self.verdict,
            f"{self.image} at {self.x:.0f}, {self.y:.0f} ({place}): {self.shown_words}",
            self.unexplained_words,
            self.line_words,
            None if self.route is None else self.route.to_text(),
            None if self.missing is None else self.missing.words,
        ]
        if self.line is not None:
            lines.append(" distance  similarity  place        unlabelled part")
            pairs = list(zip(self.line.distances, self.line.patches, strict=True))
            for distance, n in pairs[:most]:
                lines.append(f"{distance:9.3f}{n.similarity:12.3f}  {_at(n):12} {n.image}")
            if len(pairs) > most:
                lines.append(f"           and {len(pairs) - most} more")
        for layer in self.layers:
            found = f"rebuilt from {layer.rebuilt_from}, {layer.unexplained:.3f} unexplained"
            lines.append(f"layer {layer.layer}: {found}")
            lines.append("   weight  similarity  place        support image")
            for n in layer.neighbours[:most]:
                numbers = f"  {100 * n.weight:5.1f} %{n.similarity:12.3f}"
                lines.append(f"{numbers}  {_at(n):12} {n.image}{n.copy}")
            left = sum(n.weight for n in layer.neighbours[most:]) + layer.rest
            if left > 0:
                lines.append(f"  {100 * left:5.1f} %              of all others")
        return as_rows(line for line in lines if line is not None)


def _at(neighbour: Neighbour) -> str:
    """Where its centre is in its image."""
    return f"{100 * neighbour.centre[0]:.0f} %, {100 * neighbour.centre[1]:.0f} %"


def _drawn(
    evidence: Evidence, normal: Sequence[str | os.PathLike[str]], by_name: bool
) -> Image.Image:
    """The patch, its neighbours sized by weight, and what is left over, on one page."""
    support = SupportPictures(evidence.orientations, normal, by_name)
    top, left = _MARGIN + _TITLE_HEIGHT, _MARGIN + _SIDE + 24
    rows = len(evidence.layers) + (evidence.line is not None)
    bottom = top + max(_ROW * rows, _SIDE + 270)
    page = Page(_WIDTH, bottom + _MARGIN + 282)
    _draw_title(page, evidence)
    query = evidence.picture.rgb()
    _draw_query(page, evidence, query, support, top)
    own = _crop(query, evidence, _CONTEXT, _CROP)
    for index, layer in enumerate(evidence.layers):
        _draw_layer(page, layer, own, support, left, top + index * _ROW)
    if evidence.line is not None:
        below = top + len(evidence.layers) * _ROW
        _draw_line(page, evidence.line, evidence.value, own, support, left, below)
    _draw_support(page, evidence, support, bottom)
    support.tell_missing(page, _MARGIN, bottom + 250)
    return page.canvas


def _draw_title(page: Page, evidence: Evidence) -> None:
    """The verdict first, in its colour, then the image; below, what it rests on, and the place."""
    x = float(_MARGIN)
    word, _, reason = (evidence.verdict or "").partition(": ")
    if evidence.anomalous is not None:
        colour = _MARK if evidence.anomalous else _GOOD
        x += page.text(x, _MARGIN, word, 20, colour) + 14
    page.text(x, _MARGIN, evidence.image, 20, width=int(_WIDTH - _MARGIN - x))
    place = f"at {evidence.x:.0f}, {evidence.y:.0f}: {evidence.shown_words}"
    lines = [reason or word, f"{place}; {evidence.unexplained_words}", evidence.line_words]
    for number, line in enumerate(filter(None, lines)):
        page.text(_MARGIN, _MARGIN + 28 + 21 * number, line, 15)


def _draw_query(
    page: Page, evidence: Evidence, query: Image.Image, support: SupportPictures, top: int
) -> None:
    """The image and the patch's surroundings; beside them the piece of a good part that should be
    there, where one is missing."""
    shown = fitted(query, _SIDE)
    page.canvas.paste(shown, (_MARGIN, top))
    across, down = shown.width / query.width, shown.height / query.height
    x, y, width, height = evidence.bbox
    page.frame(_MARGIN + x * across, top + y * down, width * across, height * down, _MARK, 3)
    page.text(_MARGIN, top + shown.height + 8, "the image, and the patch in question", 14, PALE)
    side, below = 200, top + shown.height + 34
    page.crop(_crop(query, evidence, 5, side), _MARGIN, below, _MARK, 5)
    page.text(_MARGIN + side + 14, below, "its surroundings", 14, PALE)
    if evidence.missing is not None:
        left, patch = _MARGIN + 214, evidence.missing.patch
        page.text(left, below + 22, "missing here, of a good part:", 14, _MARK, _SIDE - 214)
        page.crop(_crop(_view(support, patch), patch, 5, 156), left, below + 44, _NEAR, 5)


def _draw_layer(
    page: Page,
    layer: LayerEvidence,
    own: Image.Image,
    support: SupportPictures,
    left: int,
    top: int,
) -> None:
    """What one layer says; `own` is the crop of the patch itself."""
    page.draw.line((left, top, _WIDTH - _MARGIN, top), fill=LINE)
    top += 12
    page.text(left, top, f"layer {layer.layer}", 18)
    page.text(left, top + 24, layer.rebuilt_from, 14, PALE)
    page.text(left, top + 62, f"{layer.unexplained:.3f} unexplained", 15, _MARK)
    length = _LABEL - 24
    page.draw.rectangle((left, top + 86, left + length, top + 98), fill=NOTHING)
    part = min(max(layer.unexplained, 0.0), 1.0)
    page.draw.rectangle((left, top + 86, left + part * length, top + 98), fill=_MARK)

    x, below = left + _LABEL, top + _CROP + 4
    page.crop(own, x, top, _MARK, _CONTEXT)
    page.text(x, below, "the patch", 14, PALE)
    x += _CROP + 16
    page.crop(_mixture(layer, support), x, top, _NEAR, _CONTEXT)
    page.text(x, below, "normal, mixed", 14, PALE)
    x += _CROP + 24
    for neighbour in layer.neighbours[:_MOST_CROPS]:
        share = neighbour.weight / layer.neighbours[0].weight
        side = max(_SMALLEST, round(_CROP * share**0.5))
        if x + max(side, 62) > _WIDTH - _MARGIN:
            break
        crop = _crop(_view(support, neighbour), neighbour, _CONTEXT, side)
        page.crop(crop, x, top + _CROP - side, _NEAR, _CONTEXT)
        page.text(x, below, f"{100 * neighbour.weight:.0f} %")
        page.text(x, below + 18, f"cos {neighbour.similarity:.2f}", 13, PALE)
        x += max(side, 62) + 12


def _draw_line(
    page: Page,
    line: LineEvidence,
    value: float,
    own: Image.Image,
    support: SupportPictures,
    left: int,
    top: int,
) -> None:
    """The patch in the unlabelled parts that are nearest to it."""
    page.draw.line((left, top, _WIDTH - _MARGIN, top), fill=LINE)
    top += 12
    page.text(left, top, "unlabelled parts", 18)
    page.text(left, top + 24, f"{len(line.patches)} of {line.asked} come nearer", 14, PALE)
    page.text(left, top + 62, f"{value:.3f} unexplained", 15, _MARK)
    page.text(left, top + 86, f"by {line.needed} of them", 14, PALE)
    x, below = left + _LABEL, top + _CROP + 4
    page.crop(own, x, top, _MARK, _CONTEXT)
    page.text(x, below, "the patch", 14, PALE)
    x += _CROP + 24
    for distance, patch in zip(line.distances, line.patches, strict=True):
        if x + _CROP > _WIDTH - _MARGIN:
            break
        page.crop(_crop(_view(support, patch), patch, _CONTEXT, _CROP), x, top, _NEAR, _CONTEXT)
        page.text(x, below, f"{distance:.3f}")
        page.text(x, below + 18, patch.image, 13, PALE, _CROP)
        x += _CROP + 12


def _draw_support(page: Page, evidence: Evidence, support: SupportPictures, top: int) -> None:
    """The support images with the most weight, and the places that were taken from each."""
    page.draw.line((_MARGIN, top, _WIDTH - _MARGIN, top), fill=LINE)
    page.text(_MARGIN, top + 10, "where the neighbours lie in the support images", 14, PALE)
    taken: dict[tuple[str, int], list[Neighbour]] = defaultdict(list)
    for layer in evidence.layers:
        for neighbour in layer.neighbours:
            taken[neighbour.sha256, neighbour.view].append(neighbour)
    heaviest = max(neighbour.weight for places in taken.values() for neighbour in places)
    shares = [(sum(n.weight / len(evidence.layers) for n in p), p) for p in taken.values()]
    shares.sort(key=lambda pair: -pair[0])
    side, x, top = 170, _MARGIN, top + 36
    for share, places in shares[:_MOST_SUPPORT]:
        picture = _view(support, places[0]) or Image.new("RGB", (side, side), NOTHING)
        shown = fitted(picture, side)
        page.canvas.paste(shown, (x, top))
        for neighbour in places:
            left, upper, width, height = neighbour.place
            box = x + left * shown.width, top + upper * shown.height
            size = width * shown.width, height * shown.height
            line = 1 + round(2 * (neighbour.weight / heaviest) ** 0.5)
            page.frame(*box, *size, _NEAR, line)
        page.text(x, top + 4 + side, f"{100 * share:.0f} % of the weight")
        page.text(x, top + 22 + side, places[0].image + places[0].copy, 13, PALE, side)
        x += side + 22


def _view(support: SupportPictures, neighbour: Neighbour) -> Image.Image | None:
    """What a neighbour is a patch of, or None."""
    return support.get(neighbour.image, neighbour.sha256, neighbour.view)


def _mixture(layer: LayerEvidence, support: SupportPictures) -> Image.Image:
    """The crops of all neighbours that can be seen, mixed with their weights."""
    mixed, total = Image.new("RGB", (_CROP, _CROP), NOTHING), 0.0
    for neighbour in layer.neighbours[:64]:
        picture = _view(support, neighbour)
        if picture is not None:
            total += neighbour.weight
            crop = _crop(picture, neighbour, _CONTEXT, _CROP)
            mixed = Image.blend(mixed, crop, neighbour.weight / total)
    return mixed


def _crop(
    picture: Image.Image | None, patch: Evidence | Neighbour, span: int, side: int
) -> Image.Image:
    """A patch with its surroundings; grey beyond the picture's edge, and where there is none."""
    tile = Image.new("RGB", (side, side), NOTHING)
    if picture is None:
        return tile
    first_column, first_row = patch.column - span // 2, patch.row - span // 2
    c0, r0 = max(first_column, 0), max(first_row, 0)
    c1, r1 = min(first_column + span, patch.columns), min(first_row + span, patch.rows)
    unit_x, unit_y = picture.width / patch.columns, picture.height / patch.rows
    size = (max(round((c1 - c0) * side / span), 1), max(round((r1 - r0) * side / span), 1))
    box = (c0 * unit_x, r0 * unit_y, c1 * unit_x, r1 * unit_y)
    place = (round((c0 - first_column) * side / span), round((r0 - first_row) * side / span))
    tile.paste(picture.resize(size, Image.Resampling.BICUBIC, box=box), place)
    return tile
