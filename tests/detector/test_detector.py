"""HyperFSAD as its users meet it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hyperfsad import AnomalyResult, HyperFSAD, ImageError, UsageError
from hyperfsad.encoders.encoder import Encoder
from hyperfsad.images.loading import load_image
from hyperfsad.images.reading import READ_AHEAD
from hyperfsad.method.lookups import reconstruct
from tests.codes import raises
from tests.conftest import make_picture


def test_the_score_is_the_formula_of_the_paper(detector: HyperFSAD) -> None:
    detector.fit([make_picture(1), make_picture(2)])
    result = detector.predict(make_picture(3))

    query = detector.encoder_.encode([load_image(make_picture(3))])
    memory = [detector.encoder_.encode([load_image(make_picture(s))]) for s in (1, 2)]
    distances, globals_ = [], []
    for layer in range(4):
        normal = np.concatenate([tokens.patches[0, layer] for tokens in memory])
        q = query.patches[0, layer]
        rebuilt = reconstruct(q, normal)
        distances.append(1 - (q * rebuilt).sum(axis=1) / np.linalg.norm(rebuilt, axis=1))
        globals_.append(1 - max(float(query.cls[0, layer] @ t.cls[0, layer]) for t in memory))
    expected = np.mean(distances, axis=0)
    assert np.allclose(result.anomaly_map, expected.reshape(6, 6), atol=1e-6)
    assert result.score_map == pytest.approx(float(expected.max()), abs=1e-6)
    assert result.score_cls == pytest.approx(sum(globals_) / 4, abs=1e-6)
    assert result.score == pytest.approx(0.5 * result.score_map + 0.5 * result.score_cls)
    assert result.anomaly_map.dtype == np.float32


def test_a_support_image_against_itself(default_encoder: Encoder) -> None:
    """Its CLS score is 0, its map is not: sparsemax mixes in near neighbours, as it should."""
    detector = HyperFSAD(recipe="paper-offline", device="cpu")
    detector.use_encoder(default_encoder)
    rng = np.random.default_rng(0)
    texture = Image.fromarray(rng.integers(90, 160, (64, 64), dtype=np.uint8)).resize((448, 448))
    result = detector.fit(texture).predict(texture)
    assert result.score_cls == pytest.approx(0, abs=1e-6)
    assert result.anomaly_map.min() >= 0
    assert result.anomaly_map.max() > 0.01


def test_all_sources_give_the_same_score(detector: HyperFSAD, photos: Path) -> None:
    detector.fit(photos)
    path = photos / "0.png"
    image = Image.open(path)
    results = [detector.predict(s) for s in (path, str(path), image, np.asarray(image))]
    assert len({result.score for result in results}) == 1
    assert results[1].image == str(path)
    assert results[0].size == (96, 80)


@pytest.mark.parametrize("kind", ["folder", "glob", "list", "pil", "array", "generator"])
def test_normal_images_come_in_any_form(detector: HyperFSAD, photos: Path, kind: str) -> None:
    paths = sorted(photos.glob("*.png"))
    forms = {
        "folder": str(photos),
        "glob": f"{photos}/*.png",
        "list": [str(path) for path in paths],
        "pil": [Image.open(path) for path in paths],
        "array": [np.asarray(Image.open(path)) for path in paths],
        "generator": (path for path in paths),
    }
    detector.fit(forms[kind])  # type: ignore[arg-type]
    assert len(detector.memory_) == 5
    reference = HyperFSAD(
        detector.settings.backbone, recipe="paper-offline", resolution=84, device="cpu"
    ).fit(photos)
    assert all(map(np.array_equal, detector.memory_.patches, reference.memory_.patches))


def test_prediction_is_lazy(detector: HyperFSAD, photos: Path) -> None:
    detector.fit(photos / "0.png")
    asked = []

    def endless() -> Iterator[Path]:
        while True:
            asked.append(1)
            yield photos / "1.png"

    results = detector.predict_many(endless())
    assert asked == []
    assert next(results).score > 0
    assert len(asked) <= 1 + READ_AHEAD


def test_batches_keep_the_order_and_the_scores(tiny: str, photos: Path) -> None:
    one = HyperFSAD(tiny, resolution=84, device="cpu").fit(photos / "0.png")
    many = HyperFSAD(tiny, resolution=84, device="cpu", batch_size=3).fit(photos / "0.png")
    first, second = list(one.predict_many(photos)), list(many.predict_many(photos))
    assert [result.image for result in first] == [result.image for result in second]
    assert np.allclose([r.score for r in first], [r.score for r in second], atol=1e-5)


def test_a_bad_image_among_many_does_not_stop_them(detector: HyperFSAD, photos: Path) -> None:
    (photos / "2.png").write_bytes(b"broken")
    detector.settings = detector.settings.changed(batch_size=2)
    detector.fit(photos / "0.png")
    results = list(detector.predict_many(photos))
    assert [result.error is None for result in results] == [True, True, False, True, True]
    bad = results[2]
    assert bad.image == str(photos / "2.png")
    for ask in ("score", "score_map", "score_cls"):
        with raises(ImageError, "result-without-score"):
            getattr(bad, ask)
    assert bad.to_dict()["score"] is None
    with raises(ImageError, "image-unsupported", name=str(photos / "2.png")):
        detector.predict(photos / "2.png")


def test_extending_equals_fitting_on_all_at_once(tiny: str, photos: Path, tmp_path: Path) -> None:
    paths = sorted(photos.glob("*.png"))
    whole = HyperFSAD(tiny, resolution=84, device="cpu").fit(paths)
    grown = HyperFSAD(tiny, resolution=84, device="cpu").fit(paths[0]).extend(paths[1:3])
    grown.save(tmp_path / "grown.hfsad")
    grown = HyperFSAD.load(tmp_path / "grown.hfsad", device="cpu").extend(paths[3:])
    whole.save(tmp_path / "whole.hfsad")
    grown.save(tmp_path / "grown.hfsad")
    assert (tmp_path / "whole.hfsad").read_bytes() == (tmp_path / "grown.hfsad").read_bytes()


def test_forgetting_is_never_having_learnt(tiny: str, photos: Path) -> None:
    paths = sorted(photos.glob("*.png"))
    settings: dict[str, Any] = {
        "recipe": "paper-offline",
        "resolution": 84,
        "device": "cpu",
        "rotations": 4,
    }
    grown = HyperFSAD(tiny, **settings).fit(paths)
    grown.forget([grown.support_[1].sha256])
    fresh = HyperFSAD(tiny, **settings).fit([paths[0], *paths[2:]])
    assert grown.identity() == fresh.identity()
    assert grown.foreign_ == fresh.foreign_
    with raises(UsageError, "forget-unknown"):
        grown.forget(["0" * 64])
    with raises(UsageError, "forget-all"):
        grown.forget([image.sha256 for image in grown.support_])
    assert len(grown.support_) == 4


def test_forgetting_makes_a_calibration_stale(detector: HyperFSAD, photos: Path) -> None:
    paths = sorted(photos.glob("*.png"))
    detector.fit(paths[:2]).calibrate(paths[2:])
    threshold = detector.threshold_
    detector.forget([detector.support_[0].sha256])
    assert detector.calibration_ is not None
    assert detector.calibration_.stale
    assert detector.threshold_ == threshold


def test_pictures_that_were_loaded_elsewhere(detector: HyperFSAD, photos: Path) -> None:
    paths = sorted(photos.glob("*.png"))
    loaded = [load_image(path, path.name) for path in paths]
    detector.fit(loaded[:2])
    assert [image.name for image in detector.support_] == ["0.png", "1.png"]
    assert detector.predict_many(loaded[3:])
    for given, path in zip(
        detector.predict_many(loaded), detector.predict_many(paths), strict=True
    ):
        assert given.score == path.score
        assert given.image == Path(path.image).name


def test_copies_are_left_out_with_a_warning(detector: HyperFSAD, photos: Path) -> None:
    Image.open(photos / "1.png").save(photos / "copy.bmp")
    with pytest.warns(UserWarning, match=r"copy\.bmp shows the same picture as .*1\.png"):
        detector.fit(photos)
    assert len(detector.memory_) == 5
    with pytest.warns(UserWarning, match="was learnt already"):
        detector.extend(photos / "1.png")
    assert len(detector.memory_) == 5


def test_unreadable_normal_images_are_left_out_with_a_warning(
    detector: HyperFSAD, photos: Path
) -> None:
    (photos / "9.png").touch()
    with pytest.warns(UserWarning, match=r"9\.png is empty .*left out"):
        detector.fit(photos)
    assert len(detector.memory_) == 5
    assert len(detector.skipped_) == 1


def test_nothing_to_learn_from(detector: HyperFSAD, tmp_path: Path) -> None:
    with raises(UsageError, "no-good-part"):
        detector.fit([])
    (tmp_path / "a.png").touch()
    with (
        pytest.warns(UserWarning, match="left out"),
        raises(UsageError, "no-good-part", unreadable=1),
    ):
        detector.fit(tmp_path / "a.png")
    with raises(UsageError, "detector-not-fitted"):
        detector.predict(make_picture(1))
    with raises(UsageError, "detector-not-fitted"):
        detector.extend(make_picture(1))
    with raises(UsageError, "detector-not-fitted"):
        detector.save(tmp_path / "a.hfsad")
    assert os.listdir(tmp_path) == ["a.png"]


@pytest.mark.parametrize(
    ("options", "code", "facts"),
    [
        ({"layers": (9,)}, "layers-range", {"depth": 4}),
        ({"resolution": 13}, "resolution-multiple", {"patch": 14}),
    ],
)
def test_bad_layers_and_resolutions_are_refused_at_once(
    tiny: str, options: dict[str, Any], code: str, facts: dict[str, int]
) -> None:
    with raises(UsageError, code, **facts):
        HyperFSAD(tiny, **options)


def test_settings_act(tiny: str, photos: Path) -> None:
    def score(**options: object) -> AnomalyResult:
        detector = HyperFSAD(tiny, recipe="paper-offline", device="cpu", **options)  # type: ignore[arg-type]
        result: AnomalyResult = detector.fit(photos / "0.png").predict(photos / "1.png")
        return result

    plain = score()
    assert score(lam=1.0).score == pytest.approx(plain.score_map)
    assert score(lam=0.0).score == pytest.approx(plain.score_cls)
    assert score(pooling="top-100%").score_map == pytest.approx(plain.anomaly_map.mean(), abs=1e-6)
    assert score(layers=(2,)).anomaly_map.shape == (4, 4)
    assert score(resolution=112).anomaly_map.shape == (8, 8)
    maps = [score(lookup=name).anomaly_map for name in ("top-1", "softmax", "entmax-1.5")]
    assert all(np.abs(other - plain.anomaly_map).max() > 1e-4 for other in maps)
