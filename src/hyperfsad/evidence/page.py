"""A page to draw evidence on, and the pictures of support images that stand on it."""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeAlias

from PIL import Image, ImageDraw, ImageFont

from ..errors import HyperfsadWarning, ImageError, UsageError
from ..images.loading import LoadedImage, load_image
from ..images.reading import find_images
from ..messages import Notice

Colour: TypeAlias = tuple[int, int, int]
INK, PALE, LINE, PAPER = (30, 30, 30), (110, 110, 110), (215, 215, 215), (255, 255, 255)
NOTHING = (238, 238, 238)
PAGE_MARGIN = 24


class Page:
    """White paper, `width` by `height` pixels."""

    def __init__(self, width: int, height: int) -> None:
        self.canvas = Image.new("RGB", (width, height), PAPER)
        self.draw = ImageDraw.Draw(self.canvas)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: int = 14,
        colour: Colour = INK,
        width: int | None = None,
    ) -> float:
        """Text of at most `width` pixels; of a longer one, as a path, the end tells most.

        Returns how wide it is.
        """
        font = ImageFont.load_default(size=size)
        clean = text.encode("utf-8", errors="replace").decode()
        most = self.canvas.width - 2 * PAGE_MARGIN if width is None else width
        while len(clean) > 4 and self.draw.textlength(clean, font) > most:
            clean = "…" + clean[2:]
        self.draw.text((x, y), clean, colour, font)
        return float(self.draw.textlength(clean, font))

    def frame(self, x: float, y: float, w: float, h: float, colour: Colour, line: int = 2) -> None:
        x1, y1 = max(x + w, x + 2), max(y + h, y + 2)
        self.draw.rectangle((x - 1, y - 1, x1 + 1, y1 + 1), outline=PAPER, width=line + 2)
        self.draw.rectangle((x, y, x1, y1), outline=colour, width=line)

    def crop(self, crop: Image.Image, x: int, y: int, colour: Colour, span: int) -> None:
        """A crop of `span` patches a side, with a frame around the one in the middle."""
        self.canvas.paste(crop, (x, y))
        step = crop.width / span
        before = step * (span // 2)
        self.frame(x + before, y + before, step, step, colour, 1 if crop.width < 60 else 2)


def fitted(picture: Image.Image, side: int) -> Image.Image:
    """The picture, enlarged or reduced to fit into a square."""
    scale = side / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)


class SupportPictures:
    """What a detector remembers of its support images, found again on disk: under their stored
    names, or by their hashes elsewhere."""

    def __init__(
        self,
        orientations: Callable[[LoadedImage], list[LoadedImage]],
        normal: Sequence[str | os.PathLike[str]],
        by_name: bool = True,
    ) -> None:
        """`normal` says where images may lie that are not where they were: files, globs, folders;
        without `by_name` nothing else is opened.

        `orientations` gives an image in all orientations that are remembered, itself first.
        """
        self._orientations, self._normal, self._by_name = orientations, normal, by_name
        self._known: dict[str, list[Image.Image]] = {}
        self.missing: dict[str, None] = {}
        """Names of those that are not on disk, in the order in which they were asked for."""

    def get(self, name: str, sha256: str, view: int) -> Image.Image | None:
        """A view of the support image with this name and hash, or None."""
        if sha256 not in self._known:
            found = _loaded(name) if self._by_name else None
            if found is None or found.sha256() != sha256:
                found = _loaded(self._elsewhere.get(sha256))
            views = self._orientations(found) if found else []
            self._known[sha256] = [view.rgb() for view in views]
        pictures = self._known[sha256]
        if view < len(pictures):
            return pictures[view]
        self.missing[name] = None
        return None

    def tell_missing(self, page: Page, x: int, y: int) -> None:
        """Says on the page and in a warning which good parts could not be shown."""
        names = list(self.missing)
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            listed = ", ".join(names[:3]) + more
            warnings.warn(Notice("support-gone", names=listed), HyperfsadWarning, stacklevel=4)
            page.text(x, y, Notice("support-gone-caption", names=listed))

    @cached_property
    def _elsewhere(self) -> dict[str, str]:
        """The paths in `normal` by the hashes of their pixels."""
        paths = find_images(self._normal).paths if self._normal else []
        return {found.sha256(): path for path in paths if (found := _loaded(path))}


def _loaded(path: str | None) -> LoadedImage | None:
    try:
        return None if path is None else load_image(path)
    except (ImageError, UsageError):
        return None
