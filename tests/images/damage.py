"""Damaged pictures: some that are known to be hard on decoders, and mutations from a seed."""

import io
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from tests.conftest import make_picture

KINDS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "PPM")


def encoded(kind: str, size: tuple[int, int] = (32, 24)) -> bytes:
    """A small picture in a format, with an orientation and a text where the format has them."""
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a text of the camera"
    picture = make_picture(1, size)
    options: dict[str, Any] = {"exif": exif} if kind in ("PNG", "JPEG", "WEBP") else {}
    if kind == "TIFF":
        options = {"compression": "tiff_lzw", "tiffinfo": exif}
    content = io.BytesIO()
    (picture.quantize(32) if kind == "GIF" else picture).save(content, kind, **options)
    return content.getvalue()


def mutations(kind: str, count: int, seed: int) -> Iterator[bytes]:
    """Pictures that were cut, overwritten, shortened in the middle or mixed up."""
    rng = random.Random(f"{kind} {seed}")
    whole = encoded(kind)
    header = min(len(whole), 80)
    for number in range(count):
        damaged = bytearray(whole)
        place, length = rng.randrange(len(whole)), rng.randint(1, 40)
        if number % 5 == 0:
            del damaged[max(place, 1) :]
        elif number % 5 == 1:
            for _ in range(rng.randint(1, 8)):
                damaged[rng.randrange(len(whole))] = rng.randrange(256)
        elif number % 5 == 2:
            for _ in range(rng.randint(1, 6)):
                damaged[rng.randrange(header)] = rng.choice((0, 1, 127, 128, 255))
        elif number % 5 == 3:
            del damaged[place : place + length]
        else:
            other = rng.randrange(len(whole))
            damaged[place:place] = whole[other : other + length]
        yield bytes(damaged)


def hard_files(folder: Path) -> list[Path]:
    """Files that have stopped a run before: whatever decoders raise on them, and when."""
    png, webp = encoded("PNG"), encoded("WEBP", (320, 240))
    packed = zlib.compress(bytes(20_000_000))
    contents = {
        "half.webp": webp[: len(webp) // 2],
        "header.ppm": b"P6\n",
        "text.png": _with_chunk(png, b"zTXt", b"key\0\0" + packed),
        "profile.png": _with_chunk(png, b"iCCP", b"key\0\0" + packed),
        "cut.png": png[: len(png) // 2],
    }
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


def _with_chunk(png: bytes, kind: bytes, content: bytes) -> bytes:
    """A PNG with one more chunk behind its header."""
    check = struct.pack(">I", zlib.crc32(kind + content))
    return png[:33] + struct.pack(">I", len(content)) + kind + content + check + png[33:]
