"""A page to draw evidence on: its colours, text that fits, frames and pictures."""

from typing import TypeAlias

from PIL import Image, ImageDraw, ImageFont

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
