"""The picture of an evidence: the patch, its neighbours sized by weight, and what is left over."""

import os
from collections import defaultdict
from collections.abc import Sequence

from PIL import Image

from ..messages import Notice
from .page import LINE, NOTHING, PAGE_MARGIN, PALE, Page, fitted
from .patch import LayerEvidence, MissingPiece, Neighbour, PatchEvidence
from .support import SupportPictures

_MARK, _NEAR = (200, 20, 40), (0, 95, 190)
_GOOD = (20, 105, 60)
_MARGIN, _SIDE, _ROW, _LABEL = PAGE_MARGIN, 400, 176, 170
_TITLE_HEIGHT = 86
"""Pixels of the title: the verdict and the image, the verdict's reason, and the place."""
_CROP = 112
"""Pixels of the largest crop's side; the area of the others follows their weight."""
_SMALLEST = 30
_MOST_CROPS, _MOST_SUPPORT = 6, 6
_CONTEXT = 3
"""Patches along a crop's side: one says little without its surroundings."""
_WIDTH = 2 * _MARGIN + _SIDE + 24 + _LABEL + 2 * _CROP + 6 * 104


def draw_evidence(
    evidence: PatchEvidence, normal: Sequence[str | os.PathLike[str]], by_name: bool = True
) -> Image.Image:
    """The whole page."""
    support = SupportPictures(evidence.orientations, normal, by_name)
    top, left = _MARGIN + _TITLE_HEIGHT, _MARGIN + _SIDE + 24
    bottom = top + max(_ROW * len(evidence.layers), _SIDE + 270)
    page = Page(_WIDTH, bottom + _MARGIN + 282)
    _draw_title(page, evidence)
    query = evidence.picture.rgb()
    _draw_query(page, evidence, query, top)
    if evidence.missing is not None:
        _draw_missing(page, evidence.missing, support, top + fitted(query, _SIDE).height + 34)
    own = _crop(query, evidence, _CONTEXT, _CROP)
    for index, layer in enumerate(evidence.layers):
        _draw_layer(page, layer, own, support, left, top + index * _ROW)
    _draw_support(page, evidence, support, bottom)
    if support.missing:
        _tell_missing(page, support, bottom + 250)
    return page.canvas


def _draw_title(page: Page, evidence: PatchEvidence) -> None:
    """The verdict first, in its colour, then the image; below, what it rests on, and the place."""
    x = float(_MARGIN)
    word, _, reason = (evidence.verdict or "").partition(": ")
    if evidence.anomalous is not None:
        colour = _MARK if evidence.anomalous else _GOOD
        x += page.text(x, _MARGIN, word, 20, colour) + 14
    page.text(x, _MARGIN, evidence.image, 20, width=int(_WIDTH - _MARGIN - x))
    place = f"at {evidence.x:.0f}, {evidence.y:.0f}: {evidence.shown_words}"
    lines = [reason or word, f"{place}; {evidence.unexplained_words}"]
    for number, line in enumerate(filter(None, lines)):
        page.text(_MARGIN, _MARGIN + 28 + 21 * number, line, 15)


def _tell_missing(page: Page, support: SupportPictures, top: int) -> None:
    """Says in the picture and in a warning which good parts could not be shown."""
    page.text(_MARGIN, top, Notice("support-gone-caption", names=support.warn_missing()))


def _draw_query(page: Page, evidence: PatchEvidence, query: Image.Image, top: int) -> None:
    shown = fitted(query, _SIDE)
    page.canvas.paste(shown, (_MARGIN, top))
    across, down = shown.width / query.width, shown.height / query.height
    x, y, width, height = evidence.bbox
    page.frame(_MARGIN + x * across, top + y * down, width * across, height * down, _MARK, 3)
    page.text(_MARGIN, top + shown.height + 8, "the image, and the patch in question", 14, PALE)
    side, below = 200, top + shown.height + 34
    page.crop(_crop(query, evidence, 5, side), _MARGIN, below, _MARK, 5)
    page.text(_MARGIN + side + 14, below, "its surroundings", 14, PALE)


def _draw_missing(page: Page, missing: MissingPiece, support: SupportPictures, top: int) -> None:
    """The piece of the good part that should be there, beside the patch's surroundings."""
    left, side = _MARGIN + 214, 156
    page.text(left, top + 22, "missing here, of a good part:", 14, _MARK, _SIDE - 214)
    page.crop(
        _crop(_view(support, missing.patch), missing.patch, 5, side), left, top + 44, _NEAR, 5
    )


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


def _draw_support(page: Page, evidence: PatchEvidence, support: SupportPictures, top: int) -> None:
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
            left, upper, width, height = evidence.place(neighbour)
            page.frame(
                x + left * shown.width,
                top + upper * shown.height,
                width * shown.width,
                height * shown.height,
                _NEAR,
                1 + round(2 * (neighbour.weight / heaviest) ** 0.5),
            )
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
    picture: Image.Image | None, patch: PatchEvidence | Neighbour, span: int, side: int
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
