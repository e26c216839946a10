"""Evaluations of a real detector on real files: counts, errors, tables."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import average_precision_score, roc_auc_score

from hyperfsad import HyperFSAD, ProductDetector, UsageError
from hyperfsad.quality.evaluate import evaluate
from hyperfsad.quality.evaluation_page import evaluation_text, save_evaluation
from hyperfsad.quality.test_set import TestImage, TestSet
from tests.codes import raises
from tests.detector.test_products import product_picture
from tests.quality.conftest import BADS, GOODS


def between(judge: HyperFSAD, tree: Path, share: float = 0.5) -> None:
    """Puts the thresholds where about this share of the parts is called anomalous."""
    results = [r for r in judge.predict_many(tree / "test") if r.level is not None]
    factor = float(np.quantile([r.level for r in results], 1 - share))
    assert judge.threshold_ is not None
    assert judge.map_threshold_ is not None
    judge.threshold_ *= factor
    judge.map_threshold_ *= factor


def test_figures_are_those_of_the_verdicts(judge: HyperFSAD, tree: Path) -> None:
    between(judge, tree)
    found = evaluate(judge, tree)
    results = {result.image: result for result in judge.predict_many(tree / "test")}
    assert len(found.images) == len(results) == GOODS + BADS
    verdicts = {"good": 0, "spot": 0}
    for image in found.images:
        result = results[image.image]
        assert (image.score, image.anomalous) == (result.score, result.anomalous)
        assert image.level is not None
        assert (image.level > 1) == result.anomalous
        verdicts[Path(image.image).parent.name] += bool(result.anomalous)
    assert (found.confusion.alarms.count, found.confusion.alarms.total) == (verdicts["good"], GOODS)
    assert (found.confusion.found.count, found.confusion.found.total) == (verdicts["spot"], BADS)
    assert list(found.kinds) == ["spot"]
    truth = [image.bad for image in found.images]
    for name, value in {"level": found.auroc["score"], **found.auroc}.items():
        own = [getattr(image, name) for image in found.images]
        assert value == pytest.approx(roc_auc_score(truth, own))


def test_places_are_judged_where_there_are_masks(judge: HyperFSAD, tree: Path) -> None:
    found = evaluate(judge, tree)
    maps, masks = [], []
    for image in found.images:
        shown = Image.fromarray(judge.predict(image.image).anomaly_map)
        maps.append(np.asarray(shown.resize((256, 256), Image.Resampling.BILINEAR)))
        mask = tree / "ground_truth" / "spot" / f"{Path(image.image).stem}_mask.png"
        drawn = Image.open(mask) if image.bad else Image.new("L", (96, 80))
        masks.append(np.asarray(drawn.resize((256, 256), Image.Resampling.NEAREST)) > 0)
    truth, values = np.array(masks).ravel(), np.array(maps).ravel()
    assert found.pixels is not None
    assert found.pixels["P-AUROC"] == pytest.approx(roc_auc_score(truth, values), abs=1e-6)
    assert found.pixels["P-AP"] == pytest.approx(average_precision_score(truth, values), abs=1e-6)
    assert 0 < (found.pixels["PRO"] or 0) <= 1
    assert found.pixel_side == 256


def test_many_images_are_compared_at_a_smaller_side(
    judge: HyperFSAD, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperfsad.quality.evaluate.MAX_PIXELS", (GOODS + BADS) * 64**2)
    found = evaluate(judge, tree)
    assert found.pixel_side == 64
    assert found.pixels is not None


def test_the_table_is_what_a_new_threshold_does(judge: HyperFSAD, tree: Path) -> None:
    between(judge, tree, 0.7)
    found = evaluate(judge, tree)
    assert len(found.points) > 1
    before = judge.threshold_, judge.map_threshold_
    assert before[0] is not None
    assert before[1] is not None
    for row in found.to_dict()["thresholds"]:
        judge.threshold_ = row["threshold"]
        judge.map_threshold_ = before[1] * row["threshold"] / before[0]
        again = evaluate(judge, tree)
        assert again.confusion.alarms.count == row["false_alarms"]["count"]
        assert again.confusion.found.rest.count == row["missed"]["count"]


def test_learnt_images_are_left_out(judge: HyperFSAD, tree: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.bmp"  # the same picture in another file
    Image.open(tree / "train" / "good" / "000.png").save(known)
    good, bad = [tree / "test" / "good", known], tree / "test" / "spot"
    found = evaluate(judge, good=good, bad=bad)
    assert found.learnt == (str(known),)
    assert found.confusion.alarms.total == GOODS
    assert f"{known}." in evaluation_text(found)
    with raises(UsageError, "only-learnt-parts") as caught:
        evaluate(judge, good=tree / "train")
    assert len(caught.value.facts["images"]) == 4


def test_a_bad_file_is_counted_and_named(judge: HyperFSAD, tree: Path, tmp_path: Path) -> None:
    good = tmp_path / "good"
    shutil.copytree(tree / "test" / "good", good)
    whole = (good / "000.png").read_bytes()
    (good / "000.png").write_bytes(whole[: len(whole) // 2])
    found = evaluate(judge, good=good, bad=tree / "test" / "spot")
    (failed,) = found.failed
    assert failed.image == str(good / "000.png")
    assert found.confusion.alarms.total == GOODS - 1
    assert "1 image could not be read and had to be left out." in evaluation_text(found)
    save_evaluation(found, tmp_path / "out")
    assert "000.png is damaged" in (tmp_path / "out" / "evaluation.html").read_text()


@pytest.mark.parametrize(("kind", "other"), [("good", "defects"), ("spot", "good parts")])
def test_one_kind_of_part_says_what_it_can(
    judge: HyperFSAD, tree: Path, tmp_path: Path, kind: str, other: str
) -> None:
    places = {"good" if kind == "good" else "bad": tree / "test" / kind}
    found = evaluate(judge, **places)  # type: ignore[arg-type]
    assert found.auroc == {"score": None}
    assert found.confusion.balanced_accuracy is None
    assert f"There are no {other} here" in evaluation_text(found)
    save_evaluation(found, tmp_path)
    page = (tmp_path / "evaluation.html").read_text()
    assert "(ROC)" not in page
    assert 'class="histogram"' in page


def test_without_a_threshold_there_is_the_roc_and_a_way_to_get_one(
    judge: HyperFSAD, tree: Path, tmp_path: Path
) -> None:
    judge.threshold_ = judge.map_threshold_ = judge.calibration_ = None
    found = evaluate(judge, tree, file="my part.hfsad")
    assert not found.has_verdicts
    assert found.points == []
    assert list(found.auroc) == ["score"]
    text = evaluation_text(found)
    assert "no threshold, so there are no verdicts; run hyperfsad calibrate my part" in text
    assert "called good" not in text
    save_evaluation(found, tmp_path)
    page = (tmp_path / "evaluation.html").read_text()
    assert "(ROC)" in page
    assert "current threshold" not in page
    assert json.loads((tmp_path / "evaluation.json").read_text())["found"] is None


def test_with_a_threshold_of_the_score_alone_the_level_ranks_as_the_score(
    judge: HyperFSAD, tree: Path
) -> None:
    judge.map_threshold_ = None
    assert list(evaluate(judge, tree).auroc) == ["score"]


def test_a_threshold_of_zero_is_refused(judge: HyperFSAD, tree: Path) -> None:
    judge.threshold_ = 0.0
    with raises(UsageError, "threshold-not-positive", given=0.0):
        evaluate(judge, tree)


@pytest.fixture
def products(tiny: str, tmp_path: Path) -> ProductDetector:
    learnt = {
        name: [product_picture(kind, seed) for seed in range(2)]
        for kind, name in enumerate(("<b>nut", "bolt"))
    }
    return ProductDetector(tiny, recipe="paper-offline", resolution=84, device="cpu").fit(learnt)


def test_parts_of_which_all_is_known(judge: HyperFSAD, tree: Path) -> None:
    paths = sorted(map(str, (tree / "test").rglob("*.png")))
    truth = TestSet(tuple(TestImage(path, "good" not in path, "dent", None) for path in paths))
    found = evaluate(judge, test_set=truth)
    assert set(found.kinds) == {"dent"}
    assert found.auroc == evaluate(judge, tree).auroc
    for place, good, test_set in ((tree, (), truth), (None, (), None), (tree, tree, None)):
        with raises(UsageError, "test-set-choice"):
            evaluate(judge, place, good=good, test_set=test_set)


def test_parts_go_by_the_names_that_they_were_given(
    judge: HyperFSAD, tree: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    paths = [str(next((tree / "test" / "good").glob("*.png"))), str(broken)]
    images = [TestImage(path, n > 0, "x", None, f"part {n}") for n, path in enumerate(paths)]
    found = evaluate(judge, test_set=TestSet(tuple(images)))
    assert [image.image for image in found.images] == ["part 0", "part 1"]
    assert "part 1" in (found.failed[0].error or "")
    assert str(tmp_path) not in json.dumps(found.to_dict())


def test_several_products(products: ProductDetector, tmp_path: Path) -> None:
    for kind in range(2):
        for name, part in (("good", product_picture(kind, 7)), ("bad", product_picture(kind, 8))):
            if name == "bad":
                part.paste((255, 255, 0), (20, 20, 60, 60))
            (tmp_path / name).mkdir(exist_ok=True)
            part.save(tmp_path / name / f"{kind}.png")
    found = evaluate(products, good=tmp_path / "good", bad=tmp_path / "bad")
    assert set(found.products) == {"<b>nut", "bolt"}
    totals = [own.alarms.total + own.found.total for own in found.products.values()]
    assert sum(totals) == 4
    assert found.threshold is None
    assert "--threshold" not in json.dumps(found.to_dict())
    save_evaluation(found, tmp_path / "out")
    page = (tmp_path / "out" / "evaluation.html").read_text()
    assert "hyperfsad calibrate" not in page
    assert "&lt;b&gt;nut" in page
    assert "× " in page


def test_files_hold_what_was_found(judge: HyperFSAD, tree: Path, tmp_path: Path) -> None:
    between(judge, tree)
    found = evaluate(judge, tree)
    for name in ("a", "b"):
        save_evaluation(found, tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["evaluation.html", "evaluation.json", "images.csv"]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    stored = json.loads((tmp_path / "a" / "evaluation.json").read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps(found.to_dict()))
    assert stored["format"] == 1
    assert stored["found"]["total"] == BADS
    with (tmp_path / "a" / "images.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        *("image", "truth", "kind", "verdict", "score", "level", "error", "product", "foreign")
    ]
    for row, image in zip(rows, found.images, strict=True):
        assert row["image"] == image.image
        assert float(row["score"]) == image.score
        assert row["truth"] == ("bad" if image.bad else "good")
        assert row["verdict"] == ("anomalous" if image.anomalous else "good")


def test_only_the_worst_errors_keep_a_picture(
    judge: HyperFSAD, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperfsad.quality.evaluate.MAX_ERROR_PICTURES", 2)
    assert judge.threshold_ is not None
    assert judge.map_threshold_ is not None
    for factor, shown in ((100.0, "missed"), (0.01, "false_alarms")):
        before = judge.threshold_, judge.map_threshold_
        judge.threshold_, judge.map_threshold_ = before[0] * factor, before[1] * factor
        found = evaluate(judge, tree)
        judge.threshold_, judge.map_threshold_ = before
        wrong = [i for i in found.images if i.wrong]
        assert len(wrong) == BADS
        wrong.sort(key=lambda image: image.level or 0.0, reverse=shown == "false_alarms")
        shots = getattr(found, shown)
        assert [shot.image for shot in shots] == [image.image for image in wrong[:2]]
        assert all(shot.jpeg and shot.overlay for shot in shots)
