"""The commands fit, extend and calibrate."""

import json
import os
import stat
from pathlib import Path

import pytest

from hyperfsad.cli.console import DONE, NOTHING, SOME_FAILED
from tests.cli.running import SMALL, command, fit_products, refusal
from tests.detector.test_products import product_picture
from tests.forks import Forked


def learnt(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    """The products of a file, and how many good parts it knows of each."""
    capsys.readouterr()
    assert command("info", file, "--json") == DONE
    products = json.loads(capsys.readouterr().out)["products"]
    return {product["name"]: len(product["normal_images"]) for product in products}


def test_a_bad_normal_image_is_left_out_and_named(tiny: str, photos: Path, tmp_path: Path) -> None:
    (photos / "2.png").write_bytes(b"")
    (photos / "copy.png").write_bytes((photos / "1.png").read_bytes())
    done = Forked(["fit", photos, "-o", tmp_path / "part.hfsad", "--backbone", tiny])
    assert done.returncode == SOME_FAILED
    assert "2.png is empty" in done.stderr
    assert "copy.png" in done.stderr
    assert "4 normal images" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["photos/0.png", "notes.txt"])
def test_a_detector_never_replaces_another_file(
    name: str, tiny: str, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    target = tmp_path / name
    before = target.read_bytes()
    assert refusal("fit", photos, "-o", target, "--backbone", tiny) == "output-other-file"
    assert target.read_bytes() == before


def test_a_detector_replaces_only_files(
    tiny: str, photos: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = fitted.read_bytes()
    assert command("fit", photos, "-o", fitted, "--backbone", tiny) == DONE
    assert fitted.read_bytes() != before
    os.mkfifo(tmp_path / "pipe")
    for place in (str(tmp_path / "pipe"), "/dev/full", str(tmp_path / "new" / "part.hfsad")):
        assert command("fit", photos, "-o", place, "--backbone", tiny, *SMALL) == NOTHING
        assert place in capsys.readouterr().err
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert not (tmp_path / "new").exists()


def test_extend_refuses_what_is_learnt_already(fitted: Path, photos: Path) -> None:
    before = fitted.read_bytes()
    assert refusal("extend", fitted, photos / "0.png") == "nothing-new-learnt"
    assert fitted.read_bytes() == before


def test_extend_and_calibrate_one_of_several_products(
    capsys: pytest.CaptureFixture[str], products: Path, tmp_path: Path
) -> None:
    assert "4 normal images, 2 products" in capsys.readouterr().out
    for seed in (3, 4, 5):
        product_picture(5 if seed == 5 else 1, seed).save(tmp_path / f"{seed}.png")
    one, two, nut = (tmp_path / f"{seed}.png" for seed in (3, 4, 5))
    assert refusal("extend", products, one) == "product-unnamed"
    assert command("extend", products, one, "--product", "bolt") == DONE
    assert refusal("extend", products, one, "--product", "bolt") == "nothing-new-learnt"
    assert command("extend", products, two, "--product", "bolt") == DONE
    assert command("extend", products, nut, "--product", "nut") == DONE
    assert learnt(products, capsys) == {"bolt": 4, "Ölring <b> 1": 2, "nut": 1}
    assert refusal("calibrate", products, one, "--product", "screw") == "product-unknown"
    assert command("calibrate", products, "--product", "bolt", "--threshold", "0.5") == DONE
    assert "bolt: threshold 0.500" in capsys.readouterr().out


def test_a_detector_of_one_product_takes_no_name(
    product_folder: Path, tiny: str, tmp_path: Path
) -> None:
    target, good = tmp_path / "part.hfsad", product_folder / "bolt"
    assert command("fit", good, "-o", target, "--backbone", tiny, *SMALL) == DONE
    assert refusal("extend", target, good, "--product", "bolt") == "one-product-only"


def test_one_bad_picture_is_named_and_one_bad_product_is_refused(
    product_folder: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "x.hfsad"
    fit = fit_products(product_folder, target, tiny)
    twice = ["--calibrate", str(product_folder), str(product_folder)]
    assert refusal(*fit, *twice) == "categories-calibrate-one-folder"
    assert refusal(*fit, "--calibrate", str(product_folder.parent)) == "categories-differ"
    (product_folder / "bolt" / "2.png").write_bytes(b"nothing")
    assert command(*fit) == SOME_FAILED
    assert target.exists()
    target.unlink()
    (product_folder / "empty").mkdir()
    assert command(*fit) == NOTHING
    assert "empty" in capsys.readouterr().err
    assert not target.exists()
