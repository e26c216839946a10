"""The picture of an evidence: the patch, its neighbours sized by weight, and what is left over."""

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

from ..errors import HyperfsadWarning
from .patch import LayerEvidence, Neighbour, PatchEvidence
from .support import SupportPictures

_INK, _PALE, _LINE, _PAPER = (30, 30, 30), (110, 110, 110), (215, 215, 215), (255, 255, 255)
_NOTHING = (238, 238, 238)
_MARK, _NEAR = (200, 20, 40), (0, 95, 190)
_MARGIN, _SIDE, _ROW, _LABEL = 24, 400, 176, 170
_CROP = 112
"""Pixels of the largest crop's side; the area of the others follows their weight."""
_SMALLEST = 30
_MOST_CROPS, _MOST_SUPPORT = 6, 6
_CONTEXT = 3
"""Patches along a crop's side: one says little without its surroundings."""
_WIDTH = 2 * _MARGIN + _SIDE + 24 + _LABEL + 2 * _CROP + 6 * 104


@dataclass(frozen=True)
class _Page:
    draw: ImageDraw.ImageDraw
    canvas: Image.Image

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: int = 15,
        colour: tuple[int, int, int] = _INK,
        width: int | None = None,
    ) -> None:
        font = ImageFont.load_default(size=size)
        clean = text.encode("utf-8", errors="replace").decode()
        while width and len(clean) > 4 and self.draw.textlength(clean, font) > width:
            clean = "…" + clean[2:]  # of a path the end tells most
        self.draw.text((x, y), clean, colour, font)

    def frame(
        self, x: float, y: float, w: float, h: float, colour: tuple[int, int, int], line: int = 2
    ) -> None:
        x1, y1 = max(x + w, x + 2), max(y + h, y + 2)
        self.draw.rectangle((x - 1, y - 1, x1 + 1, y1 + 1), outline=_PAPER, width=line + 2)
        self.draw.rectangle((x, y, x1, y1), outline=colour, width=line)


def draw_evidence(
    evidence: PatchEvidence, normal: Sequence[str | os.PathLike[str]] = ()
) -> Image.Image:
    """The whole page."""
    support = SupportPictures(evidence, normal)
    query = evidence.picture.rgb()
    used = _heaviest(evidence)
    strip = 250 if used else 0
    height = _MARGIN * 2 + 56 + max(_ROW * len(evidence.layers), _SIDE + 270) + strip + 40
    canvas = Image.new("RGB", (_WIDTH, height), _PAPER)
    page = _Page(ImageDraw.Draw(canvas), canvas)
    page.text(_MARGIN, _MARGIN, evidence.image, 20, width=_WIDTH - 2 * _MARGIN)
    page.text(
        _MARGIN,
        _MARGIN + 27,
        f"at {evidence.x:.0f}, {evidence.y:.0f}: {evidence.value:.3f} is left unexplained"
        " (mean of the rows)",
    )
    top = _MARGIN + 64
    _draw_query(page, evidence, query, top)
    left = _MARGIN + _SIDE + 24
    for index, layer in enumerate(evidence.layers):
        _draw_layer(page, evidence, layer, query, support, left, top + index * _ROW)
    bottom = top + max(_ROW * len(evidence.layers), _SIDE + 270)
    _draw_support(page, evidence, used, support, bottom)
    if support.missing:
        _tell_missing(page, list(support.missing), height - _MARGIN - 32)
    return canvas


def _tell_missing(page: _Page, names: list[str], top: int) -> None:
    """Says in the picture and in a warning which good parts could not be shown."""
    told = ", ".join(names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    page.text(
        _MARGIN,
        top,
        "Not on disk any more, or changed, so only their places are shown (--normal DIR names"
        " the folder where they lie now):",
        14,
    )
    page.text(_MARGIN, top + 19, told + more, 14, width=_WIDTH - 2 * _MARGIN)
    warnings.warn(
        f"The picture shows only the places in these good parts, which are not on disk any more or"
        f" have changed: {told}{more}; --normal DIR (in Python: normal) names the folder where"
        " they lie now.",
        HyperfsadWarning,
        stacklevel=4,
    )


def _draw_query(page: _Page, evidence: PatchEvidence, query: Image.Image, top: int) -> None:
    shown = _fitted(query, _SIDE, _SIDE)
    page.canvas.paste(shown, (_MARGIN, top))
    scale_x, scale_y = shown.width / query.width, shown.height / query.height
    x, y, width, height = evidence.bbox
    page.frame(
        _MARGIN + x * scale_x, top + y * scale_y, width * scale_x, height * scale_y, _MARK, 3
    )
    page.text(_MARGIN, top + shown.height + 8, "the image, and the patch in question", 14, _PALE)
    side, below = 200, top + shown.height + 34
    crop = _crop(query, evidence, 5, side)
    page.canvas.paste(crop, (_MARGIN, below))
    page.frame(_MARGIN + side * 0.4, below + side * 0.4, side * 0.2, side * 0.2, _MARK)
    page.text(_MARGIN + side + 14, below, "its surroundings", 14, _PALE)


def _draw_layer(
    page: _Page,
    evidence: PatchEvidence,
    layer: LayerEvidence,
    query: Image.Image,
    support: SupportPictures,
    left: int,
    top: int,
) -> None:
    page.draw.line((left, top, _WIDTH - _MARGIN, top), fill=_LINE)
    top += 12
    count = len(layer.neighbours)
    page.text(left, top, f"layer {layer.layer}", 18)
    normal = f"{count} normal patch{'' if count == 1 else 'es'}"
    for place, words in enumerate(filter(None, (layer.scope, normal))):
        page.text(left, top + 24 + 17 * place, words, 14, _PALE)
    page.text(left, top + 62, f"{layer.unexplained:.3f} unexplained", 15, _MARK)
    bar = (left, top + 86, left + _LABEL - 24, top + 98)
    page.draw.rectangle(bar, fill=_NOTHING)
    part = min(max(layer.unexplained, 0.0), 1.0)
    page.draw.rectangle((bar[0], bar[1], bar[0] + part * (bar[2] - bar[0]), bar[3]), fill=_MARK)

    x = left + _LABEL
    own = _crop(query, evidence, _CONTEXT, _CROP)
    page.canvas.paste(own, (x, top))
    _frame_middle(page, x, top, _CROP, _MARK)
    page.text(x, top + _CROP + 4, "the patch", 14, _PALE)
    x += _CROP + 16
    page.canvas.paste(_mixture(evidence, layer, support), (x, top))
    _frame_middle(page, x, top, _CROP, _NEAR)
    page.text(x, top + _CROP + 4, "normal, mixed", 14, _PALE)
    x += _CROP + 24
    heaviest = layer.neighbours[0].weight if layer.neighbours else 1.0
    shown = layer.neighbours[:_MOST_CROPS]
    for neighbour in shown:
        side = max(_SMALLEST, round(_CROP * (neighbour.weight / heaviest) ** 0.5))
        picture = support.get(neighbour)
        if x + max(side, 62) > _WIDTH - _MARGIN:
            break
        crop = _crop(picture, neighbour, _CONTEXT, side)
        page.canvas.paste(crop, (x, top + _CROP - side))
        _frame_middle(page, x, top + _CROP - side, side, _NEAR)
        page.text(x, top + _CROP + 4, f"{100 * neighbour.weight:.0f} %", 14)
        page.text(x, top + _CROP + 22, f"cos {neighbour.similarity:.2f}", 13, _PALE)
        x += max(side, 62) + 12


def _draw_support(
    page: _Page,
    evidence: PatchEvidence,
    used: list[tuple[Neighbour, float]],
    support: SupportPictures,
    top: int,
) -> None:
    """Each support image with the places that were taken from it."""
    if not used:
        return
    page.draw.line((_MARGIN, top, _WIDTH - _MARGIN, top), fill=_LINE)
    page.text(_MARGIN, top + 10, "where the neighbours lie in the support images", 14, _PALE)
    side, x = 170, _MARGIN
    for one, weight in used:
        picture = support.get(one)
        shown = Image.new("RGB", (side, side), _NOTHING) if picture is None else picture
        shown = _fitted(shown, side, side)
        page.canvas.paste(shown, (x, top + 36))
        heaviest = max(n.weight for layer in evidence.layers for n in layer.neighbours)
        for neighbour in _of(evidence, one):
            left, upper, width, height = evidence.place(neighbour)
            line = 1 + round(2 * (neighbour.weight / heaviest) ** 0.5)
            page.frame(
                x + left * shown.width,
                top + 36 + upper * shown.height,
                width * shown.width,
                height * shown.height,
                _NEAR,
                line,
            )
        page.text(x, top + 40 + side, f"{100 * weight:.0f} % of the weight", 14)
        page.text(x, top + 58 + side, one.image + one.copy, 13, _PALE, width=side)
        x += side + 22


def _heaviest(evidence: PatchEvidence) -> list[tuple[Neighbour, float]]:
    """One neighbour of each support image, and the image's share of all weight."""
    shares: dict[tuple[str, int], tuple[Neighbour, float]] = {}
    for layer in evidence.layers:
        for neighbour in layer.neighbours:
            key = (neighbour.sha256, neighbour.view)
            first, share = shares.get(key, (neighbour, 0.0))
            shares[key] = (first, share + neighbour.weight / len(evidence.layers))
    return sorted(shares.values(), key=lambda pair: -pair[1])[:_MOST_SUPPORT]


def _of(evidence: PatchEvidence, one: Neighbour) -> Iterable[Neighbour]:
    for layer in evidence.layers:
        for neighbour in layer.neighbours:
            if (neighbour.sha256, neighbour.view) == (one.sha256, one.view):
                yield neighbour


def _mixture(
    evidence: PatchEvidence, layer: LayerEvidence, support: SupportPictures
) -> Image.Image:
    """The crops of all neighbours that can be seen, mixed with their weights."""
    mixed, total = Image.new("RGB", (_CROP, _CROP), _NOTHING), 0.0
    for neighbour in layer.neighbours[:64]:
        picture = support.get(neighbour)
        if picture is None or neighbour.weight <= 0:
            continue
        crop = _crop(picture, neighbour, _CONTEXT, _CROP)
        total += neighbour.weight
        mixed = Image.blend(mixed, crop, neighbour.weight / total)
    return mixed


def _crop(
    picture: Image.Image | None, patch: PatchEvidence | Neighbour, span: int, side: int
) -> Image.Image:
    """A patch with its surroundings; grey beyond the picture's edge, and where there is none."""
    tile = Image.new("RGB", (side, side), _NOTHING)
    if picture is None:
        return tile
    first_column, first_row = patch.column - span // 2, patch.row - span // 2
    c0, r0 = max(first_column, 0), max(first_row, 0)
    c1, r1 = min(first_column + span, patch.columns), min(first_row + span, patch.rows)
    unit_x, unit_y = picture.width / patch.columns, picture.height / patch.rows
    size = (round((c1 - c0) * side / span), round((r1 - r0) * side / span))
    part = picture.resize(
        (max(size[0], 1), max(size[1], 1)),
        Image.Resampling.BICUBIC,
        box=(c0 * unit_x, r0 * unit_y, c1 * unit_x, r1 * unit_y),
    )
    tile.paste(
        part, (round((c0 - first_column) * side / span), round((r0 - first_row) * side / span))
    )
    return tile


def _frame_middle(page: _Page, x: int, y: int, side: int, colour: tuple[int, int, int]) -> None:
    step = side / _CONTEXT
    page.frame(x + step, y + step, step, step, colour, 1 if side < 60 else 2)


def _fitted(picture: Image.Image, width: int, height: int) -> Image.Image:
    scale = min(width / picture.width, height / picture.height)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
