"""The detector file: one safetensors file, its settings as JSON in the header. No code, no pickle.

Tensors: `patches.<layer>` (K·N, D) and `cls` (K, layers, D), float32. An image that is remembered
in several orientations counts as often in K and stands once in the header. A detector with a region
of interest also has `roi`, one with a compact memory `core` (the rows that it is compared with),
one of 8 bits its encoder (see `quantised`); one that cuts images into tiles has theirs (see
`views.tile_files`). The header keeps one JSON string under one key, since safetensors does not keep
the order of several. A file of several products has the tensors of each under
`products.<number>.`, and their headers. One with a fast detector before the full one has its
tensors under `fast.` and its header under `fast`; all else in it is the full detector, and reads as
one.

Every byte has a checksum: tensors theirs in the header, and the header its seal (`disk.tensors`),
which files of earlier versions lack. Beyond that nothing is believed: the header is checked by
`schema`, shapes before tensors are read, and tokens for their length, which is 1.
"""

import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open

from ..disk.files import atomic_path, open_regular
from ..disk.locks import locked_file
from ..disk.tensors import (
    Head,
    StoredTensor,
    StreamedTensor,
    read_head,
    read_json,
    write_tensors,
)
from ..encoders import REGISTRY, EncoderSettings
from ..errors import DetectorFileError, UsageError, first_line
from ..images.loading import NormalImage
from ..method.memory import MemoryBank
from ..views import View, stored_extras
from .keys import KEY
from .schema import check_header

FORMAT = 3
"""1 had no recipe, sharpness or scales: all were the paper's. 2 had one product, one orientation of
each image, and no tiles."""
FAST = "fast."
"""Before the names of a fast detector's tensors."""

UNIT = 0.01
"""How far the length of a token may be from 1."""

_DAMAGES = (SafetensorError, OSError, KeyError, TypeError, ValueError, ZeroDivisionError)
"""What reading a damaged file may raise."""
_MISMATCH = "its content does not match its description"

Found = TypeVar("Found")


def write_detector(
    path: Path,
    bank: MemoryBank,
    settings: dict[str, Any],
    view: View,
    further: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Writes the file at once or not at all; the same detector always gives the same bytes.

    The view adds what it keeps beside the memory bank.
    """
    own = {**_viewed(view), **(further or {})}
    tensors, description = _described(bank, {**settings, "tiles": view.stored()}, own)
    header = {"format": FORMAT, **description}
    _write(path, {**tensors, **view.tensors()}, header, lambda: view.release(path))


def write_products(path: Path, products: Mapping[str, tuple[MemoryBank, dict[str, Any]]]) -> None:
    """Writes the memory banks and settings of several products."""
    tensors: dict[str, StreamedTensor] = {}
    headers = []
    for number, (name, (bank, own)) in enumerate(products.items()):
        found, description = _described(bank, own, {})
        tensors |= {f"{_prefix(number)}{key}": tensor for key, tensor in found.items()}
        headers.append({"name": name, **description})
    _write(path, tensors, {"format": FORMAT, "products": headers})


def write_cascade(
    path: Path,
    bank: MemoryBank,
    settings: dict[str, Any],
    view: View,
    fast: tuple[MemoryBank, dict[str, Any], Mapping[str, torch.Tensor]],
) -> None:
    """Writes a detector, and the fast one that looks before it."""
    tensors, description = _described(bank, settings, _viewed(view))
    found, own = _described(*fast)
    tensors |= {f"{FAST}{key}": tensor for key, tensor in found.items()}
    _write(path, tensors, {"format": FORMAT, **description, "fast": own})


def _viewed(view: View) -> dict[str, torch.Tensor]:
    """What a view keeps in memory beside the bank."""
    tensors = dict(view.region.tensors())
    if view.core is not None:
        tensors["core"] = view.core.cpu().to(torch.uint8)
    return tensors


def _described(
    bank: MemoryBank, settings: dict[str, Any], further: Mapping[str, torch.Tensor]
) -> tuple[dict[str, StreamedTensor], dict[str, Any]]:
    tensors = {**further, **_tensors(bank, settings["encoder"]["layers"])}
    streams = {name: StreamedTensor.of(tensor) for name, tensor in tensors.items()}
    return streams, {
        **settings,
        "normal_images": _listed(bank),
        "crc32": {name: _crc32(tensor) for name, tensor in tensors.items()},
    }


def _write(
    path: Path,
    tensors: Mapping[str, StreamedTensor],
    header: dict[str, Any],
    release: Callable[[], None] = lambda: None,
) -> None:
    """`release` lets the file at the path be replaced."""
    try:
        text = json.dumps(header, allow_nan=False)
        check_header(json.loads(text))
    except ValueError as error:  # set by hand: nobody could read it again
        raise UsageError(f"{path} is not written: {first_line(error)}.") from error
    with locked_file(path), atomic_path(path) as temporary:
        write_tensors(temporary, tensors, {KEY: text})
        release()


def read_header(path: Path) -> dict[str, Any]:
    """The settings in a detector file, every one of them checked; no tensor is read."""
    return _read_head(path)[0]


def _read_head(path: Path) -> tuple[dict[str, Any], Head]:
    if not path.exists():
        raise DetectorFileError(f"There is no detector file {path}.")
    if path.is_dir():
        raise DetectorFileError(f"{path} is a folder, not a detector file.")
    try:
        with open_regular(path):
            pass  # safetensors would wait for a pipe, and call a forbidden file missing
    except OSError as error:
        raise DetectorFileError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        head = read_head(path)
        text = head.metadata.get(KEY)
        header = read_json(text) if isinstance(text, str) else None
    except (OSError, ValueError) as error:
        raise DetectorFileError(f"{path} is damaged, cut short or no detector file.") from error
    if not isinstance(header, dict) or type(header.get("format")) is not int:
        raise DetectorFileError(f"{path} is a safetensors file, but not a hyperfsad detector.")
    if header["format"] > FORMAT:
        raise DetectorFileError(
            f"{path} was written by a newer hyperfsad (format {header['format']}, this one reads"
            f" up to {FORMAT}); upgrade hyperfsad."
        )
    try:
        check_header(header)
    except ValueError as error:
        raise DetectorFileError(f"{path} is damaged: {error}.") from error
    return header, head


def holds_products(header: dict[str, Any]) -> bool:
    """Whether a file's header is that of several products."""
    return "products" in header


def holds_cascade(header: dict[str, Any]) -> bool:
    """Whether a file's header is that of a detector with a fast one before it."""
    return "fast" in header


def read_detector(path: Path) -> tuple[MemoryBank, dict[str, Any]]:
    """The memory bank and the settings of a detector file, every part of it checked."""
    return _steady(path, lambda: _read_detector(path))


def _steady(path: Path, read: Callable[[], Found]) -> Found:
    """Reads again where another process replaced the file meanwhile: both versions are sound."""
    for _ in range(3):
        before = _stamp(path)
        try:
            found = read()
        except DetectorFileError:
            if _stamp(path) == before:
                raise
        else:
            if _stamp(path) == before:
                return found
    return read()


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read_detector(path: Path) -> tuple[MemoryBank, dict[str, Any]]:
    header, head = _read_head(path)
    if holds_products(header):
        raise DetectorFileError(
            f"{path} holds several products, and this needs a detector of one; in Python, open it"
            " with ProductDetector.load or load_detector."
        )
    try:
        with safe_open(path, framework="pt") as file:
            bank = _checked_bank(file, head, header)
            _check_core(file, header, len(bank.patches[0]))
            return replace(bank, extras=stored_extras(path, file, bank, header)), header
    except _DAMAGES as error:
        raise DetectorFileError(f"{path} is damaged{_how(error)}.") from error


def read_cascade(path: Path) -> list[tuple[MemoryBank, dict[str, Any]]]:
    """The memory banks and settings of a full detector and of its fast one, all checked."""
    return _steady(path, lambda: _read_cascade(path))


def _read_cascade(path: Path) -> list[tuple[MemoryBank, dict[str, Any]]]:
    header, head = _read_head(path)
    if not holds_cascade(header):
        raise DetectorFileError(
            f"{path} holds no fast detector; in Python, open it with load_detector."
        )
    try:
        with safe_open(path, framework="pt") as file:
            found = [(_checked_bank(file, head, header), header)]
            found.append((_checked_bank(file, head, header["fast"], FAST), header["fast"]))
        encoders = [(own["encoder"]["name"], bank.cls.shape[2]) for bank, own in found]
        parts = [[image.sha256 for image in bank.normal_images] for bank, _ in found]
        plain = all(own.get("tiles") is None and own.get("roi") is None for _, own in found)
        if encoders[0] != encoders[1] or parts[0] != parts[1] or not plain:
            raise ValueError(_MISMATCH)
    except _DAMAGES as error:
        raise DetectorFileError(f"{path} is damaged{_how(error)}.") from error
    return found


def read_products(path: Path) -> dict[str, tuple[MemoryBank, dict[str, Any]]]:
    """The memory bank and the settings of each product in a file, every part of it checked."""
    return _steady(path, lambda: _read_products(path))


def _read_products(path: Path) -> dict[str, tuple[MemoryBank, dict[str, Any]]]:
    header, head = _read_head(path)
    if not holds_products(header):
        raise DetectorFileError(
            f"{path} holds a detector of one product; in Python, open it with HyperFSAD.load or"
            " load_detector."
        )
    products: dict[str, tuple[MemoryBank, dict[str, Any]]] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for number, own in enumerate(header["products"]):
                bank = _checked_bank(file, head, own, _prefix(number))
                if own.get("tiles") is not None:
                    raise ValueError(_MISMATCH)  # products are never cut into tiles
                products[str(own["name"])] = bank, own
        names = [own["name"] for own in header["products"]]
        alike = [(own["encoder"], bank.cls.shape[2]) for bank, own in products.values()]
        if not names or list(products) != names or alike.count(alike[0]) != len(names):
            raise ValueError(_MISMATCH)
    except _DAMAGES as error:
        raise DetectorFileError(f"{path} is damaged{_how(error)}.") from error
    return products


def _how(error: BaseException) -> str:
    """What is damaged, where we know it: the words of safetensors are about its own insides."""
    if isinstance(error, KeyError):
        return f": it has no {error.args[0]}"
    return "" if isinstance(error, SafetensorError) else f": {first_line(error)}"


def _checked_bank(file: Any, head: Head, header: dict[str, Any], prefix: str = "") -> MemoryBank:
    layers = header["encoder"]["layers"]
    grid = header["encoder"]["resolution"] // header["encoder"]["patch"]
    entries = sum(image.get("views", 1) for image in header["normal_images"])
    width = head.tensors[f"{prefix}cls"].shape[-1:]
    expected = {f"{prefix}patches.{layer}": (entries * grid**2, *width) for layer in layers}
    expected[f"{prefix}cls"] = (entries, len(layers), *width)
    for name, shape in expected.items():
        place = head.tensors[name]
        if place != StoredTensor("F32", shape, place.start) or 0 in shape:
            raise ValueError(_MISMATCH)
    images = _images(header["normal_images"])
    patches = tuple(file.get_tensor(f"{prefix}patches.{layer}") for layer in layers)
    bank = MemoryBank(patches, file.get_tensor(f"{prefix}cls"), images)
    for name, tensor in _tensors(bank, layers).items():
        if _crc32(tensor) != header["crc32"][name] or not _unit(tensor):
            raise ValueError(_MISMATCH)
    return bank


def _check_core(file: Any, header: dict[str, Any], rows: int) -> None:
    """Refuses a mask of kept rows that does not belong to the bank."""
    compact = header.get("compact")
    if compact is None:
        return
    core = file.get_tensor("core")
    fits = core.dtype == torch.uint8 and core.shape == (rows,) and int(core.max()) == 1
    if not fits or int(core.sum()) != compact["kept"] or _crc32(core) != header["crc32"]["core"]:
        raise ValueError(_MISMATCH)


def _prefix(number: int) -> str:
    """By number, since the name of a product may be any text."""
    return f"products.{number}."


def read_tensor(path: Path, header: dict[str, Any], name: str, prefix: str = "") -> torch.Tensor:
    """A further tensor of a detector file, checked; the header is that of its detector."""
    try:
        with safe_open(path, framework="pt") as file:
            tensor: torch.Tensor = file.get_tensor(f"{prefix}{name}")
        if _crc32(tensor.contiguous()) != header["crc32"][name]:
            raise ValueError(_MISMATCH)
    except _DAMAGES as error:
        raise DetectorFileError(f"{path} is damaged{_how(error)}.") from error
    return tensor


def _listed(bank: MemoryBank) -> list[dict[str, Any]]:
    return [
        {
            "name": (image := bank.images[places[0]]).name,
            "sha256": image.sha256,
            **({} if image.size is None else {"size": list(image.size)}),
            **({} if len(places) == 1 else {"views": len(places)}),
        }
        for places in bank.entries
    ]


def _images(described: list[dict[str, Any]]) -> tuple[NormalImage, ...]:
    images: list[NormalImage] = []
    for image in described:
        size = image.get("size")
        normal = NormalImage(image["name"], image["sha256"], None if size is None else tuple(size))
        images += [normal] * image.get("views", 1)
    return tuple(images)


def _tensors(bank: MemoryBank, layers: list[int]) -> dict[str, torch.Tensor]:
    named = {f"patches.{layer}": rows for layer, rows in zip(layers, bank.patches, strict=True)}
    return {name: t.cpu().contiguous() for name, t in {**named, "cls": bank.cls}.items()}


def _crc32(tensor: torch.Tensor) -> int:
    return zlib.crc32(tensor.numpy().data)


def _unit(tensor: torch.Tensor) -> bool:
    """Whether all tokens have the length 1; zeros would match nothing, and NaN everything."""
    return bool(((torch.linalg.vector_norm(tensor, dim=-1) - 1).abs() < UNIT).all())


def stored_encoder(
    header: dict[str, Any], path: str, backbone: str | None
) -> tuple[EncoderSettings, str]:
    """The settings of a detector's encoder, perhaps at another place, and its fingerprint."""
    names = {field.name for field in fields(EncoderSettings)}
    stored = {name: value for name, value in header["encoder"].items() if name in names}
    fingerprint = str(header["encoder"]["fingerprint"])
    if backbone is not None:
        if stored["name"] in REGISTRY and backbone != stored["name"]:
            raise UsageError(
                f"{path} was made with {stored['name']} and works with no other encoder;"
                " --backbone only names the place of a folder that moved."
            )
        stored["name"] = backbone
    for name in ("layers", "mean", "std"):
        stored[name] = tuple(stored[name])
    settings = EncoderSettings(**stored)
    if settings.name not in REGISTRY and not os.path.isdir(settings.name):
        raise UsageError(
            f"{path} needs the encoder folder {settings.name}, which is not there;"
            " give its place as backbone (--backbone FOLDER)."
        )
    return settings, fingerprint
