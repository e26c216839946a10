"""Local folders with weights: Hugging Face's format, or timm's for DINOv3.

Whatever a file calls its tensors, here they have one set of names; each is read when it is asked
for.
"""

import contextlib
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..disk.tensors import read_head
from ..errors import EncoderError, UsageError, first_line
from .checkpoints import Shapes, timm_dinov3
from .families import LAYOUTS, Rename, Tower
from .specs import FAMILIES, EncoderSpec, make_spec

CONFIG_FILES = ("config.json", "preprocessor_config.json", "*.safetensors.index.json")
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
)
"""Of models that read text; others have none."""
HUB_FILES = [*CONFIG_FILES, *TOKENIZER_FILES, "model*.safetensors"]
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

_NUMBER_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True)
class StoredArray:
    """An array in a file; `read` gives it in float32, whatever the file holds."""

    file: Path
    kind: str
    shape: tuple[int, ...]
    start: int

    def read(self, rows: int | None = None) -> NDArray[np.float32]:
        """The array, or its first rows."""
        if self.kind not in _NUMBER_TYPES:
            raise ValueError(f"numbers of the type {self.kind} are not known")
        shape = self.shape if rows is None else (min(rows, self.shape[0]), *self.shape[1:])
        kind, count = np.dtype(_NUMBER_TYPES[self.kind]), math.prod(shape)
        with self.file.open("rb") as file:
            if self.start + count * kind.itemsize > os.fstat(file.fileno()).st_size:
                raise ValueError(f"an array of {shape} ends after the file")
            file.seek(self.start)
            found = np.fromfile(file, kind, count)
        if self.kind == "BF16":  # the upper half of a float32
            found = (found.astype("<u4") << 16).view("<f4")
        return found.astype(np.float32, copy=False).reshape(shape)

    def part(self, place: int, count: int) -> "StoredArray":
        """One of several arrays that lie in this one, row after row."""
        rows, rest = divmod(self.shape[0], count) if self.shape else (0, 1)
        if rest:
            raise ValueError(f"{self.shape} is not divided by {count}")
        shape = (rows, *self.shape[1:])
        width = np.dtype(_NUMBER_TYPES.get(self.kind, "u1")).itemsize
        return replace(self, shape=shape, start=self.start + place * math.prod(shape) * width)


@dataclass(frozen=True)
class NoArray:
    """What a file leaves out because it is zero."""

    shape: tuple[int, ...]

    def read(self, rows: int | None = None) -> NDArray[np.float32]:
        """Zeros."""
        return np.zeros(self.shape, np.float32)


Arrays: TypeAlias = Mapping[str, StoredArray | NoArray]


@dataclass(frozen=True)
class TowerWeights:
    """A tower and its tensors."""

    tower: Tower
    arrays: Arrays

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        return self.arrays[name].read()

    def fingerprint(self, depth: int) -> str:
        """A hash of every vector and of the first row of every matrix, of the first blocks."""
        digest = hashlib.sha256()
        for name in self.tower.tensors(depth):
            array = self.arrays[name]
            digest.update(name.encode())
            digest.update(array.read(rows=1 if len(array.shape) > 1 else None).tobytes())
        return digest.hexdigest()

    def checksum(self, depth: int) -> str:
        """A hash of all numbers that the tokens of the first blocks depend on."""
        digest = hashlib.sha256()
        for name in self.tower.tensors(depth):
            digest.update(name.encode())
            digest.update(self[name].tobytes())
        return digest.hexdigest()


def read_spec(folder: str) -> EncoderSpec:
    """What a folder says of its model; layers at the quarter depths, the rest as it is there."""
    path = Path(folder)
    config = read_config(path)
    model_type = config.get("model_type")
    if model_type not in FAMILIES:
        raise UsageError("model-type", folder=folder, given=model_type, known=list(FAMILIES))
    processor = path / "preprocessor_config.json"
    norm = _read_json(processor) if processor.is_file() else {}
    with explained_weights(path / "config.json"):
        return make_spec(
            folder,
            model_type,
            _int(config.get("patch_size", 16)),
            depth=_int(config.get("num_hidden_layers", 12)),
            resolution=_int(config.get("image_size", 224)),
            mean=tuple(norm.get("image_mean", FAMILIES[model_type].mean)),
            std=tuple(norm.get("image_std", FAMILIES[model_type].std)),
        )


def read_config(folder: Path) -> dict[str, Any]:
    """The config of a folder's vision tower, in the terms of `transformers`."""
    whole = _read_json(folder / "config.json")
    if is_timm_dinov3(folder):
        return _timm(folder)[0]
    tower = whole.get("vision_config", {})  # of a file that holds both towers
    return {**whole, **tower, "model_type": whole.get("model_type")}


def read_tower(folder: Path, family: str, depth: int) -> TowerWeights:
    """The tower of a folder and where its tensors lie; all that its first `depth` blocks and the
    final norm need is there, and nothing of it is read yet."""
    config = read_config(folder)
    with explained_weights(folder):
        tower = Tower.of(family, config)
        found = TowerWeights(tower, _arrays(folder, family))
        missing = [name for name in tower.tensors(depth) if name not in found.arrays]
    if missing:
        raise EncoderError(
            "weights-incomplete", folder=folder, tensor=missing[0], count=len(missing)
        )
    return found


def weights_checksum(folder: Path, family: str, depth: int) -> str:
    """The sha256 over all tensors that tokens depend on, float32, ordered by canonical names."""
    found = read_tower(folder, family, depth)
    with explained_weights(folder):
        return found.checksum(depth)


def _arrays(folder: Path, family: str) -> Arrays:
    """The tensors of a folder under our names."""
    stored = stored_arrays(folder)
    if is_timm_dinov3(folder):
        _, names, missing = _timm(folder)
        zeros = {name: NoArray(shape) for name, shape in missing.items()}
        return {**zeros, **named_arrays(stored, names)}
    renames = LAYOUTS[family].renames
    return named_arrays(stored, {name: our_names(name, renames) for name in stored})


def _timm(folder: Path) -> tuple[dict[str, Any], dict[str, list[str]], Shapes]:
    with explained_weights(folder):
        stored = stored_arrays(folder)
        return timm_dinov3({name: array.shape for name, array in stored.items()})


def stored_arrays(folder: Path) -> dict[str, StoredArray]:
    """All arrays of a folder by the names in its files; damage is a ValueError."""
    return {
        name: StoredArray(file, tensor.kind, tensor.shape, tensor.start)
        for file in _files(folder)
        for name, tensor in read_head(file).tensors.items()
    }


def _files(folder: Path) -> list[Path]:
    """The files that hold the model: those of the index, the usual one, or the only one."""
    index = folder / INDEX
    if index.is_file():
        named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if not all(isinstance(name, str) and Path(name).name == name for name in named):
            raise ValueError(f"{INDEX} names a file elsewhere")
        return [folder / name for name in sorted(named)]
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    found = sorted(folder.glob("*.safetensors"))
    if len(found) != 1:
        raise EncoderError("weights-files", folder=folder, count=len(found))
    return found


def named_arrays(
    stored: Mapping[str, StoredArray], names: Mapping[str, list[str]]
) -> dict[str, StoredArray | NoArray]:
    """The arrays under our names; of one that holds several, each by itself."""
    found: dict[str, StoredArray | NoArray] = {}
    for name, array in stored.items():
        parts = names[name]
        for place, part in enumerate(parts):
            found[part] = array if len(parts) == 1 else array.part(place, len(parts))
    return found


def our_names(name: str, renames: Iterable[Rename]) -> list[str]:
    """What a tensor is called here; several names where it holds several, row after row."""
    names = [name]
    for rule in renames:
        if re.fullmatch(rule.pattern, names[0]):
            found = re.sub(rule.pattern, rule.name, names[0])
            names = [found.replace("{}", part) for part in rule.parts] or [found]
    return names


@contextlib.contextmanager
def explained_weights(path: Path) -> Iterator[None]:
    """Turns what is raised on damaged files into an EncoderError."""
    try:
        yield
    except (OSError, ValueError, TypeError, LookupError, RuntimeError) as error:
        raise EncoderError("weights-unreadable", path=path, reason=first_line(error)) from error


def write_folder(
    folder: Path, config: dict[str, Any], state: Mapping[str, NDArray[np.float32]]
) -> None:
    """Config and weights in Hugging Face's format."""
    from safetensors.numpy import save_file

    whole = {name: np.ascontiguousarray(array, np.float32) for name, array in state.items()}
    save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def is_timm_dinov3(folder: Path) -> bool:
    """Whether a folder holds timm's copy of a DINOv3 model."""
    config = _read_json(folder / "config.json")
    return "model_type" not in config and "dinov3" in str(config.get("architecture", ""))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EncoderError("encoder-folder", folder=path.parent, name=path.name) from None
    except (OSError, ValueError) as error:
        raise EncoderError("weights-unreadable", path=path, reason=first_line(error)) from error
    if not isinstance(content, dict):
        raise EncoderError("config-type", path=path)
    return content


def _int(value: "int | list[int]") -> int:
    return int(value if isinstance(value, int) else value[0])
