"""Wrong arguments are refused where they are given, with what was expected and what came."""

import copy
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import torch

from hyperfsad import AnomalyResult, HyperFSAD, ProductDetector
from hyperfsad.detector.settings import Settings
from hyperfsad.errors import HyperfsadError, ImageError, UsageError
from hyperfsad.images.loading import ImageSource
from tests.codes import codes, raises
from tests.conftest import make_picture

NAN = float("nan")


def test_messages_go_to_a_function(tiny: str) -> None:
    with raises(UsageError, "notify-not-callable"):
        HyperFSAD.of(Settings(tiny), notify=3)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers(tiny: str) -> None:
    detector = HyperFSAD(
        tiny,
        recipe="paper-offline",
        layers=np.array([2, 4]),  # type: ignore[arg-type]
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


PAIR = (make_picture(1), 0)
NO_IMAGES = [None, 3, {"a.png": 1}, True]


@pytest.mark.parametrize("images", [*NO_IMAGES, [None], ["a.png", 3], [{"a": 1}]])
def test_what_is_no_image_is_refused_at_once(fitted: HyperFSAD, images: Any) -> None:
    for ask in (fitted.predict_many, fitted.fit, fitted.extend, fitted.calibrate):
        if images is None and ask == fitted.calibrate:  # it estimates then
            continue
        with raises(UsageError, "images-type"):
            ask(images)
    if not isinstance(images, list):
        with raises(UsageError, "image-type"):
            fitted.predict(images)


def test_one_image_is_no_folder_no_glob_and_no_list(fitted: HyperFSAD, photos: Path) -> None:
    several: list[Any] = [photos, str(photos), f"{photos}/*.png", [photos / "0.png"], PAIR]
    for images in [*several, iter([photos / "0.png"]), range(3)]:
        with raises(UsageError, "image-several") as caught:
            fitted.predict(images)
        assert "`predict_many`" in str(caught.value)


def test_images_with_labels_are_refused(fitted: HyperFSAD) -> None:
    """As a data set and a data loader of torch yield them."""
    whole = torch.rand(4, 3, 80, 96)
    pairs = torch.utils.data.TensorDataset(whole, torch.arange(4))
    loader = torch.utils.data.DataLoader(pairs, batch_size=2)
    pairs_at_once: list[Any] = [PAIR, list(PAIR), (make_picture(1), make_picture(2))]
    for pair in pairs_at_once:
        with raises(UsageError, "image-with-label", count=2):
            fitted.predict_many([pair])
        with raises(UsageError, "image-with-label", count=2):
            fitted.fit([pair])
    with raises(UsageError, "image-with-label", count=2):
        next(fitted.predict_many(pairs[place] for place in range(4)))
    with raises(UsageError, "image-with-label", count=2):
        next(fitted.predict_many(loader))
    with raises(UsageError, "image-with-label", count=2):
        fitted.fit(loader)


def test_a_batch_is_no_image(fitted: HyperFSAD) -> None:
    batch = torch.rand(2, 3, 80, 96)
    with raises(UsageError, "image-batch", shape=(2, 3, 80, 96)):
        fitted.predict(batch)
    for several in (batch, [batch]):
        with raises(UsageError, "image-batch", shape=(2, 3, 80, 96)):
            next(fitted.predict_many(several))
    expected = [fitted.predict(image).score for image in batch]
    assert [found.score for found in fitted.predict_many(list(batch))] == expected


def test_a_generator_is_checked_as_it_comes(fitted: HyperFSAD) -> None:
    images: Iterator[Any] = (item for item in [make_picture(2), None])
    results = fitted.predict_many(images)
    assert isinstance(next(results), AnomalyResult)
    with raises(UsageError, "images-type", given="None"):
        next(results)


def test_open_files_and_their_bytes_are_images(fitted: HyperFSAD, photos: Path) -> None:
    path = photos / "2.png"
    expected = fitted.predict(path)
    content = path.read_bytes()
    with path.open("rb") as file:
        of_file = fitted.predict(file)
    assert of_file.image == str(path)
    others: list[ImageSource] = [io.BytesIO(content), content, bytearray(content)]
    for found in (of_file, *map(fitted.predict, others)):
        assert found.score == expected.score
        assert found.plot().tobytes() == expected.plot().tobytes()  # it can be read again

    def closing() -> Iterator[BinaryIO]:
        for name in ("0.png", "1.png", "2.png"):
            with (photos / name).open("rb") as file:
                yield file

    names = [str(photos / name) for name in ("0.png", "1.png", "2.png")]
    assert [each.image for each in fitted.predict_many(closing())] == names
    learnt = fitted.fit(closing())
    assert [image.name for image in learnt.support_] == names
    assert learnt.predict(path).score_map < expected.score_map


def test_files_that_cannot_be_read_are_named(fitted: HyperFSAD, photos: Path) -> None:
    torn = io.BytesIO((photos / "2.png").read_bytes()[:200])
    with raises(ImageError, "image-damaged", name="image"):
        fitted.predict(torn)
    gone = (photos / "2.png").open("rb")
    gone.close()
    failed, fine = fitted.predict_many([gone, photos / "2.png"])
    assert failed.image == str(photos / "2.png")
    assert failed.error is not None
    assert fine.error is None
    with (photos / "0.png").open(encoding="latin-1") as text, raises(UsageError, "image-file-text"):
        fitted.predict(text)  # type: ignore[arg-type]


def test_channels_of_arrays_may_be_those_of_opencv(fitted: HyperFSAD, photos: Path) -> None:
    pixels = np.asarray(make_picture(3))
    turned = np.ascontiguousarray(pixels[:, :, ::-1])
    expected = fitted.predict(pixels)
    assert fitted.predict(turned).score != expected.score
    found = fitted.predict(turned, channels="bgr")
    assert found.score == expected.score
    assert found.plot().tobytes() == expected.plot().tobytes()
    tensor = torch.from_numpy(np.ascontiguousarray(turned.transpose(2, 0, 1)))
    opaque = np.dstack([turned, np.full(turned.shape[:2], 255, np.uint8)])
    grey = np.asarray(make_picture(3).convert("L"))
    for given in (tensor, opaque):
        assert fitted.predict(given, channels="bgr").score == expected.score
    assert fitted.predict(grey, channels="bgr").score == fitted.predict(grey).score
    path = photos / "3.png"  # a file and a picture know the order of theirs
    (of_file, again) = fitted.predict_many([path, turned], channels="bgr")
    assert of_file.score == fitted.predict(path).score
    assert again.score == expected.score
    expected = fitted.fit([pixels]).predict(pixels)
    assert fitted.fit([turned], channels="bgr").predict(pixels).score == expected.score
    for wrong in ("rbg", "BGR", None):
        with raises(UsageError, "setting-invalid", name="channels"):
            fitted.predict(pixels, channels=wrong)  # type: ignore[arg-type]


def test_paths_that_are_none_are_named(fitted: HyperFSAD, tmp_path: Path) -> None:
    for path in ("", "a\0b"):
        with raises(ImageError, "image-path", name=path):
            fitted.predict(path)
        (failed,) = fitted.predict_many([path])
        assert failed.error is not None
        with raises(ImageError, "result-without-score", image=path):
            failed.score  # noqa: B018 (which raises)
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


def test_a_folder_that_is_not_there_is_one_clear_error(fitted: HyperFSAD, tmp_path: Path) -> None:
    missing = tmp_path / "nothere"
    for path in (missing, f"{missing}{os.sep}"):
        for use in (fitted.predict_many, fitted.extend, fitted.calibrate, fitted.unfitted().fit):
            with raises(UsageError, "no-images") as caught:
                use(path)
            assert codes(caught.value.facts["notes"]) == ["path-missing"]
    (failed,) = fitted.predict_many(tmp_path / "gone.png")  # an image that is gone stops no others
    assert failed.error is not None


def test_a_choice_that_there_is_not_is_named_with_the_one_that_was_meant(
    fitted: HyperFSAD, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "part.hfsad")
    wrong: dict[str, Any] = {"resolutoin": 84}
    for made in (HyperFSAD, ProductDetector, fitted.set_params):
        with raises(UsageError, "setting-unknown", name="resolutoin", meant="resolution"):
            made(**wrong)
    with raises(UsageError, "setting-unknown", name="devise", meant="device"):
        HyperFSAD.load(tmp_path / "part.hfsad", devise="cpu")  # type: ignore[call-arg]
    with raises(UsageError, "setting-unknown", name="xyz", meant=None):
        HyperFSAD(xyz=1)  # type: ignore[call-arg]


def test_bytes_that_are_no_image(fitted: HyperFSAD) -> None:
    with raises(ImageError, "image-unsupported") as caught:
        fitted.predict(b"part.png")
    assert not str(caught.value).startswith("image ")
