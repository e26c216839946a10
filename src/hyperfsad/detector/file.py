"""The detector file: one safetensors file, its settings as JSON in the header. No code, no pickle.

Tensors: `patches.<layer>` (K·N, D) and `cls` (K, layers, D), float32. An image that is remembered
in several orientations counts as often in K and stands once in the header. A detector with a region
of interest also has `roi`, one with a compact memory `core` (the rows that it is compared with),
one of 8 bits its encoder (`quantised.…`); one that cuts images into tiles has theirs (see
`views.tile_files`). The header keeps one JSON string under one key, since safetensors does not keep
the order of several. A file of several products has the tensors of each under `products.<number>.`,
and their headers. One with 8-bit pre-screening has its tensors under `fast.` and its header under
`fast`; all else in it is the full detector, and reads as one.

Every byte has a checksum: tensors theirs in the header, and the header its seal (`disk.tensors`).
Beyond that nothing is believed: the header is checked by `header`, shapes before tensors are read,
and tokens for their length, which is 1. Nothing here needs torch before tensors are read.
"""

import importlib.util
import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..disk.files import atomic_path, locked_file, open_regular
from ..disk.tensors import (
    Head,
    StoredTensor,
    StreamedTensor,
    read_head,
    read_json,
    write_tensors,
)
from ..encoders import REGISTRY, EncoderSettings
from ..encoders.runtime import (
    FULL,
    INT8,
    CompileOptions,
    named_engine,
    precision_in,
    start_compiling,
    weights_in,
)
from ..errors import DetectorFileError, UsageError, brief, first_line
from ..images.loading import NormalImage
from .header import HeaderError, check_header

if TYPE_CHECKING:
    from torch import Tensor

    from ..decisions.thresholds import Calibration
    from ..encoders.quantisation import Quantised
    from ..method.memory import MemoryBank
    from ..views import View

DETECTOR_FORMAT = 1
KEY = "hyperfsad"
"""Of the header in the file's metadata."""
ONE, PRODUCTS, CASCADE = "one product", "several products", "8-bit pre-screening"
"""What a file may hold."""
FAST_PREFIX = "fast."
QUANTISED = ("quantised.graph", "quantised.constants")
TOKEN_TOLERANCE = 0.01
"""How far the length of a token may be from 1."""


@dataclass(frozen=True)
class StoredPart:
    """One detector of a file: what its header says, and its tensors."""

    header: dict[str, Any]
    bank: "MemoryBank"
    tensors: "Mapping[str, Tensor]"
    """Beside the memory bank, by name."""


@dataclass(frozen=True)
class DetectorFile:
    """A detector file whose header was read and checked; its tensors are not read yet."""

    path: Path
    header: dict[str, Any]
    head: Head
    stamp: tuple[int, ...] | None

    @property
    def holds(self) -> str:
        """One product, several, or one with 8-bit pre-screening."""
        if "products" in self.header:
            return PRODUCTS
        return CASCADE if "fast" in self.header else ONE

    @property
    def first(self) -> dict[str, Any]:
        """The header of the detector, or of its first product."""
        return self.header["products"][0] if self.holds == PRODUCTS else self.header

    def parts(self) -> list[StoredPart]:
        """The detectors of the file, every part of them checked: the products, or the full one and
        the fast one.

        Where another process replaces the file meanwhile it is read again: both are sound.
        """
        opened = self
        for _ in range(3):
            try:
                found = _read_parts(opened)
            except DetectorFileError:
                if _stamp(opened.path) == opened.stamp:
                    raise
            else:
                if _stamp(opened.path) == opened.stamp:
                    return found
            opened = open_file(opened.path)
        return _read_parts(opened)

    def begin_encoder(self, *, device: str, engine: str, threads: int | None) -> None:
        """Begins to load the encoder while torch is still being imported, where that can be.

        Nothing of the file is believed but the name of an encoder of ours: at worst a model of our
        own cache folder is compiled for nothing.
        """
        cores, settings = os.cpu_count() or 1, encoder_of(self.first)
        bounded = any(os.environ.get(name) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"))
        if (
            device in ("auto", "cpu")
            and named_engine(engine) in ("auto", "openvino")
            and importlib.util.find_spec("openvino") is not None
            and (1 <= threads <= cores if threads is not None else not bounded)
            and settings.name in REGISTRY
            and precision_in(self.first["encoder"]["fingerprint"]) == FULL
        ):
            start_compiling(settings, CompileOptions(threads or cores))


def open_file(path: "str | os.PathLike[str] | DetectorFile") -> DetectorFile:
    """Reads the header of a detector file and checks every field of it; no tensor is read."""
    if isinstance(path, DetectorFile):
        return path
    path = file_path(path)
    stamp = _stamp(path)
    if not path.exists():
        raise DetectorFileError("file-missing", path=path)
    if path.is_dir():
        raise DetectorFileError("file-is-folder", path=path)
    try:
        with open_regular(path):
            pass  # safetensors would wait for a pipe, and call a forbidden file missing
    except OSError as error:
        raise DetectorFileError("file-unreadable", path=path, cause=error.strerror) from error
    try:
        head = read_head(path)
        text = head.metadata.get(KEY)
        header = read_json(text) if isinstance(text, str) else None
    except (OSError, ValueError) as error:
        raise DetectorFileError("file-damaged", path=path) from error
    if not isinstance(header, dict) or type(header.get("format")) is not int:
        raise DetectorFileError("file-not-ours", path=path)
    if header["format"] != DETECTOR_FORMAT:
        raise DetectorFileError(
            "file-other-format", path=path, format=header["format"], known=DETECTOR_FORMAT
        )
    try:
        check_header(header)
    except HeaderError as error:
        raise DetectorFileError(
            "file-field-invalid", path=path, field=error.field, given=error.given
        ) from error
    return DetectorFile(path, header, head, stamp)


def file_path(path: Any) -> Path:
    """The path of a detector file."""
    try:
        text = os.fspath(path)
    except TypeError:
        text = ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError("file-not-a-path", given=brief(path))
    return Path(text)


def encoder_of(header: Mapping[str, Any]) -> EncoderSettings:
    """How the tokens of a detector were computed."""
    stored: dict[str, Any] = {}
    for each in fields(EncoderSettings):
        value = header["encoder"][each.name]
        stored[each.name] = tuple(value) if isinstance(value, list) else value
    return EncoderSettings(**stored)


def write_detector(path: Path, part: StoredPart, view: "View") -> None:
    """Writes the file at once or not at all; the same detector always gives the same bytes.

    The view adds what it keeps beside the memory bank.
    """
    stored = replace(part, header={**part.header, "tiles": view.stored()})
    tensors, header = _described(stored)
    _write(path, {**tensors, **view.tensors()}, header, lambda: view.release(path))


def write_products(path: Path, products: Mapping[str, StoredPart]) -> None:
    """Writes the detectors of several products."""
    tensors: dict[str, StreamedTensor] = {}
    headers = []
    for number, (name, part) in enumerate(products.items()):
        found, header = _described(part, _prefix(number))
        tensors |= found
        headers.append({"name": name, **header})
    _write(path, tensors, {"products": headers})


def write_cascade(path: Path, full: StoredPart, fast: StoredPart) -> None:
    """Writes a detector, and the fast one that judges before it."""
    tensors, header = _described(full)
    own, described = _described(fast, FAST_PREFIX)
    _write(path, {**tensors, **own}, {**header, "fast": described})


def _described(
    part: StoredPart, prefix: str = ""
) -> tuple[dict[str, StreamedTensor], dict[str, Any]]:
    tensors = {**part.tensors, **_tensors(part.bank, part.header["encoder"]["layers"])}
    streams = {f"{prefix}{name}": StreamedTensor.of(tensor) for name, tensor in tensors.items()}
    return streams, {
        **part.header,
        "normal_images": _listed(part.bank),
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
        text = json.dumps({"format": DETECTOR_FORMAT, **header}, allow_nan=False)
        check_header(json.loads(text))
    except ValueError as error:  # set by hand: nobody could read it again
        raise UsageError("file-not-written", path=path, cause=first_line(error)) from error
    with locked_file(path), atomic_path(path) as temporary:
        write_tensors(temporary, tensors, {KEY: text})
        release()


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read_parts(opened: DetectorFile) -> list[StoredPart]:
    from safetensors import SafetensorError, safe_open

    header = opened.header
    several = [(_prefix(n), own) for n, own in enumerate(header.get("products", ()))]
    fast = [(FAST_PREFIX, header["fast"])] if opened.holds == CASCADE else []
    try:
        with safe_open(opened.path, framework="pt") as file:
            found = [
                _read_part(file, opened, own, prefix)
                for prefix, own in several or [("", header), *fast]
            ]
        _check_together(opened.holds, found)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise DetectorFileError("file-damaged", path=opened.path) from error
    return found


def _check_together(holds: str, parts: list[StoredPart]) -> None:
    """Refuses detectors in one file that were not fitted together."""
    headers = [part.header for part in parts]
    encoders = [
        (own["encoder"], part.bank.cls.shape[2]) for own, part in zip(headers, parts, strict=True)
    ]
    if holds == PRODUCTS:
        names = {own["name"] for own in headers}
        alike = encoders.count(encoders[0]) == len(parts) == len(names)
        if not alike or any(own["tiles"] is not None for own in headers):
            raise ValueError("products differ")
    if holds == CASCADE:
        names = {own["encoder"]["name"] for own in headers}
        parts_known = [[image.sha256 for image in part.bank.normal_images] for part in parts]
        plain = all(own["tiles"] is None and own["roi"] is None for own in headers)
        if len(names) > 1 or encoders[0][1] != encoders[1][1] or not plain:
            raise ValueError("detectors differ")
        if parts_known[0] != parts_known[1]:
            raise ValueError("good parts differ")


def _read_part(file: Any, opened: DetectorFile, header: dict[str, Any], prefix: str) -> StoredPart:
    bank = _read_bank(file, opened.head, header, prefix)
    names = []
    if isinstance(header["roi"], dict):
        names.append("roi")
    if header["compact"] is not None:
        names.append("core")
    if precision_in(header["encoder"]["fingerprint"]) == INT8:
        names += QUANTISED
    tensors = {name: file.get_tensor(f"{prefix}{name}") for name in names}
    for name, tensor in tensors.items():
        if _crc32(tensor.contiguous()) != header["crc32"][name]:
            raise ValueError(name)
    if "core" in tensors:
        _check_core(tensors["core"], header["compact"]["kept"], len(bank.patches[0]))
    if header.get("tiles") is not None:
        from ..views import stored_tiles

        bank = replace(bank, extras=stored_tiles(opened.path, file, bank, header))
    return StoredPart(header, bank, tensors)


def _read_bank(file: Any, head: Head, header: dict[str, Any], prefix: str) -> "MemoryBank":
    from ..method.memory import MemoryBank

    layers = header["encoder"]["layers"]
    grid = header["encoder"]["resolution"] // header["encoder"]["patch"]
    entries = sum(image["entries"] for image in header["normal_images"])
    width = head.tensors[f"{prefix}cls"].shape[-1:]
    expected = {f"{prefix}patches.{layer}": (entries * grid**2, *width) for layer in layers}
    expected[f"{prefix}cls"] = (entries, len(layers), *width)
    for name, shape in expected.items():
        place = head.tensors[name]
        if place != StoredTensor("F32", shape, place.start) or 0 in shape:
            raise ValueError(name)
    images: list[NormalImage] = []
    for image in header["normal_images"]:
        size = None if image["size"] is None else tuple(image["size"])
        images += [NormalImage(image["name"], image["sha256"], size)] * image["entries"]
    patches = tuple(file.get_tensor(f"{prefix}patches.{layer}") for layer in layers)
    bank = MemoryBank(patches, file.get_tensor(f"{prefix}cls"), tuple(images))
    for name, tensor in _tensors(bank, layers).items():
        if _crc32(tensor) != header["crc32"][name] or not _unit(tensor):
            raise ValueError(name)
    return bank


def _check_core(core: "Tensor", kept: int, rows: int) -> None:
    """Refuses a mask of kept rows that does not belong to the bank."""
    fits = core.element_size() == 1 and core.shape == (rows,) and int(core.max()) == 1
    if not fits or int(core.sum()) != kept:
        raise ValueError("core")


def _prefix(number: int) -> str:
    """By number, since the name of a product may be any text."""
    return f"products.{number}."


def _listed(bank: "MemoryBank") -> list[dict[str, Any]]:
    return [
        {
            "name": (image := bank.images[places[0]]).name,
            "sha256": image.sha256,
            "size": None if image.size is None else list(image.size),
            "entries": len(places),
        }
        for places in bank.entries
    ]


def _tensors(bank: "MemoryBank", layers: list[int]) -> "dict[str, Tensor]":
    named = {f"patches.{layer}": rows for layer, rows in zip(layers, bank.patches, strict=True)}
    return {name: t.cpu().contiguous() for name, t in {**named, "cls": bank.cls}.items()}


def _crc32(tensor: "Tensor") -> int:
    return zlib.crc32(tensor.numpy().data)


def _unit(tensor: "Tensor") -> bool:
    """Whether all tokens have the length 1; zeros would match nothing, and NaN everything."""
    return bool(((tensor.norm(dim=-1) - 1).abs() < TOKEN_TOLERANCE).all())


def quantised_tensors(quantised: "Quantised | None") -> "dict[str, Tensor]":
    """What a detector file keeps of an 8-bit encoder."""
    import numpy as np
    import torch

    if quantised is None:
        return {}
    content = zip(QUANTISED, (quantised.graph, quantised.constants), strict=True)
    return {name: torch.tensor(np.frombuffer(part, np.uint8)) for name, part in content}


def read_quantised(part: StoredPart, path: "os.PathLike[str]") -> "Quantised | None":
    """The 8-bit encoder of a detector; None where it has none of its own."""
    from ..encoders.quantisation import Quantised

    fingerprint = part.header["encoder"]["fingerprint"]
    if precision_in(fingerprint) != INT8:
        return None
    graph, constants = (part.tensors[name].numpy().tobytes() for name in QUANTISED)
    found = Quantised(weights_in(fingerprint), graph, constants)
    if found.fingerprint != fingerprint:
        raise DetectorFileError("file-damaged", path=path)
    return found


def read_calibration(
    stored: "dict[str, Any] | None", path: "os.PathLike[str]"
) -> "Calibration | None":
    """How the thresholds of a detector came about."""
    from ..decisions.thresholds import Calibration

    try:
        return None if stored is None else Calibration.from_dict(stored)
    except (KeyError, TypeError, ValueError) as error:
        raise DetectorFileError("file-damaged", path=path) from error
