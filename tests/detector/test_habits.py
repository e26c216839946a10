"""scikit-learn's own functions take a detector for one of theirs."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import ParameterGrid

from hyperfsad import HyperFSAD, ImageError, ProductDetector, UsageError
from hyperfsad.detector.settings import SETTINGS
from tests.codes import raises
from tests.conftest import make_picture


@pytest.fixture
def fitted(detector: HyperFSAD) -> HyperFSAD:
    return detector.fit([make_picture(0), make_picture(1)])


def test_a_clone_has_the_same_choices_and_has_learnt_nothing(fitted: HyperFSAD, tiny: str) -> None:
    again = clone(fitted)
    assert isinstance(again, HyperFSAD)
    assert again.settings == fitted.settings
    assert again.get_params() == fitted.get_params()
    with raises(UsageError, "detector-not-fitted"):
        again.predict(make_picture(2))
    several = clone(ProductDetector(tiny, layers=[2, 4], lam=0.25))
    assert isinstance(several, ProductDetector)
    assert (several.settings.layers, several.settings.lam) == ((2, 4), 0.25)


def test_params_are_as_they_were_given(tiny: str) -> None:
    layers = [2, 4]
    params = HyperFSAD(tiny, layers=layers, lam=0.5).get_params()
    assert params["layers"] is layers
    assert params["lookup"] is None
    assert set(params) == set(SETTINGS) == set(inspect.signature(HyperFSAD).parameters)


def test_changed_params_are_those_of_a_new_detector(fitted: HyperFSAD) -> None:
    assert fitted.set_params(recipe="default") is fitted
    assert fitted.settings.sharpness == 64  # of the recipe, as it was not given
    assert fitted.settings.resolution == 84
    assert fitted.threshold_ is None
    with raises(UsageError, "detector-not-fitted"):
        fitted.predict(make_picture(2))
    with raises(UsageError, "setting-invalid", name="lookup"):
        fitted.set_params(lookup="nearest")
    for choices in ParameterGrid({"lam": [0.0, 1.0], "pooling": ["max", "top-10"]}):
        assert clone(fitted).set_params(**choices).settings.lam == choices["lam"]


def test_higher_samples_are_more_normal(fitted: HyperFSAD, photos: Path) -> None:
    images = [make_picture(seed) for seed in range(4)]
    results = list(fitted.predict_many(images))
    samples, decided = fitted.score_samples(images), fitted.decision_function(images)
    assert samples.tolist() == [-one.score for one in results]
    assert decided.tolist() == [1 - (one.level or 0) for one in results]
    assert (decided < 0).tolist() == [one.anomalous for one in results]
    assert roc_auc_score([1, 1, 0, 0], samples) == 1  # learnt ones are more normal than others
    (photos / "0.png").write_bytes(b"broken")
    for ask in (fitted.score_samples, fitted.decision_function):
        with raises(ImageError, "result-without-score"):
            ask(photos)


def test_without_a_threshold_there_is_no_decision(detector: HyperFSAD) -> None:
    detector.fit(make_picture(0), threshold=False)
    assert np.isfinite(detector.score_samples([make_picture(1)])).all()
    with raises(UsageError, "detector-without-threshold"):
        detector.decision_function([make_picture(1)])
