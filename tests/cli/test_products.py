"""Several products on the command line."""

import csv
import json
from pathlib import Path

import pytest
from PIL import Image

from hyperfsad.cli.console import DONE, NOTHING, SOME_FAILED
from hyperfsad.cli.main import main
from hyperfsad.detector.storage import read_header
from tests.conftest import read_results
from tests.detector.test_products import product_picture

SMALL = ("--recipe", "paper-offline", "--resolution", "84", "--device", "cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Good parts of two products, one of them with a name that needs care."""
    root = tmp_path / "products"
    for kind, name in enumerate(("Ölring <b> 1", "bolt")):
        (root / name).mkdir(parents=True)
        for seed in range(2):
            product_picture(kind, seed).save(root / name / f"{seed}.png")
    return root


@pytest.fixture
def line(folder: Path, tiny: str, tmp_path: Path) -> Path:
    """A detector of both."""
    target = tmp_path / "line.hfsad"
    arguments = ["fit", "--categories", str(folder), "-o", str(target), "--backbone", tiny, *SMALL]
    assert main(arguments) == DONE
    return target


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """A part of each product, and something else."""
    root = tmp_path / "seen"
    root.mkdir()
    for kind in range(2):
        product_picture(kind, 9).save(root / f"{kind}.png")
    Image.new("RGB", (90, 90), "white").save(root / "wall.png")
    return root


def test_fit_says_what_it_learnt(capsys: pytest.CaptureFixture[str], line: Path) -> None:
    assert "4 normal images of 2 products" in capsys.readouterr().out
    names = [product["name"] for product in read_header(line)["products"]]
    assert names == ["bolt", "Ölring <b> 1"]


def test_detect_names_products_and_strangers(
    line: Path, seen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["detect", str(seen), "--detector", str(line), "-o", str(out)]) == DONE
    lines = read_results(out)
    assert [line["product"] for line in lines] == ["Ölring <b> 1", "bolt", None]
    assert [line["unknown_product"] for line in lines] == [False, False, True]
    assert list(lines[0])[-1] == "error"
    with (out / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = list(rows[0])
    assert columns[columns.index("error") + 1] == "product"  # later columns follow earlier ones
    assert [row["product"] for row in rows] == ["Ölring <b> 1", "bolt", ""]
    told = capsys.readouterr().out
    assert "0.png  (Ölring <b> 1)" in told
    assert "1 image fits no product" in told
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "fit no product" in page
    assert "Thresholds of 2 products" in page
    assert "<h2>Ölring &lt;b&gt; 1</h2>" in page
    assert "<b> 1" not in page  # names are other people's input


def test_a_run_of_products_is_resumed(
    line: Path, seen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["detect", str(seen), "--detector", str(line), "-o", str(tmp_path / "out")]
    assert main(arguments) == DONE
    assert main([*arguments, "--resume"]) == DONE
    assert "3 images done before" in capsys.readouterr().err


def test_info_lists_the_products(line: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["info", str(line)]) == DONE
    told = capsys.readouterr().out
    assert told.count("normal      2 images") == 2
    assert "product     Ölring <b> 1 (least similarity 0." in told
    assert told.count("threshold   ") == 2
    assert main(["info", str(line), "--json"]) == DONE
    assert len(json.loads(capsys.readouterr().out)["products"]) == 2


def test_explain_goes_to_the_product_first(
    line: Path, seen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "why.png"
    arguments = ["explain", str(seen / "1.png"), "--detector", str(line)]
    assert main([*arguments, "-o", str(picture)]) == DONE
    assert "product bolt, similarity 0.9" in capsys.readouterr().out
    assert Image.open(picture).size[0] > 100
    assert main(["explain", str(seen / "wall.png"), "--detector", str(line), "--json"]) == DONE
    assert json.loads(capsys.readouterr().out)["unknown_product"] is True


def test_extend_needs_the_product(
    line: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (3, 4):
        product_picture(1, seed).save(tmp_path / f"{seed}.png")
    one, two = str(tmp_path / "3.png"), str(tmp_path / "4.png")
    assert main(["extend", str(line), one]) == NOTHING
    assert "say with --product which one" in capsys.readouterr().err
    assert main(["extend", str(line), one, "--product", "bolt"]) == DONE
    assert main(["extend", str(line), one, "--product", "bolt"]) == NOTHING
    assert "no new normal image" in capsys.readouterr().err
    check = ["--check", str(tmp_path / "3.png")]
    assert main(["extend", str(line), two, "--product", "bolt", *check]) == DONE
    assert main(["extend", str(line), two, "--product", "new", *check]) == NOTHING
    assert "new is a new product" in capsys.readouterr().err
    counts = {p["name"]: len(p["normal_images"]) for p in read_header(line)["products"]}
    assert counts == {"bolt": 4, "Ölring <b> 1": 2}


def test_extend_adds_a_product(line: Path, tmp_path: Path) -> None:
    product_picture(5).save(tmp_path / "5.png")
    assert main(["extend", str(line), str(tmp_path / "5.png"), "--product", "nut"]) == DONE
    names = [product["name"] for product in read_header(line)["products"]]
    assert names == ["bolt", "Ölring <b> 1", "nut"]


def test_a_detector_of_one_product_takes_no_name(
    folder: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, good = str(tmp_path / "part.hfsad"), str(folder / "bolt")
    assert main(["fit", good, "-o", target, "--backbone", tiny, *SMALL]) == DONE
    assert main(["extend", target, good, "--product", "bolt"]) == NOTHING
    assert "knows one product only; leave --product out" in capsys.readouterr().err


def test_fit_takes_good_parts_or_categories(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "x.hfsad")
    assert main(["fit", "-o", target]) == NOTHING
    assert main(["fit", str(folder), "--categories", str(folder), "-o", target]) == NOTHING
    assert capsys.readouterr().err.count("one of the two") == 2


def test_one_bad_picture_is_told_and_one_bad_product_is_refused(
    folder: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "x.hfsad"
    fit = ["fit", "--categories", str(folder), "-o", str(target), "--backbone", tiny, *SMALL]
    (folder / "bolt" / "2.png").write_bytes(b"nothing")
    assert main(fit) == SOME_FAILED
    assert target.exists()
    target.unlink()
    (folder / "empty").mkdir()
    assert main(fit) == NOTHING
    assert "The product empty cannot be learnt" in capsys.readouterr().err
    assert not target.exists()


def test_commands_for_one_product_refuse_several(
    line: Path, seen: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["stability", str(seen), "--detector", str(line)]
    assert main(arguments) == NOTHING
    assert "holds several products" in capsys.readouterr().err
