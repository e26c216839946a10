"""What a person wants next is a method of what they hold."""

import dataclasses
import gc
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from hyperfsad import AnomalyResult, HyperFSAD, UsageError
from hyperfsad.decisions.regions import Peak, Region
from hyperfsad.decisions.routing import Route
from hyperfsad.method.scoring import BranchScores, branch_weights
from tests.codes import raises
from tests.conftest import make_picture

SQUARE = ((20.0, 20.0), (70.0, 20.0), (70.0, 60.0), (20.0, 60.0))
REGION = Region((20, 20, 50, 40), 2000.0, 0.5, Peak(2.5, 3.5, 0.5), SQUARE)


def result(level: float = 0.2, **changes: object) -> AnomalyResult:
    made = AnomalyResult(
        "a.png",
        BranchScores({"map": 0.5, "cls": 0.1}, branch_weights(0.5)),
        np.full((4, 4), level, np.float32),
        (96, 80),
        (0.2, 0.5),
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_what_is_not_finite_is_never_good() -> None:
    nothing = BranchScores({"map": float("nan"), "cls": 0.1}, branch_weights(0.5))
    for made in (
        result(threshold=float("nan")),
        result(threshold=float("inf")),
        result(threshold=0.3, branches=nothing),
    ):
        assert made.anomalous is None
        assert made.level is None
        assert "good" not in made.verdict


def test_the_level_agrees_with_the_verdict() -> None:
    assert result().level is None
    failed = AnomalyResult.failed("a.png", "No.")
    assert failed.anomalous is failed.level is None
    assert result(threshold=0.6).level == pytest.approx(0.5)
    both = {"threshold": 0.6, "map_threshold": 0.1}
    by_map = result(level=0.5, regions=(REGION,), **both)
    assert by_map.level == pytest.approx(5)
    assert by_map.anomalous
    too_small = result(**both)  # the only region has less than the area that was asked for
    assert too_small.level == pytest.approx(1)
    assert too_small.anomalous is False
    smaller_beside = result(level=0.7, regions=(REGION,), **both)  # its peak is too small as well
    assert smaller_beside.level == pytest.approx(5)
    assert result(threshold=0.2, map_threshold=0.4).level == pytest.approx(1.5)  # the score's


@given(st.floats(1e-6, 10), st.floats(1e-6, 10))
@example(0.3, math.nextafter(0.3, 1))
@example(math.nextafter(0.3, 1), 0.3)
def test_the_verdict_is_that_of_the_bare_comparison(score: float, threshold: float) -> None:
    assert result(branches=BranchScores.of_map(score), threshold=threshold).anomalous == (
        score > threshold
    )


def test_a_limit_of_0_is_exceeded_infinitely_and_records_stay_json() -> None:
    beyond = result(threshold=0.0)
    assert (beyond.level, beyond.anomalous) == (math.inf, True)
    assert json.loads(beyond.to_json())["level"] is None
    assert result(threshold=0.0, branches=BranchScores.of_map(0.0)).level == 0
    assert result(threshold=0.6, map_threshold=0.0).level == pytest.approx(0.5)


def test_an_anomalous_image_without_a_region_is_marked_at_its_peak() -> None:
    values = np.full((4, 4), 0.1, np.float32)
    values[1, 2] = 0.2
    by_score = result(threshold=0.2, map_threshold=0.4, anomaly_map=values)
    assert by_score.mark == (60.0, 30.0)
    assert [by_score.to_dict()[f"map_peak{at}"] for at in ("", "_x", "_y")] == [
        *(pytest.approx(0.2), 60.0, 30.0)
    ]
    plain = dataclasses.replace(by_score, threshold=0.6)
    assert plain.mark is None  # good
    assert dataclasses.replace(by_score, threshold=None).mark is None
    assert dataclasses.replace(by_score, regions=(REGION,)).mark is None
    before = np.asarray(plain.heat_map().draw(Image.new("RGB", (96, 80)))).astype(int)
    after = np.asarray(by_score.heat_map().draw(Image.new("RGB", (96, 80)))).astype(int)
    rows, columns = np.nonzero(np.abs(after - before).sum(axis=2)[:80])
    left = (before.shape[1] - 96) // 2
    assert (columns.min() - left, columns.max() - left) == pytest.approx((53, 67), abs=2)
    assert (rows.min(), rows.max()) == pytest.approx((23, 37), abs=2)


@pytest.mark.parametrize(
    ("threshold", "anomalous", "words"),
    [
        (None, None, "score 0.300"),
        (0.2, True, "anomalous: 150 % of the limit"),
        (0.299, True, "anomalous: 100.3 % of the limit"),
        (0.3, False, "good: 100 % of the limit"),
        (0.30001, False, "good: 99.997 % of the limit"),
        (0.34, False, "good: 88 % of the limit"),
        (0.0, True, "anomalous: ∞ % of the limit"),
    ],
)
def test_the_verdict_says_how_far_the_image_reaches(
    threshold: float | None, anomalous: bool | None, words: str
) -> None:
    found = result(threshold=threshold)
    assert (found.anomalous, found.verdict) == (anomalous, words)


def test_the_reading_says_what_score_and_map_reach() -> None:
    by_map = result(threshold=0.6, map_threshold=0.4, regions=(REGION,))
    assert result(threshold=0.2, threshold_from="set by hand").reading == (
        "anomalous: 150 % of the limit (score 150 %; set by hand)"
    )
    assert result(threshold=0.6).reading == "good: 50 % of the limit (score 50 %)"
    assert by_map.reading == "anomalous: 125 % of the limit (score 50 %, map 125 %)"
    assert result().reading == "score 0.300"


def test_a_result_shows_itself_in_one_short_line() -> None:
    found = result(threshold=0.29, map_threshold=0.4, regions=(REGION,))
    assert repr(found) == "AnomalyResult('a.png', anomalous: 125 % of the limit, 1 region)"
    assert repr(result()) == "AnomalyResult('a.png', score 0.300)"  # no regions were sought
    stranger = dataclasses.replace(found, route=Route("bolt", 0.5, 0.9, None, None))
    assert repr(stranger).endswith(", 1 region, fits no product)")
    failed = AnomalyResult.failed("a.png", "a.png is empty.")
    assert repr(failed) == "AnomalyResult('a.png', failed: a.png is empty.)"
    assert "70.0" not in repr(REGION)


def test_json_has_the_fields_of_the_contract() -> None:
    fields = json.loads(result().to_json())
    assert list(fields) == [
        *("image", "score", "score_map", "score_cls", "score_missing", "threshold"),
        *("anomalous", "size"),
        *("map_threshold", "threshold_from", "p_value", "regions"),
        *("product", "unknown_product", "nearest_product"),
        *("product_similarity", "product_margin", "foreign"),
        *("level", "map_peak", "map_peak_x", "map_peak_y", "error"),
    ]
    assert fields["regions"] == []
    failed = json.loads(AnomalyResult.failed("ä.png", "No.").to_json())
    assert failed["score"] is None
    assert failed["error"] == "No."


def test_missing_pieces_have_a_score_where_they_are_sought() -> None:
    plain = result()
    assert plain.score_missing is None
    assert plain.to_dict()["score_missing"] is None
    looked = dataclasses.replace(
        plain,
        branches=BranchScores(
            {"map": 0.4, "cls": 0.1, "missing": 2.0}, {"map": 1.0, "cls": 0.0, "missing": 0.1}
        ),
    )
    assert looked.score == pytest.approx(0.6)
    assert looked.score_missing == looked.to_dict()["score_missing"] == 2.0


def test_a_region_comes_with_its_place() -> None:
    (shown,) = json.loads(result(regions=(REGION,), map_threshold=0.4).to_json())["regions"]
    assert shown == {
        "bbox": [20, 20, 50, 40],
        "area": 2000.0,
        "score": 0.5,
        "peak": {"x": 2.5, "y": 3.5, "value": 0.5},
        "polygon": [list(point) for point in SQUARE],
        "kind": "unexpected",
    }


def test_a_result_can_be_pickled(detector: HyperFSAD) -> None:
    made = detector.fit(make_picture(0)).predict(make_picture(1))
    again = pickle.loads(pickle.dumps(made))
    assert again.to_dict() == made.to_dict()
    assert again.detector is None


def test_a_result_keeps_no_detector_alive(tiny: str) -> None:
    detector = HyperFSAD(tiny, device="cpu").fit(make_picture(0))
    made = detector.predict(make_picture(1))
    link = made.detector
    assert link is not None
    assert link() is detector
    del detector
    gc.collect()
    assert link() is None


def body(picture: Image.Image) -> np.ndarray:
    """The picture without its legend."""
    return np.asarray(picture.crop((192, 0, 288, 80))).astype(int)


def test_a_good_part_looks_calm_and_a_defect_glows() -> None:
    image = make_picture(1)
    original = np.asarray(image).astype(int)
    assert (body(result(0.19).heat_map().draw(image)) == original).all()
    glowing = result(0.1)
    glowing.anomaly_map[1, 2] = 0.6
    change = np.abs(body(glowing.heat_map().draw(image)) - original).sum(axis=2)
    assert change[25:35, 55:65].mean() > 50
    assert change[60:, :40].max() == 0


def test_the_scale_does_not_stretch_with_the_image() -> None:
    """A patch of the same value gets the same colour, whatever else is in its map."""
    image = Image.new("RGB", (96, 80), "gray")
    alone, beside = result(0.3), result(0.3)
    beside.anomaly_map[3, 3] = 5.0
    first, second = body(alone.heat_map().draw(image)), body(beside.heat_map().draw(image))
    assert (first[:35, :40] == second[:35, :40]).all()


def test_pictures_keep_the_size_of_the_image_and_add_a_legend() -> None:
    for size in ((800, 500), (96, 80), (8, 8)):
        picture = result().heat_map().draw(Image.new("RGB", size))
        assert picture.width == max(size[0], 480)
        assert picture.height > size[1] + 20
        legend = np.asarray(picture.crop((0, size[1], picture.width, picture.height)))
        assert legend.min() < 100  # something is written on the paper


@pytest.mark.parametrize("width", [96, 480, 1200])
def test_words_stay_in_the_picture_and_clear_of_the_colour_bar(width: int) -> None:
    stranger = Route("bolt", 0.5, 0.9, None, None)
    barely = BranchScores({"map": 0.5000002, "cls": 0.1}, branch_weights(0.5))
    longest = result(branches=barely, threshold=0.3, route=stranger)

    def inked(found: AnomalyResult) -> tuple[np.ndarray, np.ndarray]:
        """Where there is ink from left to right: in the line of the verdict, and in the bar's."""
        picture = found.heat_map().draw(Image.new("RGB", (width, 80)))
        legend = np.asarray(picture.crop((0, 80, picture.width, picture.height)).convert("L")) < 200
        upper, lower = np.vsplit(legend, 2)
        return np.flatnonzero(upper.any(axis=0)), np.flatnonzero(lower.any(axis=0))

    verdict, words = inked(longest)
    assert 200 < verdict.max() < max(width, 480) - 4
    _, brief = inked(result())
    widest = int(np.diff(brief).argmax())  # the paper between the words and what the bar says
    end = words[words < brief[widest + 1]].max()
    assert brief[widest] < end < brief[widest + 1] - 4


def test_plot_and_save_from_paths_and_from_objects(
    detector: HyperFSAD, photos: Path, tmp_path: Path
) -> None:
    detector.fit(photos / "0.png")
    for source in (photos / "1.png", make_picture(1), np.asarray(make_picture(1))):
        held = detector.predict(source)
        assert held.plot().size[0] == 480
        held.save(tmp_path / "picture.png")
        held.save(tmp_path / "picture.jpg")
        assert Image.open(tmp_path / "picture.png").size == held.plot().size
    with raises(UsageError, "picture-suffix"):
        held.save(tmp_path / "picture.xyz")
    with raises(UsageError, "result-without-picture"):
        AnomalyResult.failed("a.png", "No.").plot()
    with raises(UsageError, "result-without-source"):
        dataclasses.replace(held, source=None, picture=None).loaded()


def test_regions_are_outlined() -> None:
    image = Image.new("RGB", (96, 80), "gray")
    found = result(0.1, regions=(REGION,))
    change = np.abs(body(found.heat_map().draw(image)) - 128).sum(axis=2)
    assert (change[20, 22:68] > 100).all()
    assert (change[22:58, 70] > 100).all()
    assert change[30:50, 30:60].max() == 0  # only the outline
    assert np.asarray(image).min() == np.asarray(image).max() == 128  # the image itself stays
