"""The command teach."""

import json
from pathlib import Path

import pytest

from hyperfsad.cli.console import DONE, SOME_FAILED
from tests.cli.running import command, detect, refusal
from tests.conftest import read_results
from tests.detector.test_products import product_picture


def taught(file: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """The defects of a file, and the names of their pictures."""
    capsys.readouterr()
    assert command("info", file, "--json") == DONE
    header = json.loads(capsys.readouterr().out)
    return [(one["defect"], Path(one["image"]).name) for one in header["defects"]]


def test_defects_are_taught_named_and_forgotten(
    small: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two, three, four = (photos / f"{seed}.png" for seed in (2, 3, 4))
    assert command("teach", small, "--defect", "rust", two, three) == DONE
    assert "rust (2)" in capsys.readouterr().out
    assert command("teach", small, four, "--defect", "dent", "--at", "30,40") == DONE
    assert command("teach", small, "--defect", "dent", three) == DONE  # the last word counts
    expected = [("rust", "2.png"), ("dent", "4.png"), ("dent", "3.png")]
    assert taught(small, capsys) == expected
    assert command("info", small) == DONE
    assert "dent" in capsys.readouterr().out
    assert command("calibrate", small, "--threshold", "1e-6") == DONE
    assert detect(photos, small, tmp_path / "out") == DONE
    assert "[rust]" in capsys.readouterr().out
    named = {Path(str(r["image"])).name: r["defect"] for r in read_results(tmp_path / "out")}
    assert {name: named[name] for _, name in expected} == {n: d for d, n in expected}
    assert command("teach", small, "--forget", "rust") == DONE
    assert taught(small, capsys) == expected[1:]


def test_a_bad_picture_is_named_and_the_others_are_learnt(
    small: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos / "2.png").write_bytes(b"")
    done = command("teach", small, "--defect", "rust", photos / "2.png", photos / "3.png")
    assert done == SOME_FAILED
    assert taught(small, capsys) == [("rust", "3.png")]


def test_what_is_not_clear_is_refused(small: Path, photos: Path) -> None:
    before, two, three = small.read_bytes(), photos / "2.png", photos / "3.png"
    assert refusal("teach", small, two) == "teach-incomplete"
    assert refusal("teach", small, "--defect", "rust") == "teach-incomplete"
    assert refusal("teach", small) == "either-or"
    assert refusal("teach", small, two, "--defect", "a", "--forget", "b") == "either-or"
    assert refusal("teach", small, "--forget", "rust") == "defect-not-taught"
    assert refusal("teach", small, two, "--defect", "unknown") == "defect-name"
    more = ("--defect", "rust", "--at", "3,4")
    assert refusal("teach", small, two, three, *more) == "place-of-several"
    assert refusal("teach", small, two, "--defect", "a", "--product", "bolt") == "one-product-only"
    assert small.read_bytes() == before


def test_each_product_has_its_own(
    products: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.png"
    product_picture(1, 7).save(bad)
    assert refusal("teach", products, "--defect", "rust", bad) == "product-unnamed"
    assert command("teach", products, "--defect", "rust", bad, "--product", "bolt") == DONE
    capsys.readouterr()
    assert command("info", products, "--json") == DONE
    header = json.loads(capsys.readouterr().out)
    counts = {one["name"]: len(one["defects"]) for one in header["products"]}
    assert counts == {"bolt": 1, "Ölring <b> 1": 0}
