"""The picture of hypergraphs: sizes of hyperedges over images, degrees over the good parts."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..images.loading import LoadedImage
from .page import LINE, NOTHING, PAGE_MARGIN, PALE, PAPER, Page, fitted
from .support import SupportPictures

_SIDE, _GAP = 440, 32
_VIEW_SIDE = (_SIDE - 16) // 2
"""Two good parts stand side by side below an image."""
_MOST_VIEWS = 6
_TITLE_HEIGHT, _BAR = 76, 14
# From pale to dark, one hue after the other: legible for the colour-blind and in grey.
_RAMP = np.array(((255, 247, 188), (254, 196, 79), (217, 95, 14), (140, 20, 60), (60, 0, 70)))
_PATCH_OPACITY = 190
"""Of 255, the same for all values, so that colours can be compared with the scale."""
_PALEST = 110
"""What black becomes below them."""

Map = NDArray[np.float64]


@dataclass(frozen=True)
class DegreePanel:
    """A view of a good part, and the degrees of its patches."""

    name: str
    image: str
    sha256: str
    view: int
    degrees: Map
    share: float
    """Of the image's weight that it carries."""


@dataclass(frozen=True)
class Panel:
    """What is shown of one hypergraph."""

    title: str
    words: tuple[str, ...]
    picture: Image.Image
    sizes: Map
    normal: tuple[DegreePanel, ...]
    orientations: Callable[[LoadedImage], list[LoadedImage]]


def draw_hypergraphs(
    panels: Sequence[Panel], normal: Sequence[str | os.PathLike[str]]
) -> Image.Image:
    """The panels side by side, on the same two colour scales."""
    support = [SupportPictures(panel.orientations, normal) for panel in panels]
    shown = [fitted(panel.picture, _SIDE) for panel in panels]
    chosen = [_heaviest(panel.normal) for panel in panels]
    views = [
        [_view(found, view) for view in own] for own, found in zip(chosen, support, strict=True)
    ]
    top = PAGE_MARGIN + _TITLE_HEIGHT
    middle = top + max(picture.height for picture in shown) + 60
    rows = max(-(-len(pictures) // 2) for pictures in views)
    step = max((picture.height for pictures in views for picture in pictures), default=0) + 26
    below = middle + rows * step + 12
    page = Page(2 * PAGE_MARGIN + len(panels) * (_SIDE + _GAP) - _GAP, below + 70 + PAGE_MARGIN)
    sizes = max(1.0, *(float(panel.sizes.max()) for panel in panels))
    degrees = max(1.0, *(float(v.degrees.max()) for p in panels for v in p.normal))
    for place, panel in enumerate(panels):
        x = PAGE_MARGIN + place * (_SIDE + _GAP)
        page.text(x, PAGE_MARGIN, panel.title, 18, width=_SIDE)
        for line, words in enumerate(panel.words):
            page.text(x, PAGE_MARGIN + 26 + 18 * line, words, 13, PALE, _SIDE)
        page.canvas.paste(coloured(shown[place], panel.sizes, sizes), (x, top))
        words = "size: normal patches that rebuild each patch"
        page.text(x, top + shown[place].height + 5, words, 13, width=_SIDE)
        words = "degree: patches that draw on each normal patch (percent: weight carried)"
        page.text(x, middle - 20, words, 13, width=_SIDE)
        for number, (picture, view) in enumerate(zip(views[place], chosen[place], strict=True)):
            left, upper = x + (number % 2) * (_VIEW_SIDE + 16), middle + (number // 2) * step
            page.canvas.paste(coloured(picture, view.degrees, degrees), (left, upper))
            words = f"{view.name}: {100 * view.share:.0f} %"
            page.text(left, upper + picture.height + 3, words, 12, PALE, _VIEW_SIDE)
    page.draw.line((PAGE_MARGIN, below, page.canvas.width - PAGE_MARGIN, below), fill=LINE)
    _scale(page, PAGE_MARGIN, below + 12, "size", sizes)
    _scale(page, PAGE_MARGIN + _SIDE // 2 + 10, below + 12, "degree", degrees)
    missing = [found for found in support if found.missing]
    if missing:
        names = missing[0].warn_missing()
        page.text(PAGE_MARGIN, below + 70, f"No longer on disk, or changed: {names}", 13)
    return page.canvas


def coloured(picture: Image.Image, values: Map, most: float) -> Image.Image:
    """A pale picture under its patches, the darker the larger their values; 0 shows nothing.

    Patches are drawn as they are: between them there is nothing to show.
    """
    share = np.clip(values / most, 0, 1)
    place = np.linspace(0, 1, len(_RAMP))
    colours = np.stack([np.interp(share, place, channel) for channel in _RAMP.T], axis=-1)
    glow = Image.fromarray(np.rint(colours).astype(np.uint8))
    mask = Image.fromarray(np.where(share > 0, _PATCH_OPACITY, 0).astype(np.uint8))
    pale = picture.convert("L").point(
        [round(_PALEST + (255 - _PALEST) * n / 255) for n in range(256)]
    )
    size, nearest = picture.size, Image.Resampling.NEAREST
    shown = glow.resize(size, nearest), pale.convert("RGB"), mask.resize(size, nearest)
    return Image.composite(*shown)


def _heaviest(views: Sequence[DegreePanel]) -> list[DegreePanel]:
    """Those that carry most of the image, in their own order."""
    shares = sorted((view.share for view in views), reverse=True)[:_MOST_VIEWS]
    return [view for view in views if view.share >= shares[-1]][:_MOST_VIEWS]


def _view(support: SupportPictures, view: DegreePanel) -> Image.Image:
    """The picture of a good part, or an empty one where it is gone."""
    found = support.get(view.image, view.sha256, view.view)
    return (
        fitted(found, _VIEW_SIDE) if found else Image.new("RGB", (_VIEW_SIDE, _VIEW_SIDE), NOTHING)
    )


def _scale(page: Page, left: int, top: int, name: str, most: float) -> None:
    """A bar of colours with the values at its ends and in the middle."""
    width = _SIDE // 2 - 20
    values = np.linspace(0, most, width)[None]
    bar = coloured(Image.new("RGB", (width, _BAR), PAPER), values, most)
    page.text(left, top, name, 13)
    page.canvas.paste(bar, (left, top + 20))
    for share in (0.0, 0.5, 1.0):
        text = f"{most * share:g}"
        x = left + share * width - (0 if share == 0 else page.draw.textlength(text) / 2)
        page.text(min(x, left + width - 16), top + 37, text, 12, PALE)
