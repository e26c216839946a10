"""Naming defects: from a few examples to the name in a result, a file, a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad import HyperFSAD, ProductDetector, inspect
from hyperfsad.decisions.defects import UNKNOWN
from hyperfsad.demo.drawing import draw
from hyperfsad.errors import HyperfsadWarning, UsageError
from hyperfsad.messages import Notice
from tests.codes import codes, raises
from tests.conftest import make_picture, read_results
from tests.detector.test_products import product_picture

KINDS = ("stain", "hole")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawn fabric: good parts, and bad ones of two kinds."""
    root = tmp_path_factory.mktemp("named")
    for seed in range(3):
        draw("fabric", seed=seed, size=256).image.save(root / f"good-{seed}.png")
    for kind in KINDS:
        for seed in range(20, 24):
            draw("fabric", seed=seed, defect=kind, size=256).image.save(root / f"{kind}-{seed}.png")
    return root


@pytest.fixture(scope="module")
def fitted(folder: Path) -> HyperFSAD:
    """Has learnt good parts alone; never changed by a test."""
    return HyperFSAD(rotations=1).fit([folder / f"good-{seed}.png" for seed in range(2)])


@pytest.fixture(scope="module")
def taught(folder: Path, fitted: HyperFSAD) -> HyperFSAD:
    """The same with one example of each kind; never changed by a test."""
    detector = fitted.__copy__()
    for kind in KINDS:
        detector.teach(folder / f"{kind}-20.png", kind)
    return detector


def test_the_next_defect_is_named(folder: Path, fitted: HyperFSAD, taught: HyperFSAD) -> None:
    for kind in KINDS:
        for seed in (21, 22, 23):
            path = folder / f"{kind}-{seed}.png"
            before, after = fitted.predict(path), taught.predict(path)
            assert (before.defect, before.defect_score) == (None, None)
            assert (after.defect, after.anomalous) == (kind, True)
            assert after.defect_score is not None
            assert 0 < after.defect_score < 1
            assert (after.score, after.level) == (before.score, before.level)
            assert after.to_dict()["defect"] == kind
            assert kind in repr(after)


def test_a_good_part_has_no_defect(folder: Path, taught: HyperFSAD) -> None:
    found = taught.predict(folder / "good-2.png")
    assert (found.anomalous, found.defect, found.defect_score) == (False, None, None)


def test_what_nobody_taught_is_unknown(folder: Path, fitted: HyperFSAD) -> None:
    detector = fitted.__copy__().teach(folder / "hole-20.png", "hole")
    found = detector.predict(make_picture(3, (256, 256)))
    assert found.defect == UNKNOWN
    assert found.defect_score is not None
    assert found.defect_score < detector.defects_.least_likeness


def test_a_file_keeps_the_examples(folder: Path, taught: HyperFSAD, tmp_path: Path) -> None:
    taught.save(tmp_path / "a.hfsad")
    again = HyperFSAD.load(tmp_path / "a.hfsad")
    again.use_encoder(taught.encoder_)
    assert dict(again.defects_.counts) == {"stain": 1, "hole": 1}
    assert again.identity() == taught.identity()
    path = folder / "hole-22.png"
    assert again.predict(path).to_dict() == taught.predict(path).to_dict()
    again.save(tmp_path / "b.hfsad")
    assert (tmp_path / "a.hfsad").read_bytes() == (tmp_path / "b.hfsad").read_bytes()
    again.forget_defect("stain").forget_defect("hole").save(tmp_path / "c.hfsad")
    assert not HyperFSAD.load(tmp_path / "c.hfsad").defects_.examples
    assert again.predict(path).defect is None


def test_names_stay_whatever_else_is_learnt(folder: Path, taught: HyperFSAD) -> None:
    detector = taught.__copy__().extend(folder / "good-2.png")
    assert detector.defects_ == taught.defects_
    assert detector.calibrate().defects_ == taught.defects_
    assert detector.predict(folder / "hole-21.png").defect == "hole"
    assert not detector.fit(folder / "good-0.png").defects_.examples


def test_a_place_says_which_of_two_defects_it_is(folder: Path, fitted: HyperFSAD) -> None:
    pixels = np.asarray(draw("fabric", seed=20, defect="hole", size=256).image).copy()
    stained = np.asarray(draw("fabric", seed=20, defect="stain", size=256).image)
    hole = fitted.predict(folder / "hole-20.png").peak
    stain = fitted.predict(folder / "stain-20.png").peak
    assert hole is not None
    assert stain is not None
    assert abs(hole.x - stain.x) + abs(hole.y - stain.y) > 100
    x, y = int(stain.x), int(stain.y)
    area = (slice(max(y - 40, 0), y + 40), slice(max(x - 40, 0), x + 40))
    pixels[area] = stained[area]
    places = {"hole": hole, "stain": stain}
    for kind, place in places.items():
        detector = fitted.__copy__().teach(pixels, kind, at=(place.x, place.y))
        (example,) = detector.defects_.examples
        own, other = (
            fitted.__copy__().teach(folder / f"{each}-20.png", each).defects_.examples[0]
            for each in (kind, "hole" if kind == "stain" else "stain")
        )
        alike = example.signature.likeness
        assert alike(own.signature) > alike(other.signature) + 0.1


def test_what_looks_good_is_said(folder: Path, fitted: HyperFSAD) -> None:
    told: list[Notice] = []
    detector = fitted.__copy__()
    detector.notify = told.append  # type: ignore[assignment]
    detector.teach([folder / "good-2.png", folder / "hole-20.png"], "hole")
    (notice,) = [each for each in told if each.code == "examples-look-good"]
    assert [Path(name).name for name, _ in notice.facts["parts"]] == ["good-2.png"]
    assert str(notice)
    assert dict(detector.defects_.counts) == {"hole": 2}
    told.clear()
    detector.teach(folder / "hole-21.png", "hole")
    assert codes(told) == []


def test_what_cannot_be_taught_is_refused(folder: Path, fitted: HyperFSAD) -> None:
    detector = fitted.__copy__()
    hole = folder / "hole-20.png"
    with raises(UsageError, "defect-name"):
        detector.teach(hole, " ")
    with raises(UsageError, "place-of-several"):
        detector.teach([hole, folder / "hole-21.png"], "hole", at=(3, 4))
    with raises(UsageError, "place-outside", width=256):
        detector.teach(hole, "hole", at=(256, 4))
    with raises(UsageError, "one-product-only"):
        detector.teach(hole, "hole", product="bolt")
    with raises(UsageError, "no-example"), pytest.warns(HyperfsadWarning):
        detector.teach(folder / "good-0.png", "hole")
    with raises(UsageError, "no-example"), pytest.warns(HyperfsadWarning):
        detector.teach(folder / "none.png", "hole")
    with raises(UsageError, "detector-not-fitted"):  # before any encoder is loaded
        HyperFSAD().teach(hole, "hole")
    assert not detector.defects_.examples


def test_a_region_of_interest_hides_what_is_pointed_at(folder: Path, tiny: str) -> None:
    left = np.zeros((256, 256), np.uint8)
    left[:, :128] = 255
    detector = HyperFSAD(tiny, resolution=84, rotations=1, roi=left, device="cpu")
    detector.fit([folder / "good-0.png", folder / "good-1.png"])
    assert detector.teach(folder / "hole-20.png", "hole", at=(40, 40)).defects_.examples
    with raises(UsageError, "place-outside-roi"):
        detector.teach(folder / "hole-21.png", "hole", at=(250, 40))


def test_tiles_cannot_name_defects(tiny: str, picture: Callable[..., Any]) -> None:
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=56, tiles=56, device="cpu")
    detector.fit(picture(1))
    with raises(UsageError, "teach-with-tiles"):
        detector.teach(picture(2), "dent")


def test_an_exported_model_cannot_name_defects(fitted: HyperFSAD, taught: HyperFSAD) -> None:
    fitted.check("export")
    with raises(UsageError, "export-with-defects"):
        taught.check("export")


def test_each_product_has_defects_of_its_own(tiny: str, tmp_path: Path) -> None:
    detector = ProductDetector(tiny, recipe="paper-offline", resolution=84, device="cpu")
    detector.fit({name: [product_picture(kind)] for kind, name in enumerate(("bolt", "nut"))})
    bad = product_picture(0, 1)
    bad.paste((255, 0, 0), (40, 30, 60, 50))
    with raises(UsageError, "product-unnamed"):
        detector.teach(bad, "rust")
    with raises(UsageError, "product-unknown"):
        detector.teach(bad, "rust", product="screw")
    detector.teach(bad, "rust", product="bolt")
    detector.products_["bolt"].move_threshold(1e-6)
    detector.save(tmp_path / "a.hfsad")
    again = ProductDetector.load(tmp_path / "a.hfsad")
    assert dict(again.products_["bolt"].defects_.counts) == {"rust": 1}
    assert not again.products_["nut"].defects_.examples
    found = again.predict(bad)
    assert (found.product, found.anomalous, found.defect) == ("bolt", True, "rust")
    again.forget_defect("rust", product="bolt")
    assert again.predict(bad).defect is None


def test_a_run_records_the_names(folder: Path, taught: HyperFSAD, tmp_path: Path) -> None:
    images = [folder / "hole-21.png", folder / "good-2.png"]
    inspect(taught, images, tmp_path / "out")
    bad, good = read_results(tmp_path / "out")
    assert (bad["defect"], good["defect"], good["defect_score"]) == ("hole", None, None)
    assert "hole" in (tmp_path / "out" / "results.csv").read_text()
    assert "Defects: hole (1)." in (tmp_path / "out" / "report.html").read_text()
