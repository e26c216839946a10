"""Arrays of safetensors files: any type of numbers, one file or several, and nothing believed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hyperfsad.encoders import find_spec
from hyperfsad.encoders.encoder import load_encoder
from hyperfsad.encoders.folders import INDEX, stored_arrays
from hyperfsad.errors import EncoderError
from hyperfsad.images.loading import load_image
from tests.codes import raises
from tests.conftest import make_picture
from tests.encoders.models import saved_model


def tokens(folder: Path) -> Any:
    encoder = load_encoder(find_spec(str(folder)).settings(), "cpu", engine="openvino")
    return encoder.encode([load_image(make_picture(1))]).patches


def raw_file(path: Path, kind: str, shape: list[int], content: bytes) -> None:
    """A file with one tensor, as other programs write it."""
    entry = {"dtype": kind, "shape": shape, "data_offsets": [0, len(content)]}
    head = json.dumps({"one": entry}).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(len(head).to_bytes(8, "little") + head + content)


@pytest.mark.parametrize(("kind", "type"), [("F64", "<f8"), ("F32", "<f4"), ("F16", "<f2")])
def test_numbers_become_float32(tmp_path: Path, kind: str, type: str) -> None:
    values = np.array([[1.5, -2.25], [0.0, 100.0]])
    raw_file(tmp_path / "model.safetensors", kind, [2, 2], values.astype(type).tobytes())
    (array,) = stored_arrays(tmp_path).values()
    assert array.read().dtype == np.float32
    assert np.array_equal(array.read(), values)
    assert np.array_equal(array.read(rows=1), values[:1])
    assert np.array_equal(array.part(1, 2).read(), values[1:])


def test_bfloat16_is_the_upper_half_of_float32(tmp_path: Path) -> None:
    values = np.array([1.5, -2.25, 0.0, 2.0**100, -(2.0**-100)], np.float32)
    upper = (values.view(np.uint32) >> 16).astype("<u2")
    raw_file(tmp_path / "model.safetensors", "BF16", [5], upper.tobytes())
    (array,) = stored_arrays(tmp_path).values()
    assert np.array_equal(array.read(), values)


def test_other_numbers_are_refused_when_they_are_read(tmp_path: Path) -> None:
    raw_file(tmp_path / "model.safetensors", "I64", [1], bytes(8))
    (array,) = stored_arrays(tmp_path).values()
    with pytest.raises(ValueError, match="I64"):
        array.read()


def split(folder: Path, names: tuple[str, str] = ("a.safetensors", "b.safetensors")) -> None:
    """Cuts the file of a folder in two, with an index."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    index: dict[str, str] = {}
    for place, file in enumerate(names):
        part = {name: weights[name] for name in sorted(weights)[place::2]}
        save_file(part, folder / Path(file).name)
        index |= dict.fromkeys(part, file)
    (folder / INDEX).write_text(json.dumps({"weight_map": index}))


def test_a_model_in_several_files_is_one(tmp_path: Path) -> None:
    saved_model("clip_vision_model", tmp_path, depth=2)
    expected = tokens(tmp_path)
    split(tmp_path)
    assert np.array_equal(tokens(tmp_path), expected)
    (tmp_path / "b.safetensors").unlink()
    with raises(EncoderError, "weights-unreadable"):
        tokens(tmp_path)


def test_an_index_reads_no_file_elsewhere(tmp_path: Path) -> None:
    saved_model("clip_vision_model", tmp_path / "model", depth=2)
    split(tmp_path / "model", ("a.safetensors", "../model/b.safetensors"))
    with raises(EncoderError, "weights-unreadable"):
        tokens(tmp_path / "model")


def test_without_an_index_there_is_one_file(tmp_path: Path) -> None:
    saved_model("clip_vision_model", tmp_path, depth=2)
    (tmp_path / "model.safetensors").rename(tmp_path / "other.safetensors")
    tokens(tmp_path)
    save_file({"more": np.zeros(1, np.float32)}, tmp_path / "more.safetensors")
    with raises(EncoderError, "weights-files", count=2):
        tokens(tmp_path)


@pytest.mark.parametrize("kind", ["BF16", "F64"])
def test_an_array_larger_than_its_file_takes_no_memory(tmp_path: Path, kind: str) -> None:
    raw_file(tmp_path / "model.safetensors", kind, [1 << 40], bytes(8))
    (array,) = stored_arrays(tmp_path).values()
    with pytest.raises(ValueError, match="ends after the file"):
        array.read()


@pytest.mark.parametrize("left", [0, 7, 100, -4000])
def test_a_file_that_was_cut_is_one_error(tmp_path: Path, left: int) -> None:
    saved_model("dinov2", tmp_path, depth=2)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:left])
    with raises(EncoderError, "weights-unreadable"):
        tokens(tmp_path)
