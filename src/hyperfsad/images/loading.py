"""Every pixel enters here: open, check, turn upright, make RGB, resize, normalise.

Every bad file is named here too: whatever a decoder raises becomes one `ImageError`.
"""

import contextlib
import hashlib
import io
import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol, TypeAlias, TypeGuard, get_args

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from ..arrays import namespace, to_numpy
from ..disk.files import open_regular, write_file
from ..errors import HyperfsadError, ImageError, UsageError, brief, first_line, reason


class Tensor(Protocol):
    """An array of another library than numpy, such as torch."""

    def __dlpack__(self) -> Any:
        """Its values, as all of them pass them on."""


class BinaryFile(Protocol):
    """A file that is open for reading bytes."""

    def read(self, size: int = ..., /) -> bytes:
        """Its content."""


@dataclass(frozen=True)
class FileContent:
    """The content of a picture's file, or why it could not be read."""

    name: str
    content: bytes = field(repr=False)
    problem: ImageError | None = None


ImageSource: TypeAlias = (
    str
    | os.PathLike[str]
    | Image.Image
    | NDArray[Any]
    | Tensor
    | BinaryFile
    | bytes
    | bytearray
    | FileContent
)
"""One image, whatever it comes as."""

ChannelOrder: TypeAlias = Literal["rgb", "bgr"]
"""The order of the channels in an array; OpenCV has them the other way round."""

# What Pillow may try. Formats that start other programs (EPS) or are not pictures stay out.
FORMATS = ("PNG", "JPEG", "BMP", "DIB", "TIFF", "WEBP", "GIF", "PPM")

MIN_SIDE = 8
"""A picture with a shorter side does not show a part: squashed to a square it is a blur."""

BAND = 1 << 22
"""Pixels that are copied at a time, since a copy of the whole picture might not fit."""

LARGEST_DRAWN = 1 << 24
"""Pixels of the largest picture that is drawn on; larger ones are reduced first."""


@dataclass(frozen=True)
class NormalImage:
    """A support image: its name, the hash of its pixels, and its width and height."""

    name: str
    sha256: str
    size: tuple[int, int] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class LoadedImage:
    """One picture, upright: mode RGB, or F (grey from 0 to 255) where it had more than 8 bits."""

    name: str
    pixels: Image.Image

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.pixels.size

    def rgb(self) -> Image.Image:
        """The picture as people see it, 8 bits a channel."""
        if self.pixels.mode == "RGB":
            return self.pixels
        grey = np.clip(np.rint(np.asarray(self.pixels)), 0, 255).astype(np.uint8)
        return Image.fromarray(grey).convert("RGB")

    def reduced(self, pixels: int) -> "LoadedImage":
        """The picture itself, or a smaller one of about this number of pixels, for drawing."""
        width, height = self.size
        if width * height <= pixels:
            return self
        factor = math.ceil((width * height / pixels) ** 0.5)
        return LoadedImage(self.name, self.pixels.reduce(factor))

    def sha256(self) -> str:
        """The hash of the picture itself, whatever file format carried it."""
        digest = hashlib.sha256(f"{self.pixels.mode} {self.size}".encode())
        for band in _bands(self.pixels):  # the bytes of all at once would take twice its memory
            digest.update(band.tobytes())
        return digest.hexdigest()

    def to_array(
        self,
        resolution: int,
        mean: Sequence[float],
        std: Sequence[float],
        box: tuple[float, float, float, float] | None = None,
    ) -> NDArray[np.float32]:
        """The encoder's input, (3, resolution, resolution): squashed, bicubic, normalised.

        `box` (left, upper, right, lower, in pixels) takes a part of the picture.
        """
        return normalised(self.square(resolution, box), mean, std)

    def square(
        self, side: int, box: tuple[float, float, float, float] | None = None
    ) -> NDArray[np.float32]:
        """The picture, or a part of it, squashed to a square: (side, side, 3), from 0 to 255."""
        resized = self.pixels.resize((side, side), Image.Resampling.BICUBIC, box=box)
        values = np.asarray(resized, dtype=np.float32)
        return values if values.ndim == 3 else np.repeat(np.clip(values, 0, 255)[:, :, None], 3, 2)


def normalised(
    pixels: NDArray[np.float32], mean: Sequence[float], std: Sequence[float]
) -> NDArray[np.float32]:
    """From (H, W, 3), 0 to 255, to what encoders are trained on, (3, H, W)."""
    centred = pixels / 255 - np.asarray(mean, dtype=np.float32)
    scaled = centred / np.asarray(std, dtype=np.float32)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


@dataclass(frozen=True)
class PreparedImage:
    """An image as the encoder takes it; its own pixels are dropped unless they are asked for."""

    source: "ImageSource"
    name: str
    size: tuple[int, int]
    pixels: NDArray[Any]
    """The encoder's input."""
    picture: LoadedImage | None
    """To draw upon: the image, or a reduced copy of a large one."""
    whole: LoadedImage | None = None
    """The image itself, where a detector cuts tiles from it."""


@dataclass(frozen=True)
class NamedFile(os.PathLike[str]):
    """The path of an image that results and errors call by another name."""

    path: str
    name: str

    def __fspath__(self) -> str:
        return self.path


def load_image(source: "ImageSource | LoadedImage", name: str | None = None) -> LoadedImage:
    """Opens a path, an open file or its content, a PIL image, or an array or tensor (H×W or H×W×3,
    uint8, uint16 or float in [0, 1]; of a tensor the channels may come first)."""
    if isinstance(source, LoadedImage):
        return source
    if is_file(source) or isinstance(source, bytes | bytearray):
        source = file_content(source)
    if isinstance(source, FileContent):
        if source.problem is not None:
            raise source.problem
        return read_image(source.content, name or source.name)
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        name = name or (source.name if isinstance(source, NamedFile) else path)
        with opened_picture(path, name) as image:
            return _decoded(image, name, ours=True)
    if isinstance(source, Image.Image):
        name = name or str(getattr(source, "filename", "") or "image")
        with picture_errors(name):
            return _decoded(source, name)
    if not isinstance(source, np.ndarray) and not is_tensor(source):
        raise UsageError("image-type", given=brief(source))
    name = name or ("array" if isinstance(source, np.ndarray) else "tensor")
    with picture_errors(name):
        array = source if isinstance(source, np.ndarray) else array_of(source)
        return _large_enough(_from_array(array, name), name)


def kept(
    source: "ImageSource | LoadedImage", channels: ChannelOrder = "rgb"
) -> "ImageSource | LoadedImage":
    """One image that can be read again, and whose channels are in our order.

    A file is read at once, since whoever opened it may close it before the encoder is ready.
    """
    if channels not in (orders := get_args(ChannelOrder)):
        raise UsageError("setting-invalid", name="channels", given=brief(channels), choices=orders)
    if is_file(source) or isinstance(source, bytes | bytearray):
        return file_content(source)
    if not isinstance(source, np.ndarray) and not is_tensor(source):
        return source
    if len(shape := tuple(source.shape)) == 4:  # type: ignore[union-attr]
        raise UsageError("image-batch", shape=shape)
    if channels == "rgb":
        return source
    array = source if isinstance(source, np.ndarray) else array_of(source)
    coloured = array.ndim == 3 and array.shape[2] in (3, 4)
    return array[:, :, (2, 1, 0, 3)[: array.shape[2]]] if coloured else array


def is_file(source: object) -> TypeGuard[BinaryFile]:
    """Whether this is an open file."""
    return callable(getattr(source, "read", None))


def file_content(source: BinaryFile | bytes | bytearray) -> FileContent:
    """What a file holds, and its name where it has one."""
    if isinstance(source, bytes | bytearray):
        return FileContent("image", bytes(source))
    name = getattr(source, "name", None)
    name = name if isinstance(name, str) else "image"
    try:
        with picture_errors(name):
            content = source.read()
    except ImageError as error:
        return FileContent(name, b"", error)
    if not isinstance(content, bytes):
        raise UsageError("image-file-text", name=name)
    return FileContent(name, content)


def draft(image: Image.Image, pixels: int) -> None:
    """Has an opened picture decoded no larger than drawing needs, where its format (JPEG) can."""
    scale = (image.width * image.height / pixels) ** 0.5
    if scale > 1:
        image.draft(None, (int(image.width / scale), int(image.height / scale)))


def drawn_image(path: str, name: str, pixels: int = LARGEST_DRAWN) -> LoadedImage:
    """A picture to look at, of about this number of pixels at most."""
    with opened_picture(path, name) as image:
        draft(image, pixels)
        return _decoded(image, name, ours=True).reduced(pixels)


def read_image(content: bytes, name: str) -> LoadedImage:
    """The picture in the content of a file that lies elsewhere, as `load_image` reads one here."""
    with picture_errors(name), _recognised(io.BytesIO(content), len(content), name) as image:
        return _decoded(image, name, ours=True)


def _large_enough(pixels: Image.Image, name: str) -> LoadedImage:
    width, height = pixels.size
    if min(width, height) < MIN_SIDE:
        raise ImageError("image-too-small", name=name, width=width, height=height, least=MIN_SIDE)
    return LoadedImage(name, pixels)


@contextlib.contextmanager
def picture_errors(name: str) -> Iterator[None]:
    """Turns whatever is raised while a picture is opened, decoded or converted into `ImageError`.

    Decoders raise all kinds of exceptions on damaged files, and some only when pixels or EXIF data
    are asked for. So all of it happens inside this block, and the caller goes on with the next.
    """
    try:
        with fitting_memory(name):
            yield
    except HyperfsadError:
        raise
    except FileNotFoundError:
        raise ImageError("image-missing", name=name) from None
    except UnidentifiedImageError as error:
        raise ImageError("image-unsupported", name=name) from error
    except Image.DecompressionBombError as error:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0) / 1e6
        raise ImageError("image-too-large", name=name, megapixels=limit) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's, not a decoder's
            raise ImageError("image-unreadable", name=name, reason=reason(error).lower()) from error
        raise ImageError("image-damaged", name=name, reason=first_line(error)) from error


@contextlib.contextmanager
def fitting_memory(name: str) -> Iterator[None]:
    """Turns a lack of memory into the picture's `ImageError`."""
    try:
        yield
    except MemoryError:
        raise ImageError("image-memory", name=name) from None


@contextlib.contextmanager
def opened_picture(path: str, name: str) -> Iterator[Image.Image]:
    """A picture's file, opened but not decoded; errors in the block become `ImageError`."""
    with picture_errors(name):
        if not path or "\0" in path:
            raise ImageError("image-path", name=name)
        if os.path.islink(path) and not os.path.lexists(os.path.realpath(path)):
            raise ImageError("image-link", name=name)
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            with _recognised(file, size, name) as image:
                yield image


def _recognised(file: IO[bytes], size: int, name: str) -> Image.Image:
    """The picture in an open file, of which only the header is read yet."""
    if size == 0:
        raise ImageError("image-empty", name=name)
    # Only while the header is read: warning filters belong to all threads at once.
    with warnings.catch_warnings():
        # Pillow warns at half its limit, but pictures of that size are real.
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        return Image.open(file, formats=FORMATS)


def _decoded(image: Image.Image, name: str, *, ours: bool = False) -> LoadedImage:
    """The first frame, fully decoded, upright, in mode RGB or F.

    A picture that is `ours` may be changed in place: a copy of 100 million pixels takes 400 MB.
    """
    image.load()
    if ours:
        ImageOps.exif_transpose(image, in_place=True)
    else:
        image = ImageOps.exif_transpose(image)
    return _large_enough(_canonical(image, name), name)


def _canonical(image: Image.Image, name: str) -> Image.Image:
    convert = CONVERSIONS.get(image.mode)
    if convert is None:
        raise ImageError("image-mode", name=name, mode=image.mode)
    if "transparency" in image.info and not image.mode.startswith(("I", "F")):
        convert = _over_white
    return convert(image, name)


def _over_white(image: Image.Image, _: str) -> Image.Image:
    """A picture with transparency laid over white, band by band."""
    found = Image.new("RGB", image.size)
    top = 0
    for band in _bands(image):
        colours = band.convert("RGBA")
        white = Image.new("RGBA", colours.size, (255, 255, 255, 255))
        found.paste(Image.alpha_composite(white, colours).convert("RGB"), (0, top))
        top += band.height
    return found


def _bands(image: Image.Image) -> Iterator[Image.Image]:
    """A picture cut into bands of rows, the upper first."""
    width, height = image.size
    rows = max(1, BAND // width)
    for top in range(0, height, rows):
        yield image.crop((0, top, width, min(top + rows, height)))


def _deep_grey(image: Image.Image, name: str) -> Image.Image:
    """16-bit grey on the fixed scale 65535 → 255: never stretched per image."""
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise ImageError("image-grey-range", name=name)
    return Image.fromarray(values.astype(np.float32) / np.float32(257))


def _unit_interval(values: NDArray[Any], name: str) -> NDArray[np.float32]:
    if not np.isfinite(values).all():
        raise ImageError("image-not-finite", name=name)
    if values.min() < 0 or values.max() > 1:
        raise ImageError("image-float-range", name=name)
    return values.astype(np.float32)


CONVERSIONS: dict[str, Callable[[Image.Image, str], Image.Image]] = {
    "RGB": lambda image, _: image,
    **dict.fromkeys(("1", "L", "P", "CMYK", "YCbCr", "HSV"), lambda image, _: image.convert("RGB")),
    **dict.fromkeys(("RGBA", "RGBa", "LA", "La", "PA"), _over_white),
    **dict.fromkeys(("I", "I;16", "I;16L", "I;16B", "I;16N"), _deep_grey),
    "F": lambda image, name: _from_array(np.asarray(image), name),
}
"""From Pillow's modes to RGB, or F for grey of more than 8 bits; other modes are refused."""


def _from_array(array: NDArray[Any], name: str) -> Image.Image:
    values = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    colour = values.ndim == 3 and values.shape[2] in (3, 4)
    if not (values.ndim == 2 or colour) or values.size == 0:
        raise ImageError("array-shape", name=name, shape=array.shape)
    if values.dtype == np.uint16:
        values = values.astype(np.float32) / np.float32(65535)
    elif np.issubdtype(values.dtype, np.floating):
        values = _unit_interval(values, name)
    elif values.dtype != np.uint8:
        raise ImageError("array-type", name=name, type=str(values.dtype))
    if values.dtype == np.float32 and not colour:
        return Image.fromarray(values * np.float32(255))
    if values.dtype == np.float32:
        values = np.rint(values * 255).astype(np.uint8)
    return _canonical(Image.fromarray(values), name)


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Whether this is an array of another library than numpy."""
    return is_array_api_obj(value) and not isinstance(value, np.ndarray | np.generic)


def array_of(tensor: Any) -> NDArray[Any]:
    """A tensor as an array, channels last: no side of a picture is as short as its channels."""
    xp = namespace(tensor)
    real = xp.isdtype(tensor.dtype, "real floating")
    array = to_numpy(xp.astype(tensor, xp.float32) if real else tensor)
    first = array.ndim == 3 and array.shape[0] in (1, 3, 4)
    return np.ascontiguousarray(array.transpose(1, 2, 0)) if first else array


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of at most `size` items, taken lazily."""
    remaining = iter(items)
    while batch := list(itertools.islice(remaining, size)):
        yield batch


def save_picture(picture: Image.Image, path: Path, *, parents: bool = False) -> None:
    """Writes a picture whole or not at all; `parents` makes the folders above it."""
    write_file(path, picture_file(picture, path.name), parents=parents)


def picture_file(picture: Image.Image, name: str) -> memoryview:
    """The content of a picture's file; the kind follows from its name."""
    suffix = os.path.splitext(name)[1].lower()
    options = {"quality": 92, "subsampling": 0} if suffix in (".jpg", ".jpeg") else {}
    kind = Image.registered_extensions().get(suffix)
    if kind is None:
        raise UsageError("picture-suffix", name=name)
    content = io.BytesIO()
    picture.save(content, format=kind, **options)
    return content.getbuffer()
