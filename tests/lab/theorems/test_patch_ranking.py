"""η of patches: the moments of all pairs, counted one by one, and which patches are defective."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from hyperfsad.cli import main
from hyperfsad.errors import UsageError
from hyperfsad.lab.theorems.layerwise import Discrepancies
from hyperfsad.lab.theorems.ranking import cantelli, rank_patches, read_masks
from hyperfsad.quality.tokens import Array
from tests.codes import raises
from tests.quality.blending import blended

from .samples import some_discrepancies


def all_pairs(high: Array, low: Array) -> Array:
    """η of every pair by itself, (defective, normal, layers)."""
    return np.asarray([[a - n for n in low.T] for a in high.T])


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.floats(-0.2, 1.5), st.booleans())
def test_the_moments_are_those_of_all_pairs(
    seed: int, layers: int, shift: float, masked: bool
) -> None:
    good = some_discrepancies(seed, 3, layers)
    bad = some_discrepancies(seed + 1, 2, layers, shift)
    masks = [np.array([0, 0.2, 0.5, 0.9, 0]), np.array([0.1, 0.3, 0, 0, 0])] if masked else None
    if masked:
        high = np.concatenate([bad[0].distances[:, [2, 3]], bad[1].distances[:, [1]]], axis=1)
        rest = [bad[0].distances[:, [0, 4]], bad[1].distances[:, [2, 3, 4]]]
    else:
        high = np.stack([image.distances[:, image.peak] for image in bad], axis=1)
        rest = []
    low = np.concatenate([*(image.distances for image in good), *rest], axis=1)
    report = rank_patches(good, bad, range(1, layers + 1), masks)
    pairs = all_pairs(high, low).reshape(-1, layers)
    assert (report.defective_patches, report.normal_patches) == (high.shape[1], low.shape[1])
    together = pairs.mean(axis=1)
    expected = cantelli(float(together.mean()), float(together.var()))
    assert report.together.bound == pytest.approx(expected, abs=1e-12)
    assert report.together.misranked == pytest.approx((together <= 0).mean(), abs=1e-12)
    assert report.together.misranked <= report.together.bound + 1e-12


def test_ties_count_against_us() -> None:
    flat = Discrepancies("", np.full((1, 4), 0.3), np.zeros(1))
    report = rank_patches([flat], [flat], (1,))
    assert report.together.misranked == report.together.bound == 1


def test_nothing_to_rank() -> None:
    images = some_discrepancies(0, 1, 1)
    with raises(UsageError, "ranking-needs-both"):
        rank_patches(images, [], (1,))
    with raises(UsageError, "masks-without-defect"):
        rank_patches(images, images, (1,), [np.zeros(5)])


def write_mask(path: Path, box: tuple[int, int, int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mask = np.zeros((60, 60), dtype=np.uint8)
    left, top, right, bottom = box
    mask[top:bottom, left:right] = 255
    Image.fromarray(mask).save(path)


def named(path: Path) -> Discrepancies:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (60, 60)).save(path)
    return Discrepancies(str(path), np.zeros((1, 36)), np.zeros(1))


def test_masks_are_found_by_name_and_folder(tmp_path: Path) -> None:
    images = [named(tmp_path / "test" / kind / "000.png") for kind in ("cut", "hole")]
    images.append(named(tmp_path / "test" / "dent" / "007.png"))
    write_mask(tmp_path / "masks" / "cut" / "000_mask.png", (0, 0, 10, 10))
    write_mask(tmp_path / "masks" / "hole" / "000.png", (50, 50, 60, 55))
    write_mask(tmp_path / "masks" / "007_mask.png", (10, 0, 30, 10))
    shares = [mask.reshape(6, 6) for mask in read_masks(images, tmp_path / "masks", 6)]
    assert shares[0][0, 0] == 1
    assert shares[0].sum() == 1
    assert shares[1][5, 5] == pytest.approx(0.5)
    assert np.flatnonzero(shares[2]).tolist() == [1, 2]
    lonely = named(tmp_path / "test" / "cut" / "042.png")
    with raises(UsageError, "mask-missing", stem="042"):
        read_masks([lonely], tmp_path / "masks", 6)


def test_certify_reads_masks(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = blended(tmp_path / "good", range(1, 5), 0.1)
    bad = blended(tmp_path / "bad", range(20, 22), 0.9)
    for path in bad.glob("*.png"):
        with Image.open(path) as picture:
            mask = Image.new("L", picture.size)
            mask.paste(255, (0, 0, picture.width // 2, picture.height // 2))
        (tmp_path / "masks").mkdir(exist_ok=True)
        mask.save(tmp_path / "masks" / f"{path.stem}_mask.png")
    command = ["lab", "certify", "--normal", str(good / "01.png"), "--good", str(good / "02.png")]
    command += [str(good / "03.png"), "--bad", str(bad), "--backbone", tiny, "--resolution", "84"]
    command += ["--device", "cpu", "--masks", str(tmp_path / "masks")]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert np.shape(told["theorem_1"]["layer_margin"]) == (2, 2, 4)
    patches = told["theorem_2_patches"]
    assert patches["defective_by"] == "mask"
    assert patches["defective_patches"] == 2 * 9
    assert patches["normal_patches"] == 2 * 36 + 2 * 27
    assert main(command) == 0
    assert "Theorem 2 for patches" in capsys.readouterr().out
