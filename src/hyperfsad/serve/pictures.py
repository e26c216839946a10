"""Uploaded pictures: checked by their content before anything is done with them."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from ..errors import ImageError
from ..images.loading import LoadedImage, load_image, opened_picture
from ..messages import visible
from .faults import TooLargeError

SUFFIXES = {
    "PNG": (".png", "image/png"),
    "JPEG": (".jpg", "image/jpeg"),
    "BMP": (".bmp", "image/bmp"),
    "DIB": (".bmp", "image/bmp"),
    "TIFF": (".tif", "image/tiff"),
    "WEBP": (".webp", "image/webp"),
    "GIF": (".gif", "image/gif"),
    "PPM": (".ppm", "image/x-portable-pixmap"),
}
MEDIA_TYPES = dict(SUFFIXES.values())
LONGEST_NAME = 120
DECODERS = threading.BoundedSemaphore(4)
"""Pictures that are checked at once: one of 100 million pixels takes 300 MB."""
HELD = 1 << 21
"""Pixels of a picture that may wait decoded: 64 of them take 400 MB."""


@dataclass(frozen=True)
class Limits:
    """What one request may bring."""

    images: int = 64
    image_bytes: int = 64 * 10**6
    pixels: int = 100 * 10**6
    """Of one image."""
    detector_bytes: int = 2 * 10**9
    text_bytes: int = 10_000
    """Of one field of a form."""


@dataclass(frozen=True)
class Upload:
    """A file that arrived whole; its name is for people only."""

    path: Path
    name: str
    sha256: str
    bytes: int

    def discard(self) -> None:
        """Removes it, if it has not found its place."""
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Picture:
    """An upload that is a picture."""

    upload: Upload
    suffix: str
    size: tuple[int, int]
    decoded: LoadedImage | None = None
    """Where it is small; a larger one is decoded again when it is needed."""

    @property
    def name(self) -> str:
        """What people call it."""
        return self.upload.name

    def load(self) -> LoadedImage:
        """The picture itself; its file must not have been moved yet."""
        return self.decoded or load_image(self.upload.path, self.name)


def checked_picture(upload: Upload, limits: Limits) -> Picture:
    """Opens an upload as what its content is, and decodes it all; `ImageError` if it is none."""
    with opened_picture(os.fspath(upload.path), upload.name) as opened:
        width, height = opened.size
        suffix = SUFFIXES.get(opened.format or "", (".png", ""))[0]
    if width * height > limits.pixels:
        raise TooLargeError(
            f"{upload.name} has {width}×{height} pixels; at most"
            f" {limits.pixels / 1e6:g} million are accepted."
        )
    with DECODERS:
        image = load_image(upload.path, upload.name)
        return Picture(upload, suffix, image.size, image if width * height <= HELD else None)


def checked_pictures(uploads: list[Upload], limits: Limits) -> list[Picture]:
    """All of them, or the error of the first that is no picture."""
    return [checked_picture(upload, limits) for upload in uploads]


def try_picture(upload: Upload, limits: Limits) -> Picture | str:
    """The picture, or one sentence on what is wrong with it."""
    try:
        return checked_picture(upload, limits)
    except (ImageError, TooLargeError) as error:
        return str(error)


def clean_name(raw: str, otherwise: str = "image") -> str:
    """A client's file name as something to show: no folders, nothing that steers a terminal."""
    last = raw.replace("\\", "/").rsplit("/", 1)[-1]
    clean = visible(last.encode("utf-8", errors="replace").decode()).strip()
    return clean[:LONGEST_NAME] or otherwise
