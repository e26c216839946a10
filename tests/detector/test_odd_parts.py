"""A bad part among the good ones is named when it is learnt."""

from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from hyperfsad import HyperFSAD
from hyperfsad.decisions.thresholds import LeaveOneOut
from hyperfsad.detector.calibration import notify_about_learnt
from hyperfsad.wording import of_limit
from tests.conftest import make_picture, save_tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Random weights that feel squares more than other pictures."""
    return save_tiny(tmp_path_factory.mktemp("encoders") / "odd", seed=9)


def part(seed: int, *, bad: bool = False, size: tuple[int, int] = (96, 80)) -> Image.Image:
    """One product in different pictures; a bad part has squares that others lack."""
    image = Image.blend(make_picture(1, size), make_picture(100 + seed, size), 0.3)
    if bad:
        across, down = size[0] / 96, size[1] / 80
        for x, y, colour in ((20, 30, "white"), (60, 20, "black"), (50, 55, "lime")):
            box = (x * across, y * down, (x + 22) * across, (y + 20) * down)
            ImageDraw.Draw(image).rectangle(box, fill=colour)
    return image


def saved(folder: Path, count: int, bad: int | None = None) -> list[str]:
    paths = []
    for place in range(count):
        paths.append(str(folder / f"{place:02}.png"))
        part(place, bad=place == bad).save(paths[-1])
    return paths


def named(told: list[str], words: str) -> list[str]:
    return [sentence for sentence in told if words in sentence]


@pytest.mark.parametrize(("count", "bad"), [(4, 1), (8, 7)])
def test_fit_names_a_part_that_stands_far_apart(
    detector: HyperFSAD, tmp_path: Path, count: int, bad: int
) -> None:
    told: list[str] = []
    detector.notify = told.append
    detector.fit(saved(tmp_path, count))
    assert named(told, "stands far apart") == []
    paths = saved(tmp_path, count, bad)
    detector.fit(paths)
    (sentence,) = named(told, "stands far apart")
    assert sentence.startswith(f"{paths[bad]} stands far apart from the other good parts: compared")
    assert "learn without it, since it raises the threshold." in sentence
    assert len(detector.support_) == count  # it is named, and learnt all the same


def test_parts_are_told_apart_by_their_place(detector: HyperFSAD) -> None:
    """Of more than eight, some are left out together; the scores keep the order of the parts."""
    detector.fit([part(seed, bad=seed == 9) for seed in range(12)], threshold=False)
    scores = detector.view_.leave_one_out().scores
    assert max(range(12), key=lambda place: scores[place]) == 9


@pytest.mark.parametrize(
    ("scores", "odd"),
    [
        ((0.30, 0.31, 0.29, 0.50), 3),
        ((0.50, 0.31, 0.29, 0.30, 0.33, 0.28, 0.30, 0.31), 0),
        ((0.30, 0.31, 0.50), None),  # too few to tell
        ((0.30, 0.31, 0.29, 0.36), None),
        ((0.20, 0.30, 0.40, 0.55), None),  # they differ widely
        ((0.30, 0.31, 0.29, 0.50, 0.48), None),  # two are no exception
    ],
)
def test_only_one_that_stands_far_out_is_odd(scores: tuple[float, ...], odd: int | None) -> None:
    found = LeaveOneOut(scores, scores, (0.3,) * len(scores), len(scores))
    told: list[str] = []
    notify_about_learnt(found, [f"{place}.png" for place in range(len(scores))], told.append)
    assert [sentence.partition(" ")[0] for sentence in told] == (
        [] if odd is None else [f"{odd}.png"]
    )
    copies = LeaveOneOut(scores, scores, (3.0,) * len(scores), len(scores))
    notify_about_learnt(copies, ["0.png"] * len(scores), told.append)
    assert len(told) == (odd is not None)


def test_three_parts_cannot_tell_which_one_is_odd(detector: HyperFSAD, tmp_path: Path) -> None:
    told: list[str] = []
    detector.notify = told.append
    detector.fit(saved(tmp_path, 3, 2))
    assert named(told, "stands far apart") == []


def test_extend_names_a_part_that_was_anomalous(detector: HyperFSAD, tmp_path: Path) -> None:
    told: list[str] = []
    detector.fit(saved(tmp_path, 4))
    detector.notify = told.append
    before = detector.predict(part(20, bad=True))
    assert before.anomalous
    assert before.threshold is not None
    good, odd = str(tmp_path / "good.png"), str(tmp_path / "odd.png")
    part(21).save(good)
    part(20, bad=True).save(odd)
    detector.extend([good])
    assert named(told, "until now") == []
    detector.fit(saved(tmp_path, 4)).extend([good, odd])
    (sentence,) = named(told, "until now")
    assert before.level is not None
    assert f"{odd} ({of_limit(before.level)})" in sentence
    assert odd in [image.name for image in detector.support_]


def test_several_parts_are_told_in_one_sentence(detector: HyperFSAD, tmp_path: Path) -> None:
    told: list[str] = []
    detector.fit(saved(tmp_path, 4))
    detector.notify = told.append
    detector.extend([part(30, bad=True), part(31, bad=True)])
    (sentence,) = named(told, "Anomalous until now: image (")
    assert sentence.endswith("). Learnt as asked; make sure that they are good.")
    assert sentence.count("of the limit") == 2


def test_without_a_threshold_nothing_is_called_anomalous(detector: HyperFSAD) -> None:
    told: list[str] = []
    detector.fit([part(0), part(1)], threshold=False)
    detector.notify = told.append
    detector.extend([part(30, bad=True)])
    assert named(told, "until now") == []


def test_tiles_tell_it_from_a_sample(tiny: str) -> None:
    told: list[str] = []
    detector = HyperFSAD(tiny, resolution=84, tiles=96, device="cpu")
    detector.fit([part(seed, size=(192, 160)) for seed in range(3)])
    detector.notify = told.append
    detector.extend([part(9, size=(192, 160))])
    assert named(told, "until now") == []
    detector.extend([part(10, bad=True, size=(192, 160))])
    assert len(named(told, "Anomalous until now")) == 1
