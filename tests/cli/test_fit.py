"""The commands fit, extend and calibrate."""

from pathlib import Path

import pytest

from hyperfsad.cli.console import DONE, NOTHING, SOME_FAILED
from hyperfsad.cli.main import main
from hyperfsad.detector.file import open_file
from tests.cli.running import SMALL, fit_products, run
from tests.detector.test_products import product_picture


def test_a_bad_normal_image_is_left_out_and_told(tiny: str, photos: Path, tmp_path: Path) -> None:
    (photos / "2.png").write_bytes(b"")
    (photos / "copy.png").write_bytes((photos / "1.png").read_bytes())
    done = run("fit", photos, "-o", tmp_path / "part.hfsad", "--backbone", tiny)
    assert done.returncode == 3
    assert "2.png is empty" in done.stderr
    assert "same picture as" in done.stderr
    assert "4 normal images" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["photos/0.png", "notes.txt"])
def test_a_detector_never_replaces_another_file(
    name: str, tiny: str, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    target = tmp_path / name
    before = target.read_bytes()
    assert main(["fit", str(photos), "-o", str(target), "--backbone", tiny]) == NOTHING
    assert target.read_bytes() == before


def test_a_detector_may_replace_a_detector(tiny: str, photos: Path, fitted: Path) -> None:
    before = fitted.read_bytes()
    assert main(["fit", str(photos), "-o", str(fitted), "--backbone", tiny]) == DONE
    assert fitted.read_bytes() != before


def test_extend_refuses_what_is_learnt_already(
    fitted: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = fitted.read_bytes()
    assert main(["extend", str(fitted), str(photos / "0.png")]) == NOTHING
    told = capsys.readouterr().err.splitlines()
    assert "0.png was learnt already" in told[0]
    assert "No normal image was new" in told[1]
    assert fitted.read_bytes() == before


def test_fit_says_what_it_learnt(capsys: pytest.CaptureFixture[str], products: Path) -> None:
    assert "4 normal images of 2 products" in capsys.readouterr().out
    names = [product["name"] for product in open_file(products).header["products"]]
    assert names == ["bolt", "Ölring <b> 1"]


def test_extend_needs_the_product(
    products: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (3, 4):
        product_picture(1, seed).save(tmp_path / f"{seed}.png")
    one, two = str(tmp_path / "3.png"), str(tmp_path / "4.png")
    assert main(["extend", str(products), one]) == NOTHING
    assert "say with --product which one" in capsys.readouterr().err
    assert main(["extend", str(products), one, "--product", "bolt"]) == DONE
    assert main(["extend", str(products), one, "--product", "bolt"]) == NOTHING
    assert "No normal image was new" in capsys.readouterr().err
    assert main(["extend", str(products), two, "--product", "bolt"]) == DONE
    counts = {p["name"]: len(p["normal_images"]) for p in open_file(products).header["products"]}
    assert counts == {"bolt": 4, "Ölring <b> 1": 2}


def test_extend_adds_a_product(products: Path, tmp_path: Path) -> None:
    product_picture(5).save(tmp_path / "5.png")
    assert main(["extend", str(products), str(tmp_path / "5.png"), "--product", "nut"]) == DONE
    names = [product["name"] for product in open_file(products).header["products"]]
    assert names == ["bolt", "Ölring <b> 1", "nut"]


def test_a_detector_of_one_product_takes_no_name(
    product_folder: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, good = str(tmp_path / "part.hfsad"), str(product_folder / "bolt")
    assert main(["fit", good, "-o", target, "--backbone", tiny, *SMALL]) == DONE
    assert main(["extend", target, good, "--product", "bolt"]) == NOTHING
    assert "knows one product only; leave --product out" in capsys.readouterr().err


def test_one_bad_picture_is_told_and_one_bad_product_is_refused(
    product_folder: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "x.hfsad"
    fit = fit_products(product_folder, target, tiny)
    (product_folder / "bolt" / "2.png").write_bytes(b"nothing")
    assert main(fit) == SOME_FAILED
    assert target.exists()
    target.unlink()
    (product_folder / "empty").mkdir()
    assert main(fit) == NOTHING
    assert "The product empty cannot be learnt" in capsys.readouterr().err
    assert not target.exists()
