"""Wrong arguments are refused where they are given, with what was expected and what came."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad import AnomalyResult, HyperFSAD
from hyperfsad.errors import HyperfsadError, ImageError, UsageError
from tests.codes import raises
from tests.conftest import make_picture

NAN = float("nan")


def test_messages_go_to_a_function(tiny: str) -> None:
    with raises(UsageError, "notify-not-callable"):
        HyperFSAD(tiny, notify=3)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers(tiny: str) -> None:
    detector = HyperFSAD(
        tiny,
        recipe="paper-offline",
        layers=np.array([2, 4]),
        resolution=np.int64(84),
        lam=np.float32(0.5),
        device="cpu",
    )
    assert detector.encoding_.layers == (2, 4)
    assert type(detector.encoding_.resolution) is int
    assert detector.settings.lam == 0.5


@pytest.fixture(scope="module")
def once(tiny: str) -> HyperFSAD:
    made = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    return made.fit([make_picture(0), make_picture(1)])


@pytest.fixture
def fitted(once: HyperFSAD) -> HyperFSAD:
    return copy.copy(once)


@pytest.mark.parametrize(
    "images", [None, 3, b"a.png", {"a.png": 1}, True, [None], [b"a.png"], ["a.png", [3]]]
)
def test_what_is_no_image_is_refused_at_once(fitted: HyperFSAD, images: Any) -> None:
    for ask in (fitted.predict, fitted.fit, fitted.extend):
        with raises(UsageError, "images-type"):
            ask(images)


def test_a_generator_is_checked_as_it_comes(fitted: HyperFSAD) -> None:
    results = fitted.predict(item for item in [make_picture(2), None])
    assert isinstance(next(results), AnomalyResult)
    with raises(UsageError, "images-type", given="None"):
        next(results)


def test_paths_that_are_none_are_named(fitted: HyperFSAD, tmp_path: Path) -> None:
    for path in ("", "a\0b"):
        with raises(ImageError, "image-path", name=path):
            fitted.predict(path)
        (failed,) = fitted.predict([path])
        assert failed.error is not None
    with raises(HyperfsadError, "write-folder-missing", folder=tmp_path / "new"):
        fitted.save(tmp_path / "new" / "part.hfsad")


@pytest.mark.parametrize("rate", [1e-17, 5e-324, 0, 1, NAN, "x", None])
def test_rates_that_are_none_are_refused(fitted: HyperFSAD, rate: Any) -> None:
    pictures = [make_picture(2)]
    for ask in (fitted.fit, fitted.calibrate):
        with raises(UsageError, "rate-range"):
            ask(pictures, false_alarm_rate=rate)


def test_the_least_rate_works(fitted: HyperFSAD) -> None:
    threshold = fitted.calibrate(false_alarm_rate=1e-6).threshold_
    assert threshold is not None
    assert 0 < threshold < float("inf")
