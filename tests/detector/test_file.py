"""Detector files: bit for bit, and every kind of bad one refused before anything is allocated."""

import json
import pickle
import random
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.detector.file import DETECTOR_FORMAT, KEY, open_file
from hyperfsad.detector.header import check_header
from hyperfsad.disk.tensors import sealed
from hyperfsad.errors import DetectorFileError, UsageError
from tests.codes import raises
from tests.conftest import make_picture
from tests.detector.mutations import save_sealed

GONE: Any = object()


@pytest.fixture(scope="module")
def original(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector with all that the default recipe writes."""
    path = tmp_path_factory.mktemp("detector") / "part.hfsad"
    detector = HyperFSAD(tiny, resolution=84, missing=0.2, rotations=1, device="cpu")
    detector.fit([make_picture(1), make_picture(2)]).save(path)
    return path


@pytest.fixture
def saved(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path))


def stored_header(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="np") as file:
        header: dict[str, Any] = json.loads(file.metadata()[KEY])
    return header


def rewritten(path: Path, **changes: object) -> None:
    """The same file with other settings in its header."""
    header = {**stored_header(path), **changes}
    save_sealed(load_file(path), path, json.dumps(header))


def test_a_saved_detector_comes_back_bit_for_bit(saved: Path, tmp_path: Path) -> None:
    detector = HyperFSAD.load(saved, device="cpu")
    again = detector.unfitted().fit([make_picture(1), make_picture(2)])
    assert all(map(np.array_equal, again.memory_.patches, detector.memory_.patches))
    assert np.array_equal(again.memory_.cls, detector.memory_.cls)
    assert again.memory_.images == detector.memory_.images
    assert again.scale_ == detector.scale_
    first, second = detector.predict(make_picture(3)), again.predict(make_picture(3))
    assert first.score == second.score
    assert (first.anomaly_map == second.anomaly_map).all()
    again.save(tmp_path / "again.hfsad")
    assert (tmp_path / "again.hfsad").read_bytes() == saved.read_bytes()


def test_every_setting_is_kept(tiny: str, tmp_path: Path) -> None:
    detector = HyperFSAD(
        tiny,
        recipe="paper-offline",
        layers=(1, 3),
        resolution=56,
        lookup="top-p",
        pooling="top-5%",
        lam=0.3,
        sharpness=4.0,
        device="cpu",
    )
    detector.fit(make_picture(1)).save(tmp_path / "a.hfsad")
    loaded = HyperFSAD.load(tmp_path / "a.hfsad", device="cpu")
    assert loaded.encoding_ == detector.encoding_
    assert loaded.encoding_ == detector.encoding_
    assert loaded.identity() == detector.identity()


@pytest.mark.parametrize("count", [1, 3])
def test_all_that_the_default_recipe_has_is_kept(tiny: str, tmp_path: Path, count: int) -> None:
    detector = HyperFSAD(tiny, resolution=84, missing=0.3, device="cpu")
    detector.fit([make_picture(seed) for seed in range(count)])
    assert detector.encoding_.last_norm
    assert detector.tentative_ == (count == 1)
    detector.save(tmp_path / "a.hfsad")
    loaded = HyperFSAD.load(tmp_path / "a.hfsad", device="cpu")
    assert loaded.encoding_ == detector.encoding_
    assert (loaded.settings.missing, loaded.tentative_) == (0.3, detector.tentative_)
    assert loaded.identity() == detector.identity()
    first, second = detector.predict(make_picture(9)), loaded.predict(make_picture(9))
    assert first.branches == second.branches
    assert (first.anomaly_map == second.anomaly_map).all()
    assert first.regions == second.regions
    loaded.save(tmp_path / "b.hfsad")
    assert (tmp_path / "b.hfsad").read_bytes() == (tmp_path / "a.hfsad").read_bytes()


def test_the_map_threshold_is_kept(detector: HyperFSAD, tmp_path: Path) -> None:
    path = tmp_path / "part.hfsad"
    detector.fit(make_picture(1))
    before = detector.identity()
    detector.map_threshold_ = 0.25
    assert detector.identity() != before  # a run with other regions is another run
    detector.save(path)
    loaded = HyperFSAD.load(path, device="cpu")
    assert loaded.map_threshold_ == 0.25
    assert loaded.predict(make_picture(3)).regions == detector.predict(make_picture(3)).regions


def test_a_cut_file_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for length in (0, 4, 100, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:length])
        with raises(DetectorFileError, "file-damaged"):
            HyperFSAD.load(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_none_are_refused(saved: Path, value: float) -> None:
    with safe_open(saved, framework="np") as file:
        header = json.loads(file.metadata()[KEY])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    name = f"patches.{header['encoder']['layers'][1]}"
    tensors[name][3, 5] = value
    header["crc32"][name] = zlib.crc32(tensors[name].data)
    save_sealed(tensors, saved, json.dumps(header))
    with raises(DetectorFileError, "file-damaged"):
        HyperFSAD.load(saved)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    with raises(DetectorFileError, "file-missing"):
        HyperFSAD.load(tmp_path / "none.hfsad")
    with raises(DetectorFileError, "file-is-folder"):
        HyperFSAD.load(tmp_path)
    (tmp_path / "text").write_text("hello")
    with raises(DetectorFileError, "file-damaged"):
        HyperFSAD.load(tmp_path / "text")
    save_file({"a": np.zeros(2)}, tmp_path / "other.safetensors")
    with raises(DetectorFileError, "file-not-ours"):
        HyperFSAD.load(tmp_path / "other.safetensors")
    (tmp_path / "pickle.pt").write_bytes(pickle.dumps({"a": np.zeros(2)}))
    with raises(DetectorFileError, "file-damaged"):
        HyperFSAD.load(tmp_path / "pickle.pt")


def test_a_header_that_claims_gigabytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    with raises(DetectorFileError, "file-damaged"):
        HyperFSAD.load(tmp_path / "big")


def test_another_format_asks_for_an_upgrade(saved: Path) -> None:
    for other in (DETECTOR_FORMAT + 1, 0):
        rewritten(saved, format=other)
        with raises(DetectorFileError, "file-other-format", format=other, known=DETECTOR_FORMAT):
            HyperFSAD.load(saved)


@pytest.mark.parametrize(
    ("where", "value", "field"),
    [
        ("normal_images", "abc", "normal_images"),
        ("normal_images", [], "normal_images"),
        ("threshold", "x", "threshold"),
        ("threshold", True, "threshold"),
        ("threshold", float("nan"), None),
        ("map_threshold", "high", "map_threshold"),
        ("encoder", {}, "name"),
        ("encoder.std", [1, 1], "std"),
        ("encoder.std", [1, 0, 1], "std"),
        ("encoder.resolution", 1e308, "resolution"),
        ("encoder.resolution", 98, None),
        ("encoder.patch", 0, "patch"),
        ("encoder.layers", [3, 1], "layers"),
        ("encoder.mean", GONE, "mean"),
        ("calibration.images", float("inf"), None),
        ("calibration.images", 1.5, "images"),
        ("calibration.rate", 0, "rate"),
        ("calibration.scores", [2, 1], "scores"),
        ("calibration.scores", None, "scores"),
        ("calibration.method", "magic", "method"),
        ("calibration.threshold", 0, "threshold"),
        ("normal_images.0.entries", 1000, None),
        ("normal_images.0.size", [0, 3], "size"),
        ("normal_images.0.sha256", "abc", "sha256"),
        ("rotations", 10**24, "rotations"),
        ("rotations", 0, "rotations"),
        ("rotations", 10**400, None),
        ("tentative", 1, "tentative"),
        ("tiles", {"side": 1, "sizes": [[10**6, 10**6]] * 2}, None),
        ("tiles", {"side": 6, "sizes": [[10**6, 10**6]] * 2}, None),
        ("crc32", [], "crc32"),
        ("crc32", {}, None),
        ("settings", 3, "settings"),
        ("settings.lookup", "magic", "lookup"),
        ("settings.pooling", 3, "pooling"),
        ("settings.lam", "x", "lam"),
        ("settings.missing", -1, "missing"),
        ("settings.rotations", 1000, "rotations"),
        ("settings.layers", GONE, "settings"),
        ("settings.backbone", None, "settings"),
        ("settings.device", "cpu", "settings"),
        ("products", 3, "products"),
        ("products", [], "products"),
    ],
)
def test_what_does_not_fit_is_named(
    saved: Path, where: str, value: Any, field: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    header: Any = stored_header(saved)
    *path, last = [int(key) if key.isdigit() else key for key in where.split(".")]
    holder = header
    for key in path:
        holder = holder[key]
    if value is GONE:
        del holder[last]
    else:
        holder[last] = value
    save_sealed(load_file(saved), saved, json.dumps(header))
    code = "file-damaged" if field is None else "file-field-invalid"
    with raises(DetectorFileError, code, **({} if field is None else {"field": field})) as caught:
        HyperFSAD.load(saved)
    assert "\n" not in str(caught.value)
    assert str(saved) in str(caught.value)
    assert main(["info", str(saved)]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_format_that_is_no_number_is_not_ours(saved: Path) -> None:
    rewritten(saved, format=True)
    with raises(DetectorFileError, "file-not-ours"):
        open_file(saved)


def test_every_flipped_byte_of_the_header_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    rng = random.Random(0)
    for place in range(length):
        flipped = bytearray(content)
        flipped[place] ^= 1 << rng.randrange(8)
        saved.write_bytes(flipped)
        with pytest.raises(DetectorFileError):
            open_file(saved)


def test_any_flipped_bit_elsewhere_is_refused_too(saved: Path) -> None:
    content = saved.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    rng = random.Random(0)
    for _ in range(100):
        flipped = bytearray(content)
        flipped[rng.randrange(length, len(content))] ^= 1 << rng.randrange(8)
        saved.write_bytes(flipped)
        with raises(DetectorFileError, "file-damaged"):
            open_file(saved).parts()


def test_a_stranger_s_many_images_cost_nothing(saved: Path) -> None:
    header = stored_header(saved)
    rewritten(saved, normal_images=header["normal_images"] * 150_000)
    with raises(DetectorFileError, "file-damaged"):
        HyperFSAD.load(saved)
    rewritten(saved, normal_images=header["normal_images"] * 5_000)
    with raises(DetectorFileError, "file-damaged"):
        HyperFSAD.load(saved)


def test_endless_nesting_is_refused(saved: Path) -> None:
    text = json.dumps(stored_header(saved))[:-1] + ', "more": ' + "[" * 100_000 + "]" * 100_000
    save_sealed(load_file(saved), saved, text + "}")
    with raises(DetectorFileError, "file-damaged"):
        HyperFSAD.load(saved)


def test_a_seal_is_needed_and_has_to_be_right(saved: Path) -> None:
    content, header = saved.read_bytes(), json.dumps(stored_header(saved))
    save_file(load_file(saved), saved, metadata={KEY: header})
    with raises(DetectorFileError, "file-damaged"):
        open_file(saved)
    changed = content.replace(b'\\"sharpness\\": 64.0', b'\\"sharpness\\": 01.0', 1)
    changed = changed.replace(b"01.0", b"16.0", 1)
    assert changed != content
    saved.write_bytes(changed)
    with raises(DetectorFileError, "file-damaged"):
        HyperFSAD.load(saved)
    length = 8 + int.from_bytes(changed[:8], "little")
    saved.write_bytes(sealed(changed[:length]) + changed[length:])
    assert HyperFSAD.load(saved).settings.sharpness == 16


def test_what_could_not_be_read_again_is_not_written(saved: Path) -> None:
    before = saved.read_bytes()
    detector = HyperFSAD.load(saved, device="cpu")
    detector.threshold_ = float("nan")
    with raises(UsageError, "file-not-written"):
        detector.save(saved)
    detector.threshold_ = "high"  # type: ignore[assignment]
    with raises(UsageError, "file-not-written"):
        detector.save(saved)
    assert saved.read_bytes() == before


def test_fields_that_are_not_known_are_ignored(saved: Path) -> None:
    header = stored_header(saved)
    check_header({**header, "later": {"anything": [1, None]}})
    rewritten(saved, later=3, encoder={**header["encoder"], "later": 3})
    assert HyperFSAD.load(saved, device="cpu").predict(make_picture(3)).error is None


def test_other_weights_under_the_same_name_are_noticed(saved: Path) -> None:
    rewritten(saved, encoder={**stored_header(saved)["encoder"], "fingerprint": "0" * 64})
    loaded = HyperFSAD.load(saved, device="cpu")
    with raises(DetectorFileError, "encoder-weights"):
        loaded.predict(make_picture(3))


def test_an_encoder_that_is_not_there_is_asked_for(saved: Path) -> None:
    rewritten(saved, encoder={**stored_header(saved)["encoder"], "name": "/nowhere/encoder"})
    with raises(UsageError, "encoder-folder-missing", folder="/nowhere/encoder"):
        HyperFSAD.load(saved)


def test_an_encoder_that_moved_can_be_named(saved: Path, tiny: str, tmp_path: Path) -> None:
    expected = HyperFSAD.load(saved, device="cpu").predict(make_picture(3)).score
    moved = tmp_path / "moved"
    moved.symlink_to(tiny)
    loaded = HyperFSAD.load(saved, backbone=str(moved), device="cpu")
    assert loaded.predict(make_picture(3)).score == expected


@pytest.mark.parametrize("path", [3, None, b"part.hfsad", "", "a\0b"])
def test_what_is_not_a_path_is_refused(detector: HyperFSAD, path: Any) -> None:
    with raises(UsageError, "file-not-a-path"):
        HyperFSAD.load(path)
    with raises(UsageError, "file-not-a-path"):
        detector.fit(make_picture(1)).save(path)
