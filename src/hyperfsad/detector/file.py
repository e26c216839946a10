"""The detector file: one safetensors file, its settings as JSON in the header. No code, no pickle.

Tensors: `patches.<layer>` (K·N, D), float16 where that keeps every number of them, otherwise
float32, and `cls` (K, layers, D), float32. An image that is remembered
in several orientations counts as often in K and stands once in the header. A detector with a region
of interest also has `roi`, one with a compact memory `core` (the rows that it is compared with),
one with unlabelled parts their tokens, patches in float16 (`unlabelled.…`, as those of the bank),
one that names defects the signatures of their examples (`defects.…`); one that cuts images into
tiles has theirs (see `views.tile_files`). The header keeps one JSON string under one key, since
safetensors does not keep the order of several. A file of several products has the tensors of each
under `products.<number>.`, and their headers.

Every byte has a checksum: tensors theirs in the header, and the header its seal (`disk.tensors`).
Beyond that nothing is believed: the header is checked by `header`, shapes before tensors are read,
and tokens for their length, which is 1."""

import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import single, to_numpy
from ..disk.files import atomic_path, locked_file, open_regular
from ..disk.tensors import (
    SEAL,
    Head,
    StoredTensor,
    StreamedTensor,
    are_unit,
    read_head,
    read_json,
    write_tensors,
)
from ..encoders import PRECISIONS, REGISTRY, EncoderSettings
from ..encoders.runtime import CompileOptions, named_engine, precision_in
from ..errors import DetectorFileError, UsageError, brief, first_line
from ..images.loading import NormalImage
from ..threads import cores
from .header import HeaderError, check_header
from .settings import Settings, check_names

if TYPE_CHECKING:
    from ..decisions.defects import TaughtDefects
    from ..decisions.roi import RegionOfInterest
    from ..method.coreset import Coreset
    from ..method.memory import MemoryBank

DETECTOR_FORMAT = 1
KEY = "hyperfsad"
"""Of the header in the file's metadata."""
UNLABELLED = "unlabelled."
"""Before the names of the tensors of unlabelled parts."""
SIGNATURES = "defects.tokens", "defects.weights"
"""The tensors of the examples of defects, one after the other."""
TOKEN_TOLERANCE = 0.01
"""How far the length of a token may be from 1."""


@dataclass(frozen=True)
class StoredPart:
    """One detector of a file: what its header says, and its tensors."""

    header: dict[str, Any]
    bank: "MemoryBank"
    tensors: Mapping[str, NDArray[Any]]
    """Beside the memory bank, by name."""
    streams: Mapping[str, StreamedTensor] = field(default_factory=dict)
    """Tensors that do not fit into memory; they are written only."""
    unlabelled: "MemoryBank | None" = None
    """Unlabelled parts of the line."""

    @property
    def fingerprint(self) -> str:
        """Of the encoder."""
        found: str = self.header["encoder"]["fingerprint"]
        return found

    @property
    def core(self) -> "Coreset | None":
        """What a compact memory compares with."""
        from ..method.coreset import Coreset

        compact = self.header["compact"]
        return compact and Coreset(self.tensors["core"] > 0, compact["radius"])

    @property
    def region(self) -> "RegionOfInterest | None":
        """The region of interest, where it is a mask; what is not a mask is a ValueError."""
        from ..decisions.roi import Roi

        roi = self.header["roi"]
        return Roi.stored(self.tensors["roi"], roi["aspect"]) if isinstance(roi, dict) else None

    @property
    def defects(self) -> "TaughtDefects":
        """The defects that it can name."""
        from ..decisions.defects import DefectExample, TaughtDefects
        from ..method.signature import Signature

        found: list[DefectExample] = []
        tokens, weights = (self.tensors.get(name) for name in SIGNATURES)
        if tokens is not None and weights is not None:
            end = 0
            for one in self.header["defects"]:
                start, end = end, end + one["patches"]
                own = tokens[start:end].astype(np.float32)
                signature = Signature(own, weights[start:end])
                found.append(DefectExample(one["defect"], one["image"], one["sha256"], signature))
        return TaughtDefects(tuple(found))

    def settings(
        self, path: Path, *, backbone: str | None = None, **machine: Any
    ) -> tuple[Settings, EncoderSettings]:
        """The choices of the detector, on this machine, and how its tokens were computed."""
        from PIL import Image

        check_names(machine)
        encoding = _encoding(self.header)
        if backbone is not None:
            if encoding.name in REGISTRY and backbone != encoding.name:
                raise UsageError("encoder-fixed", path=path, encoder=encoding.name)
            encoding = replace(encoding, name=backbone)
        if encoding.name not in REGISTRY and not os.path.isdir(encoding.name):
            raise UsageError("encoder-folder-missing", path=path, folder=encoding.name)
        if (made_in := precision_in(self.fingerprint)) not in PRECISIONS[1:]:
            raise UsageError("precision-unknown", path=path, precision=made_in)
        machine["precision"] = machine.get("precision") or "auto"  # whatever the recipe's is
        chosen = {**self.header["settings"], "backbone": encoding.name, **machine}
        if "roi" in self.tensors:
            chosen["roi"] = Image.fromarray(self.tensors["roi"] * 255)
        settings = Settings(**chosen)
        tiles, memory = self.header["tiles"], "compact" if self.header["compact"] else "exact"
        learnt = {"tiles": tiles and tiles["side"], "rotations": self.header["rotations"]}
        settings.check(**learnt, memory=memory)
        if settings.encoding.patch != encoding.patch:
            raise DetectorFileError("file-damaged", path=path)
        return settings, encoding


@dataclass(frozen=True)
class DetectorFile:
    """A detector file whose header was read and checked; its tensors are not read yet."""

    path: Path
    header: dict[str, Any]
    head: Head
    stamp: tuple[int, ...] | None

    @property
    def several(self) -> bool:
        """Whether it holds a detector of several products."""
        return "products" in self.header

    @property
    def first(self) -> dict[str, Any]:
        """The header of the detector, or of its first product."""
        return self.headers[0]

    @property
    def headers(self) -> list[dict[str, Any]]:
        """Of the products, or of the one detector."""
        return list(self.header["products"]) if self.several else [self.header]

    @property
    def tensors(self) -> list[dict[str, StoredTensor]]:
        """Those of each product, by name."""
        prefixes = _prefixes(self.several, len(self.headers))
        stored = self.head.tensors.items()
        return [
            {name.removeprefix(own): one for name, one in stored if name.startswith(own)}
            for own in prefixes
        ]

    def parts(self) -> list[StoredPart]:
        """The detectors of the file in the order of `headers`, every part of them checked.

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

    def begin_encoder(
        self, *, device: str, engine: str, precision: str, threads: int | None
    ) -> None:
        """Begins to load the encoder while everything else is still being imported, where it can.

        Nothing of the file is believed but the name of an encoder of ours: at worst a model of our
        own cache folder is compiled for nothing.
        """
        settings = _encoding(self.first)
        if (
            device in ("auto", "cpu")
            and named_engine(engine) in ("auto", "openvino")
            and (threads is None or 1 <= threads <= cores())
            and settings.name in REGISTRY
        ):
            from ..encoders.openvino import start_compiling

            own = precision_in(self.first["encoder"]["fingerprint"])
            chosen = own if precision == "auto" else precision
            start_compiling(settings, CompileOptions(threads or cores(), precision=chosen))


def open_file(path: "str | os.PathLike[str] | DetectorFile") -> DetectorFile:
    """Reads the header of a detector file and checks every field of it; no tensor is read."""
    if isinstance(path, DetectorFile):
        return path
    path = file_path(path)
    stamp = _stamp(path)
    if stamp is None:
        raise DetectorFileError("file-missing", path=path)
    if path.is_dir():
        raise DetectorFileError("file-is-folder", path=path)
    try:
        with open_regular(path):
            pass  # of a pipe or a folder nothing is read
    except OSError as error:
        raise DetectorFileError("file-unreadable", path=path, cause=error.strerror) from error
    try:
        head = read_head(path)
        text = head.metadata.get(KEY)
        header = read_json(text) if isinstance(text, str) else None
        if header is not None and SEAL not in head.metadata:
            raise ValueError("its header has no seal")
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


def write_file(
    path: Path,
    parts: Sequence[StoredPart],
    release: Callable[[], None] = lambda: None,
    *,
    several: bool = False,
) -> None:
    """Writes the file at once or not at all; the same detectors always give the same bytes.

    `release` lets the file at the path be replaced; `several` says that each part is a product.
    """
    tensors: dict[str, StreamedTensor] = {}
    headers = []
    for prefix, part in zip(_prefixes(several, len(parts)), parts, strict=True):
        layers = part.header["encoder"]["layers"]
        own = {**part.tensors, **_tokens(part.bank, layers)}
        if part.unlabelled is not None:
            own |= _tokens(part.unlabelled, layers, UNLABELLED)
        streams = {name: StreamedTensor.of(tensor) for name, tensor in own.items()}
        tensors |= {f"{prefix}{name}": each for name, each in {**streams, **part.streams}.items()}
        crc32 = {name: _crc32(tensor) for name, tensor in own.items()}
        images = {"normal_images": _described(part.bank)}
        images["unlabelled_images"] = _described(part.unlabelled)
        headers.append({**part.header, **images, "crc32": crc32})
    header: dict[str, Any] = {"products": headers} if several else headers[0]
    try:
        text = json.dumps({"format": DETECTOR_FORMAT, **header}, allow_nan=False)
        check_header(json.loads(text))
    except ValueError as error:  # set by hand: nobody could read it again
        raise UsageError("file-not-written", path=path, cause=first_line(error)) from error
    with locked_file(path), atomic_path(path) as temporary:
        write_tensors(temporary, tensors, {KEY: text})
        release()


def _described(bank: "MemoryBank | None") -> list[dict[str, Any]]:
    """The images of a bank as the header names them."""
    if bank is None:
        return []
    return [{**asdict(bank.images[own[0]]), "entries": len(own)} for own in bank.entries]


def _prefixes(several: bool, count: int) -> list[str]:
    """Of the tensors of each detector; by number, since a product's name may be any text."""
    return [f"products.{number}." for number in range(count)] if several else [""]


def _encoding(header: Mapping[str, Any]) -> EncoderSettings:
    """How the tokens of a detector were computed."""
    stored: dict[str, Any] = {}
    for each in fields(EncoderSettings):
        value = header["encoder"][each.name]
        stored[each.name] = tuple(value) if isinstance(value, list) else value
    return EncoderSettings(**stored)


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read_parts(opened: DetectorFile) -> list[StoredPart]:
    prefixes = _prefixes(opened.several, len(opened.headers))
    try:
        with opened.path.open("rb") as file:
            found = [
                _read_part(file, opened, own, prefix)
                for prefix, own in zip(prefixes, opened.headers, strict=True)
            ]
        if opened.several:
            _check_together(found)
    except (OSError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise DetectorFileError("file-damaged", path=opened.path) from error
    return found


def _check_together(parts: list[StoredPart]) -> None:
    """Refuses products in one file that were not fitted together."""
    headers = [part.header for part in parts]
    widths = {part.bank.cls.shape[2] for part in parts}
    alike = len(widths) == 1 and all(own["tiles"] is None for own in headers)
    alike &= all(own["encoder"] == headers[0]["encoder"] for own in headers)
    alike &= len({own["name"] for own in headers}) == len(parts)
    if not alike:
        raise ValueError("detectors differ")


def _read_part(
    file: IO[bytes], opened: DetectorFile, header: dict[str, Any], prefix: str
) -> StoredPart:
    bank = _read_bank(file, opened.head, header, "normal_images", prefix)
    unlabelled = None
    if header["unlabelled_images"]:
        line = _read_bank(file, opened.head, header, "unlabelled_images", prefix, UNLABELLED)
        unlabelled = line.half()
        if unlabelled.cls.shape[1:] != bank.cls.shape[1:]:
            raise ValueError("unlabelled")
    names = ["roi"] if isinstance(header["roi"], dict) else []
    names += ["core"] if header["compact"] else []
    if header["defects"]:
        _check_signatures(opened.head, header, prefix, bank.cls.shape[-1])
        names += SIGNATURES
    tensors = {name: opened.head.tensors[f"{prefix}{name}"].read(file) for name in names}
    for name, tensor in tensors.items():
        if _crc32(tensor) != header["crc32"][name]:
            raise ValueError(name)
    if (core := tensors.get("core")) is not None:
        fits = core.itemsize == 1 and core.shape == bank.patches[0].shape[:1]
        if not fits or int(core.max()) != 1 or int(core.sum()) != header["compact"]["kept"]:
            raise ValueError("core")
    if header["defects"]:
        signatures, weights = (tensors[name] for name in SIGNATURES)
        fits = np.isfinite(weights).all() and weights.min() >= 0 and weights.max() <= 1
        if not fits or not are_unit(signatures, TOKEN_TOLERANCE):
            raise ValueError("defects")
    if header["tiles"] is not None:
        from ..views import stored_tiles

        bank = replace(bank, extras=stored_tiles(opened.path, file, bank, header))
    part = StoredPart(header, bank, tensors, unlabelled=unlabelled)
    part.region  # noqa: B018 (which is checked)
    return part


def _check_signatures(head: Head, header: dict[str, Any], prefix: str, width: int) -> None:
    """Refuses signatures of another shape than the header says, before they are read."""
    from ..method.signature import signature_layers

    rows = sum(one["patches"] for one in header["defects"])
    parts = len(signature_layers(len(header["encoder"]["layers"]))) + 1
    shapes = {"F16": (rows, parts * width), "F32": (rows,)}
    for name, (kind, shape) in zip(SIGNATURES, shapes.items(), strict=True):
        place = head.tensors[f"{prefix}{name}"]
        if place != StoredTensor(kind, shape, place.start):
            raise ValueError(name)


def _read_bank(
    file: IO[bytes],
    head: Head,
    header: dict[str, Any],
    field: str,
    prefix: str,
    kind: str = "",
) -> "MemoryBank":
    """The bank of these images, in float32."""
    from ..method.memory import MemoryBank

    layers = header["encoder"]["layers"]
    grid = header["encoder"]["resolution"] // header["encoder"]["patch"]
    entries = sum(image["entries"] for image in header[field])
    width = head.tensors[f"{prefix}{kind}cls"].shape[-1:]
    expected = {f"{kind}patches.{layer}": (entries * grid**2, *width) for layer in layers}
    expected[f"{kind}cls"] = (entries, len(layers), *width)
    places = {name: head.tensors[f"{prefix}{name}"] for name in expected}
    for name, place in places.items():
        half = place.kind == "F16" and not name.endswith("cls")
        fits = StoredTensor("F16" if half else "F32", expected[name], place.start)
        if place != fits or 0 in place.shape:
            raise ValueError(name)
    images: list[NormalImage] = []
    for image in header[field]:
        size = None if image["size"] is None else tuple(image["size"])
        images += [NormalImage(image["name"], image["sha256"], size)] * image["entries"]
    tokens: list[NDArray[Any]] = []
    for name, place in places.items():
        tensor = place.read(file)
        if _crc32(tensor) != header["crc32"][name] or not are_unit(tensor, TOKEN_TOLERANCE):
            raise ValueError(name)
        tokens.append(single(tensor))
    *patches, cls = tokens
    return MemoryBank(tuple(patches), cls, tuple(images))


def _tokens(bank: "MemoryBank", layers: list[int], prefix: str = "") -> dict[str, NDArray[Any]]:
    """The tensors of a bank, as small as they can be without another number."""
    named = {"cls": bank.cls}
    for layer, patches in zip(layers, bank.patches, strict=True):
        rows = to_numpy(patches)
        half = rows.astype(np.float16)
        named[f"patches.{layer}"] = half if np.array_equal(half, rows) else rows
    return {f"{prefix}{name}": np.ascontiguousarray(to_numpy(rows)) for name, rows in named.items()}


def _crc32(tensor: NDArray[Any]) -> int:
    return zlib.crc32(tensor.data)


def described_defects(defects: "TaughtDefects") -> dict[str, Any]:
    """What the header says of the examples of defects."""
    return {
        "defects": [
            {
                "defect": one.defect,
                "image": one.image,
                "sha256": one.sha256,
                "patches": len(one.signature.weights),
            }
            for one in defects.examples
        ]
    }


def defect_tensors(defects: "TaughtDefects") -> dict[str, NDArray[Any]]:
    """What a detector file keeps of the examples of defects."""
    if not defects.examples:
        return {}
    signatures = [one.signature for one in defects.examples]
    tokens = np.concatenate([one.tokens for one in signatures]).astype(np.float16)
    weights = np.concatenate([one.weights for one in signatures])
    return dict(zip(SIGNATURES, (tokens, weights), strict=True))
