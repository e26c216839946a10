"""Uploaded pictures: checked by their content before anything is done with them."""

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image as Pillow

from ..images.loading import LoadedImage, load_image, opened_picture
from ..wording import visible
from .memory import room_for
from .refusals import TooLargeError
from .store.models import now

UPLOAD_FORMATS = {
    "PNG": (".png", "image/png"),
    "JPEG": (".jpg", "image/jpeg"),
    "BMP": (".bmp", "image/bmp"),
    "DIB": (".bmp", "image/bmp"),
    "TIFF": (".tif", "image/tiff"),
    "WEBP": (".webp", "image/webp"),
    "GIF": (".gif", "image/gif"),
    "PPM": (".ppm", "image/x-portable-pixmap"),
}
MEDIA_TYPES = dict(UPLOAD_FORMATS.values())
LONGEST_NAME = 120
MAX_WAITING_PIXELS = 1 << 21
"""Of a picture that may wait decoded: 64 of them take 400 MB."""


@dataclass(frozen=True)
class UploadLimits:
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


@dataclass(frozen=True)
class Picture:
    """An upload that is a picture."""

    upload: Upload
    suffix: str
    size: tuple[int, int]
    decoded: LoadedImage | None = None
    """Where it is small; a larger one is decoded again when it is needed."""
    late: bool = False
    """Whether its verdict came after the deadline of its camera, and so counts as none."""

    @property
    def name(self) -> str:
        return self.upload.name

    def row(self) -> dict[str, Any]:
        width, height = self.size
        own = {"sha256": self.upload.sha256, "suffix": self.suffix, "bytes": self.upload.bytes}
        return {**own, "width": width, "height": height, "added": now(), "kept": True}

    def load(self) -> LoadedImage:
        """The picture itself; its file must not have been moved yet."""
        if self.decoded is not None:
            return self.decoded
        with room_for(self.upload.path, self.name, patience=None):  # it was accepted
            return load_image(self.upload.path, self.name)


def checked_picture(upload: Upload, limits: UploadLimits) -> Picture:
    """Opens an upload as what its content is, and decodes it all; `ImageError` if it cannot."""
    with opened_picture(os.fspath(upload.path), upload.name) as opened:
        width, height = opened.size
        suffix = UPLOAD_FORMATS.get(opened.format or "", (".png", ""))[0]
    if width * height > limits.pixels:
        facts = {"name": upload.name, "width": width, "height": height, "limit": limits.pixels}
        raise TooLargeError("image-pixels", **facts)
    with room_for(upload.path, upload.name):
        image = load_image(upload.path, upload.name)
    small = width * height <= MAX_WAITING_PIXELS
    return Picture(upload, suffix, image.size, image if small else None)


def jpeg_of(picture: Pillow.Image) -> bytes:
    """A picture as browsers get it."""
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=90, subsampling=0)
    return content.getvalue()


def clean_name(raw: str, otherwise: str = "image") -> str:
    """A client's file name as something to show: no folders, nothing that steers a terminal."""
    last = raw.replace("\\", "/").rsplit("/", 1)[-1]
    clean = visible(last.encode("utf-8", errors="replace").decode()).strip()
    return clean[:LONGEST_NAME] or otherwise
