"""The main job as a function: images in, a folder of results out."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hyperfsad import AnomalyResult, HyperFSAD, inspect
from hyperfsad.detector.pipeline import predict_each
from hyperfsad.errors import ImageError, UsageError
from hyperfsad.images.loading import ImageSource, LoadedImage
from hyperfsad.messages import Notice
from tests.codes import raises
from tests.conftest import make_picture, read_results


@pytest.fixture
def fitted(detector: HyperFSAD) -> HyperFSAD:
    return detector.fit([make_picture(1), make_picture(2)])


def test_a_folder_is_inspected(fitted: HyperFSAD, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    records = inspect(fitted, photos, out, maps=True)
    paths = sorted(str(path) for path in photos.iterdir())
    assert [record["image"] for record in records] == paths
    stored = read_results(out)
    for record, result in zip(stored, fitted.predict_many(paths), strict=True):
        assert record["score"] == result.score
        assert record["anomalous"] == result.anomalous
        assert all((out / str(record[name])).exists() for name in ("heatmap", "map"))


def test_what_is_done_is_kept_and_said(fitted: HyperFSAD, photos: Path, tmp_path: Path) -> None:
    out, told = tmp_path / "out", list[str]()
    inspect(fitted, [photos / "0.png"], out, heatmaps=False)
    found = inspect(fitted, photos, out, heatmaps=False, resume=True, notify=told.append)
    assert len(found) == len(list(photos.iterdir()))
    codes = {notice.code: notice.facts for notice in told if isinstance(notice, Notice)}
    assert codes["images-done-before"] == {"count": 1}


def test_an_interruption_says_how_far_it_came(
    fitted: HyperFSAD, photos: Path, tmp_path: Path
) -> None:
    told: list[str] = []

    def stop(results: object, *_: object) -> list[AnomalyResult]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inspect(fitted, photos, tmp_path / "out", notify=told.append, progress=stop)
    assert [each.code for each in told if isinstance(each, Notice)] == ["inspection-stopped"]


def test_pictures_that_it_wrote_itself_are_not_inspected(fitted: HyperFSAD, photos: Path) -> None:
    out = photos / "out"
    first = inspect(fitted, photos, out)
    assert len(inspect(fitted, photos, out)) == len(first)
    with raises(UsageError, "all-images-in-output"):
        inspect(fitted, out / "heatmaps", out)


def test_it_needs_paths(fitted: HyperFSAD, tmp_path: Path) -> None:
    with raises(UsageError, "inspect-needs-paths"):
        inspect(fitted, [make_picture(3)], tmp_path / "out")


class Refusing:
    """A detector that can read nothing."""

    batch = read_ahead = 2

    def prepare(self, source: ImageSource | LoadedImage, keep_picture: bool) -> LoadedImage:
        raise ImageError("image-memory", name="It")

    def judge(self, images: Sequence[LoadedImage]) -> list[AnomalyResult]:
        raise AssertionError


def test_an_error_names_its_image_whatever_it_came_as() -> None:
    sources: list[ImageSource | LoadedImage] = [
        "a.png",
        LoadedImage("s3://parts/b.png", make_picture()),
        make_picture(),
    ]
    found = list(predict_each(Refusing(), sources))
    assert [result.image for result in found] == ["a.png", "s3://parts/b.png", "image"]
    assert [result.error for result in found] == ["It does not fit into memory."] * 3
