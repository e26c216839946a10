"""Headers from strangers: every type, range and size is checked before anything is allocated."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from hyperfsad import HyperFSAD
from hyperfsad.cli.main import main
from hyperfsad.detector.keys import KEY
from hyperfsad.detector.schema import check_header
from hyperfsad.detector.storage import read_detector, read_header
from hyperfsad.disk.tensors import read_head, sealed
from hyperfsad.errors import DetectorFileError, UsageError
from tests.conftest import make_picture
from tests.detector.test_storage import rewritten, stored_header

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


@pytest.mark.parametrize(
    ("where", "value", "told"),
    [
        ("normal_images", "abc", "normal_images is 'abc', expected a list"),
        ("threshold", "x", "threshold is 'x', expected a number"),
        ("threshold", float("nan"), "damaged, cut short"),
        ("threshold", True, "threshold is True, expected a number"),
        ("encoder.std", [1, 1], r"std is \[1, 1\], expected a list of 3"),
        ("encoder.std", [1, 0, 1], r"std\[1\] is 0, expected a number from 1e-06"),
        ("encoder.resolution", 1e308, r"resolution is 1e\+308, expected a whole number"),
        ("encoder.resolution", 98, "content does not match"),
        ("encoder.patch", 0, "patch is 0"),
        ("encoder.layers", [3, 1], "layers .* rising order"),
        ("encoder.mean", GONE, "encoder has no mean"),
        ("calibration.images", float("inf"), "damaged, cut short"),
        ("calibration.images", 1.5, "images is 1.5, expected a whole number"),
        ("calibration.rate", 0, "rate is 0"),
        ("normal_images.0.views", 1000, "content does not match"),
        ("normal_images.0.size", [0, 3], r"size\[0\] is 0"),
        ("normal_images.0.sha256", "abc", "sha256 is 'abc'"),
        ("rotations", 10**24, "rotations is 10{24}, expected"),
        ("rotations", 10**400, "damaged, cut short"),
        ("scale", [1, 1], "scale .* rising order"),
        ("tiles", {"side": 1, "sizes": [[10**6, 10**6]] * 2}, "other images than it remembers"),
        ("tiles", {"side": 6, "sizes": [[10**6, 10**6]] * 2}, "no tiles.0"),
        ("crc32", [], r"crc32 is \[\], expected an object"),
        ("lookup", "magic", "lookup is 'magic', expected one of sparsemax"),
        ("format", True, "not a hyperfsad detector"),
        ("format", 0, "format is 0"),
        ("products", 3, "products is 3, expected a list"),
        ("products", [], r"products is \[\], expected a list of 1"),
    ],
)
def test_what_does_not_fit_is_named(
    saved: Path, where: str, value: Any, told: str, capsys: pytest.CaptureFixture[str]
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
    save_file(load_file(saved), saved, metadata={KEY: json.dumps(header)})
    with pytest.raises(DetectorFileError, match=told) as caught:
        HyperFSAD.load(saved)
    assert "\n" not in str(caught.value)
    assert str(saved) in str(caught.value)
    assert main(["info", str(saved)]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_every_flipped_byte_of_the_header_is_refused_or_harmless(saved: Path) -> None:
    """Only the name of the seal can be another: then the file is one without a seal."""
    content = saved.read_bytes()
    expected = read_header(saved)
    length = 8 + int.from_bytes(content[:8], "little")
    rng = random.Random(0)
    harmless = []
    for place in range(length):
        flipped = bytearray(content)
        flipped[place] ^= 1 << rng.randrange(8)
        saved.write_bytes(flipped)
        try:
            header = read_header(saved)
        except DetectorFileError:
            continue
        assert header == expected
        harmless.append(place)
    start = content.index(b'"seal"')
    assert set(harmless) <= set(range(start, start + 6))


def test_any_flipped_bit_elsewhere_is_refused_too(saved: Path) -> None:
    content = saved.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    rng = random.Random(0)
    for _ in range(100):
        flipped = bytearray(content)
        flipped[rng.randrange(length, len(content))] ^= 1 << rng.randrange(8)
        saved.write_bytes(flipped)
        with pytest.raises(DetectorFileError, match="content does not match"):
            read_detector(saved)


def test_a_stranger_s_many_images_cost_nothing(saved: Path) -> None:
    header = stored_header(saved)
    rewritten(saved, normal_images=header["normal_images"] * 150_000)
    with pytest.raises(DetectorFileError, match="damaged"):
        HyperFSAD.load(saved)
    rewritten(saved, normal_images=header["normal_images"] * 5_000)
    with pytest.raises(DetectorFileError, match="content does not match"):
        HyperFSAD.load(saved)


def test_endless_nesting_is_refused(saved: Path) -> None:
    text = json.dumps(stored_header(saved))[:-1] + ', "more": ' + "[" * 100_000 + "]" * 100_000
    save_file(load_file(saved), saved, metadata={KEY: text + "}"})
    with pytest.raises(DetectorFileError, match="damaged"):
        HyperFSAD.load(saved)


def test_a_seal_is_not_needed_but_has_to_be_right(saved: Path) -> None:
    content = saved.read_bytes()
    assert "seal" in read_head(saved).metadata
    rewritten(saved)
    assert "seal" not in read_head(saved).metadata
    HyperFSAD.load(saved)
    changed = content.replace(b'\\"sharpness\\": 64.0', b'\\"sharpness\\": 01.0', 1)
    changed = changed.replace(b"01.0", b"16.0", 1)
    assert changed != content
    saved.write_bytes(changed)
    with pytest.raises(DetectorFileError, match="damaged"):
        HyperFSAD.load(saved)
    length = 8 + int.from_bytes(changed[:8], "little")
    saved.write_bytes(sealed(changed[:length]) + changed[length:])
    assert HyperFSAD.load(saved).sharpness == 16


def test_what_could_not_be_read_again_is_not_written(saved: Path) -> None:
    before = saved.read_bytes()
    detector = HyperFSAD.load(saved, device="cpu")
    detector.threshold_ = float("nan")
    with pytest.raises(UsageError, match=r"part\.hfsad is not written"):
        detector.save(saved)
    detector.threshold_ = "high"  # type: ignore[assignment]
    with pytest.raises(UsageError, match="threshold is 'high', expected a number"):
        detector.save(saved)
    assert saved.read_bytes() == before


def test_the_schema_passes_over_what_it_does_not_know(saved: Path) -> None:
    header = stored_header(saved)
    check_header({**header, "later": {"anything": [1, None]}})
    rewritten(saved, later=3, encoder={**header["encoder"], "later": 3})
    assert HyperFSAD.load(saved, device="cpu").predict(make_picture(3)).error is None


FORMAT_1 = ("encoder", "lookup", "pooling", "lambda", "scale", "threshold", "normal_images")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_of_all_earlier_formats_are_read(
    detector: HyperFSAD, tmp_path: Path, version: int
) -> None:
    path = tmp_path / "part.hfsad"
    detector.fit([make_picture(1), make_picture(2)]).save(path)
    expected = detector.predict(make_picture(3)).score
    whole = stored_header(path)
    names = [*FORMAT_1, "crc32", *(("recipe", "sharpness") if version > 1 else ())]
    header = {"format": version, **{name: whole[name] for name in names}}
    del header["encoder"]["last_norm"]
    for image in header["normal_images"]:
        image.pop("size", None)
    save_file(load_file(path), path, metadata={KEY: json.dumps(header)})
    old = HyperFSAD.load(path, device="cpu")
    assert old.predict(make_picture(3)).score == expected
    old.save(path)
    assert HyperFSAD.load(path).threshold_ == detector.threshold_
