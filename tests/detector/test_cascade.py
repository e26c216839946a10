"""A fast detector before the full one: who judges, in which units, and what the file holds."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from hyperfsad import CascadeDetector, DetectorFileError, HyperFSAD, UsageError, load_detector
from hyperfsad.detector.cascade import PrescreenLimits
from hyperfsad.detector.file import open_file
from hyperfsad.export.writing import require_exportable
from tests.codes import raises
from tests.detector.mutations import save_sealed

SETTINGS: dict[str, Any] = {"recipe": "paper-offline", "resolution": 112, "device": "cpu"}
NOBODY, EVERYBODY = PrescreenLimits(0.0, 1e6), PrescreenLimits(1.0, 1.0)
"""Nobody is clear enough for the fast detector; and everybody is, but for a level of just 1."""


def picture(seed: int, spot: bool = False) -> Image.Image:
    """The same part each time, a little different; perhaps with a defect."""
    blobs = np.random.default_rng(7).integers(40, 200, (6, 6, 3)).astype(float)
    blobs += np.random.default_rng(seed).normal(0, 4, blobs.shape)
    image = Image.fromarray(np.clip(blobs, 0, 255).astype(np.uint8))
    image = image.resize((112, 112), Image.Resampling.BICUBIC)
    if spot:
        image.paste((255, 0, 255), (30, 40, 75, 80))
    return image


@pytest.fixture(scope="module")
def fresh(tiny: str) -> Callable[..., CascadeDetector]:
    """Makes unfitted detectors on the small model."""
    pytest.importorskip("nncf")

    def make(**more: Any) -> CascadeDetector:
        return CascadeDetector(tiny, **SETTINGS | more)

    return make


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of good parts."""
    folder = tmp_path_factory.mktemp("good")
    for seed in range(3):
        picture(seed).save(folder / f"{seed}.png")
    return folder


@pytest.fixture(scope="module")
def learnt(fresh: Callable[..., CascadeDetector], parts: Path) -> CascadeDetector:
    return fresh().fit(parts)


@pytest.fixture
def fitted(learnt: CascadeDetector) -> CascadeDetector:
    """One that a test may change."""
    return deepcopy(learnt)


def with_limits(detector: CascadeDetector, limits: PrescreenLimits) -> CascadeDetector:
    detector.limits_ = limits
    return detector


def test_the_fast_detector_knows_the_same_parts_in_8_bits(fitted: CascadeDetector) -> None:
    full, fast = fitted.full_, fitted.fast_
    assert fast.encoder_.engine == "openvino-int8"
    assert full.encoding_ == fast.encoding_
    assert [image.sha256 for image in full.support_] == [image.sha256 for image in fast.support_]
    assert fitted.limits_.low <= 1 <= fitted.limits_.high
    assert "int8 pre-screening" in fitted.described[-1]


def test_between_the_limits_the_full_detector_judges(fitted: CascadeDetector) -> None:
    image = picture(9, spot=True)
    found = with_limits(fitted, NOBODY).predict(image)
    alone = fitted.full_.predict(image)
    assert found.judged_by == "full"
    assert found == replace(alone, judged_by="full", anomaly_map=found.anomaly_map)
    np.testing.assert_array_equal(found.anomaly_map, alone.anomaly_map)


@pytest.mark.parametrize("spot", [False, True])
def test_beyond_them_the_fast_one_does_in_the_units_of_the_full(
    fitted: CascadeDetector, spot: bool
) -> None:
    image = picture(9, spot)
    found = with_limits(fitted, EVERYBODY).predict(image)
    own = fitted.fast_.predict(image)
    assert found.judged_by == "fast"
    assert (found.threshold, found.map_threshold) == (fitted.threshold_, fitted.map_threshold_)
    assert found.level == pytest.approx(own.level)
    assert found.anomalous == own.anomalous
    assert found.foreign == own.foreign
    assert found.anomaly_map.shape == own.anomaly_map.shape
    assert own.threshold is not None
    assert fitted.threshold_ is not None
    assert found.score / fitted.threshold_ == pytest.approx(own.score / own.threshold)
    assert len(found.regions) == len(own.regions)


def test_each_image_of_several_is_judged_by_who_should(fitted: CascadeDetector) -> None:
    images = [picture(5), picture(6, spot=True), picture(7)]
    levels = [result.level for result in fitted.fast_.predict_many(images)]
    assert all(level is not None for level in levels)
    *_, second, first = sorted(filter(None, levels))
    fitted.limits_ = PrescreenLimits(0.0, (first + second) / 2)
    assert [result.judged_by for result in fitted.predict_many(images)] == ["full", "fast", "full"]


def test_one_unreadable_image_is_its_own_error(fitted: CascadeDetector, tmp_path: Path) -> None:
    (tmp_path / "torn.png").write_bytes(b"no picture")
    picture(5).save(tmp_path / "fine.png")
    first, second = fitted.predict_many([str(tmp_path / "torn.png"), str(tmp_path / "fine.png")])
    assert first.error is not None
    assert first.judged_by is None
    assert second.error is None
    assert second.judged_by in ("fast", "full")


def test_without_thresholds_the_full_detector_judges(
    fresh: Callable[..., CascadeDetector], parts: Path
) -> None:
    detector = with_limits(fresh().fit(parts, threshold=False), EVERYBODY)
    assert detector.predict(picture(9)).judged_by == "full"
    detector.calibrate([picture(seed) for seed in range(20, 24)])
    detector.limits_ = EVERYBODY
    assert detector.predict(picture(9)).judged_by == "fast"
    assert detector.calibration_ is not None
    assert detector.calibration_.method == "few"


def test_thresholds_move_together(fitted: CascadeDetector) -> None:
    assert fitted.threshold_ is not None
    assert fitted.fast_.threshold_ is not None
    before, fast = fitted.threshold_, fitted.fast_.threshold_
    fitted.move_threshold(2 * before)
    assert fitted.threshold_ == pytest.approx(2 * before)
    assert fitted.fast_.threshold_ == pytest.approx(2 * fast)


def test_both_learn_what_is_added(fitted: CascadeDetector) -> None:
    fitted.extend([picture(30)])
    assert len(fitted.full_.support_) == len(fitted.fast_.support_) == 4


def test_in_8_bits_the_full_detector_decides_for_both(tiny: str) -> None:
    """Orientations and thresholds are its choice, at first and when parts are added."""
    pytest.importorskip("nncf")

    def agree() -> None:
        full, fast = detector.full_, detector.fast_
        assert (fast.rotations_, fast.tentative_) == (full.rotations_, full.tentative_)
        assert len(fast.memory_) == len(full.memory_)
        assert (fast.threshold_, fast.map_threshold_) == (full.threshold_, full.map_threshold_)
        assert fast.calibration_ == full.calibration_

    detector = CascadeDetector(tiny, **SETTINGS, rotations="auto").fit([picture(0)])
    assert (detector.full_.rotations_, detector.full_.tentative_) == (8, True)
    agree()
    detector.extend([picture(1), picture(2)])  # they lie alike, which three parts can tell
    assert (detector.full_.rotations_, detector.full_.tentative_) == (1, False)
    agree()
    before = detector.threshold_
    detector.calibrate([picture(seed) for seed in range(20, 24)])
    assert detector.threshold_ != before
    agree()


def test_the_engine_of_a_file_is_that_of_its_full_detector(
    fitted: CascadeDetector, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="loads another engine: hyperfsad[torch]")
    fitted.save(tmp_path / "part.hfsad")
    loaded = CascadeDetector.load(tmp_path / "part.hfsad", engine="torch")
    assert loaded.full_.encoder_.engine == "torch"
    assert loaded.fast_.encoder_.engine == "openvino-int8"


def test_a_fast_result_is_explained_by_the_fast_detector(fitted: CascadeDetector) -> None:
    found = with_limits(fitted, EVERYBODY).predict(picture(9, spot=True))
    evidence = found.evidence()
    assert evidence.shown == pytest.approx(float(found.anomaly_map.max()), abs=1e-4)
    assert evidence.layers[0].layer == fitted.full_.encoding_.layers[0]


def test_a_file_holds_both(fitted: CascadeDetector, tmp_path: Path) -> None:
    path, again = tmp_path / "part.hfsad", tmp_path / "again.hfsad"
    fitted.save(path)
    loaded = load_detector(path, device="cpu")
    assert isinstance(loaded, CascadeDetector)
    assert loaded.limits_ == fitted.limits_
    assert loaded.identity() == fitted.identity()
    images = [picture(5), picture(6, spot=True)]
    for one, other in zip(fitted.predict_many(images), loaded.predict_many(images), strict=True):
        assert (one.score, one.judged_by, one.regions) == (
            other.score,
            other.judged_by,
            other.regions,
        )
    loaded.save(again)
    assert path.read_bytes() == again.read_bytes()
    single = HyperFSAD.load(path, device="cpu")
    assert single.identity() == fitted.full_.identity()


def test_a_copy_judges_as_the_original(fitted: CascadeDetector) -> None:
    copied = deepcopy(with_limits(fitted, EVERYBODY))
    image = picture(6, spot=True)
    found = copied.predict(image)
    assert (found.score, found.judged_by) == (fitted.predict(image).score, "fast")
    assert found.evidence().shown == pytest.approx(float(found.anomaly_map.max()), abs=1e-4)


def test_the_limits_belong_to_the_identity(fitted: CascadeDetector) -> None:
    before = fitted.identity()
    fitted.limits_ = PrescreenLimits(0.11, 9.0)
    assert fitted.identity() != before


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda header, _: header["fast"].update(limits=[1.5, 0.5]), "file-field-invalid"),
        (lambda header, _: header["fast"].pop("limits"), "file-field-invalid"),
        (lambda header, _: header["fast"]["normal_images"].reverse(), "file-damaged"),
        (lambda _, tensors: tensors.pop("fast.cls"), "file-damaged"),
        (lambda _, tensors: tensors.update({"fast.cls": -tensors["fast.cls"]}), "file-damaged"),
    ],
)
def test_nothing_in_a_file_is_believed(
    fitted: CascadeDetector, tmp_path: Path, change: Callable[..., None], code: str
) -> None:
    path = tmp_path / "part.hfsad"
    fitted.save(path)
    header, tensors = open_file(path).header, load_file(path)
    change(header, tensors)
    save_sealed(tensors, path, json.dumps(header))
    with raises(DetectorFileError, code):
        load_detector(path, device="cpu")


def test_a_plain_file_holds_no_cascade(fitted: CascadeDetector, tmp_path: Path) -> None:
    fitted.full_.save(tmp_path / "part.hfsad")
    assert isinstance(load_detector(tmp_path / "part.hfsad", device="cpu"), HyperFSAD)
    with raises(DetectorFileError, "file-not-cascade"):
        CascadeDetector.load(tmp_path / "part.hfsad")


def test_what_does_not_go_together_is_refused(tiny: str) -> None:
    with raises(UsageError, "cascade-with-tiles"):
        CascadeDetector(tiny, **SETTINGS, tiles=56)


def test_without_nncf_it_is_refused_before_anything_is_learnt(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with raises(UsageError, "nncf-missing"):
        CascadeDetector(tiny, **SETTINGS)


def test_a_graph_holds_one_detector(fitted: CascadeDetector) -> None:
    with raises(UsageError, "export-with-fast"):
        require_exportable(fitted)
