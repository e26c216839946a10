"""Detector files: bit for bit, and every kind of bad one refused in a sentence."""

import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from hyperfsad import HyperFSAD
from hyperfsad.detector.keys import KEY
from hyperfsad.detector.storage import FORMAT
from hyperfsad.errors import DetectorFileError, UsageError
from tests.conftest import make_picture


@pytest.fixture
def saved(detector: HyperFSAD, tmp_path: Path) -> Path:
    path = tmp_path / "part.hfsad"
    detector.fit([make_picture(1), make_picture(2)]).save(path)
    return path


def stored_header(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        header: dict[str, Any] = json.loads(file.metadata()[KEY])
    return header


def rewritten(path: Path, **changes: object) -> None:
    """The same file with other settings in its header."""
    header = {**stored_header(path), **changes}
    save_file(load_file(path), path, metadata={KEY: json.dumps(header)})


def test_a_saved_detector_comes_back_bit_for_bit(
    detector: HyperFSAD, saved: Path, tmp_path: Path
) -> None:
    detector.fit([make_picture(1), make_picture(2)])
    loaded = HyperFSAD.load(saved, device="cpu")
    assert all(map(torch.equal, loaded.memory_.patches, detector.memory_.patches))
    assert torch.equal(loaded.memory_.cls, detector.memory_.cls)
    assert loaded.memory_.images == detector.memory_.images
    assert loaded.scale_ == detector.scale_
    first, second = detector.predict(make_picture(3)), loaded.predict(make_picture(3))
    assert first.score == second.score
    assert (first.anomaly_map == second.anomaly_map).all()
    loaded.save(tmp_path / "again.hfsad")
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
    assert loaded.settings == detector.settings
    assert (loaded.lookup, loaded.pooling, loaded.lam) == ("top-p", "top-5%", 0.3)
    assert (loaded.recipe, loaded.sharpness) == ("paper-offline", 4.0)
    assert loaded.identity() == detector.identity()


@pytest.mark.parametrize("count", [1, 3])
def test_all_that_the_default_recipe_has_is_kept(tiny: str, tmp_path: Path, count: int) -> None:
    detector = HyperFSAD(tiny, resolution=84, missing=0.3, device="cpu")
    detector.fit([make_picture(seed) for seed in range(count)])
    assert detector.settings.last_norm
    assert detector.tentative_ == (count == 1)
    detector.save(tmp_path / "a.hfsad")
    loaded = HyperFSAD.load(tmp_path / "a.hfsad", device="cpu")
    assert loaded.settings == detector.settings
    assert (loaded.missing, loaded.tentative_) == (0.3, detector.tentative_)
    assert loaded.identity() == detector.identity()
    first, second = detector.predict(make_picture(9)), loaded.predict(make_picture(9))
    assert first.branches == second.branches
    assert (first.anomaly_map == second.anomaly_map).all()
    assert first.regions == second.regions
    loaded.save(tmp_path / "b.hfsad")
    assert (tmp_path / "b.hfsad").read_bytes() == (tmp_path / "a.hfsad").read_bytes()


LATER = ("missing", "tentative", "foreign")
"""What headers have had only since there are missing pieces, and what came after them."""


def earlier_header(path: Path, recipe: str) -> dict[str, Any]:
    """The header as the version before missing pieces wrote it."""
    header = {key: value for key, value in stored_header(path).items() if key not in LATER}
    del header["encoder"]["last_norm"]
    return {**header, "recipe": recipe}


def earlier_identity(header: dict[str, Any]) -> str:
    """The hash that the version before missing pieces has in its journals."""
    names = ["encoder", "recipe", "lookup", "sharpness", "pooling", "lambda"]
    names += ["rotations", "roi", "tiles", "scale", "threshold", "map_threshold", "calibration"]
    hashes = [image["sha256"] for image in header["normal_images"]]
    text = json.dumps([{name: header[name] for name in names}, hashes], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_file_of_an_earlier_version_goes_on_where_it_was(saved: Path) -> None:
    now = HyperFSAD.load(saved, device="cpu")
    header = earlier_header(saved, recipe="paper")
    save_file(load_file(saved), saved, metadata={KEY: json.dumps(header)})
    old = HyperFSAD.load(saved, device="cpu")
    assert old.recipe == now.recipe == "paper-offline"
    assert old.identity() == now.identity() == earlier_identity(header)


def test_the_map_threshold_is_kept_and_older_files_have_none(
    detector: HyperFSAD, tmp_path: Path
) -> None:
    path = tmp_path / "part.hfsad"
    detector.fit(make_picture(1))
    before = detector.identity()
    detector.map_threshold_ = 0.25
    assert detector.identity() != before  # a run with other regions is another run
    detector.save(path)
    loaded = HyperFSAD.load(path, device="cpu")
    assert loaded.map_threshold_ == 0.25
    assert loaded.predict(make_picture(3)).regions == detector.predict(make_picture(3)).regions
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()[KEY])
    del header["map_threshold"]
    save_file(tensors, path, metadata={KEY: json.dumps(header)})
    old = HyperFSAD.load(path, device="cpu")
    assert old.map_threshold_ is None
    assert old.predict(make_picture(3)).regions == ()


def test_a_cut_file_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for length in (0, 4, 100, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:length])
        with pytest.raises(DetectorFileError, match=r"part\.hfsad is damaged, cut short or"):
            HyperFSAD.load(saved)


def test_a_flipped_bit_is_noticed(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[-1000] ^= 1
    saved.write_bytes(content)
    with pytest.raises(DetectorFileError, match="content does not match"):
        HyperFSAD.load(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_none_are_refused(saved: Path, value: float) -> None:
    with safe_open(saved, framework="pt") as file:
        header = json.loads(file.metadata()[KEY])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    name = f"patches.{header['encoder']['layers'][1]}"
    tensors[name][3, 5] = value
    header["crc32"][name] = zlib.crc32(tensors[name].numpy().data)
    save_file(tensors, saved, metadata={KEY: json.dumps(header)})
    with pytest.raises(DetectorFileError, match="content does not match"):
        HyperFSAD.load(saved)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DetectorFileError, match="There is no detector file"):
        HyperFSAD.load(tmp_path / "none.hfsad")
    with pytest.raises(DetectorFileError, match="is a folder"):
        HyperFSAD.load(tmp_path)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(DetectorFileError, match="no detector file"):
        HyperFSAD.load(tmp_path / "text")
    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(DetectorFileError, match="not a hyperfsad detector"):
        HyperFSAD.load(tmp_path / "other.safetensors")
    torch.save({"a": torch.zeros(2)}, tmp_path / "pickle.pt")
    with pytest.raises(DetectorFileError, match="no detector file"):
        HyperFSAD.load(tmp_path / "pickle.pt")


def test_a_header_that_claims_gigabytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    with pytest.raises(DetectorFileError, match="damaged"):
        HyperFSAD.load(tmp_path / "big")


def test_a_newer_format_asks_for_an_upgrade(saved: Path) -> None:
    rewritten(saved, format=FORMAT + 1)
    with pytest.raises(DetectorFileError, match=r"newer hyperfsad .* upgrade"):
        HyperFSAD.load(saved)


@pytest.mark.parametrize(
    "changes",
    [
        {"encoder": {}},
        {"lookup": "magic"},
        {"pooling": 3},
        {"lambda": "x"},
        {"missing": "much"},
        {"missing": -1},
        {"rotations": 0},
        {"rotations": 1000, "tentative": True},
        {"scale": [1]},
        {"map_threshold": "high"},
        {"normal_images": []},
        {"normal_images": [{"name": "a"}]},
        {"crc32": {}},
    ],
)
def test_a_header_that_makes_no_sense_is_refused(saved: Path, changes: dict[str, object]) -> None:
    rewritten(saved, **changes)
    with pytest.raises((DetectorFileError, ValueError)) as caught:
        HyperFSAD.load(saved)
    assert "\n" not in str(caught.value)


def test_other_weights_under_the_same_name_are_noticed(saved: Path) -> None:
    with safe_open(saved, framework="pt") as file:
        encoder = json.loads(file.metadata()[KEY])["encoder"]
    rewritten(saved, encoder={**encoder, "fingerprint": "0" * 64})
    loaded = HyperFSAD.load(saved, device="cpu")
    with pytest.raises(DetectorFileError, match="made with other weights"):
        loaded.predict(make_picture(3))


def test_an_encoder_that_is_not_there_is_asked_for(saved: Path) -> None:
    with safe_open(saved, framework="pt") as file:
        encoder = json.loads(file.metadata()[KEY])["encoder"]
    rewritten(saved, encoder={**encoder, "name": "/nowhere/encoder"})
    with pytest.raises(UsageError, match=r"needs the encoder folder /nowhere.*--backbone FOLDER"):
        HyperFSAD.load(saved)


def test_an_encoder_that_moved_can_be_named(saved: Path, tiny: str, tmp_path: Path) -> None:
    expected = HyperFSAD.load(saved, device="cpu").predict(make_picture(3)).score
    moved = tmp_path / "moved"
    moved.symlink_to(tiny)
    loaded = HyperFSAD.load(saved, backbone=str(moved), device="cpu")
    assert loaded.predict(make_picture(3)).score == expected
