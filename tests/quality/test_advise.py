"""Advice: every sample is judged by a stranger to its part, and only clear gains are advised."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.errors import UsageError
from hyperfsad.quality.advice_page import advice_text
from hyperfsad.quality.advise import DEFECT_ROUNDS, MAX_PARTS, Advice, advise
from hyperfsad.quality.drawn_defects import DEFECT_KINDS, DEFECT_SIZES, DrawnDefect
from hyperfsad.quality.trials import (
    CandidateSetting,
    HeldOutDetectors,
    Trial,
    TrialSample,
    candidate_settings,
)
from tests.codes import raises
from tests.conftest import make_picture


@pytest.fixture
def make(tiny: str) -> Callable[..., HyperFSAD]:
    return partial(HyperFSAD, tiny, device="cpu")


def trial(name: str, strengths: dict[str, list[float]], cost: float = 1.0) -> Trial:
    """Good parts, and drawn scratches of the four sizes in turn."""
    good = [TrialSample(f"{n}.png", n) for n in range(len(strengths["good"]))]
    bad = [
        TrialSample("0.png", 0, True, DrawnDefect("scratch", DEFECT_SIZES[n % 4], True, n))
        for n in range(len(strengths["bad"]))
    ]
    values = (*strengths["good"], *strengths["bad"])
    return Trial(CandidateSetting(name, {name: 1}, cost), (*good, *bad), values)


def test_defects_count_at_the_level_of_the_good_parts() -> None:
    found = trial("a", {"good": [0.7, 0.72, 0.71, 0.7], "bad": [0.6, 0.75, 0.99, 2.0]})
    assert 0.8 < found.level < 0.99  # 5 % of such good parts lie above it
    assert [hit for _, hit in found.defects] == [False, False, True, True]
    assert found.share_found == 0.5
    assert found.found_by_itself == 1  # above 1
    assert found.false_alarms == 0
    assert found.found(share=DEFECT_SIZES[2]) == (1, 1)
    assert found.found(kind="stain") == (0, 0)
    wide = trial("b", {"good": [0.7, 1.4, 0.5, 1.2], "bad": [0.6, 0.75, 0.99, 2.0]})
    assert wide.level > 1.4  # the same strengths mean less where good parts differ
    assert wide.false_alarms == 2


def test_only_a_clear_gain_is_advised() -> None:
    good = [0.7, 0.7, 0.7, 0.7]
    usual = trial("usual", {"good": good, "bad": [2.0] * 10 + [0.1] * 10})
    little = trial("little", {"good": good, "bad": [2.0] * 11 + [0.1] * 9}, cost=3)
    more = trial("more", {"good": good, "bad": [2.0] * 14 + [0.1] * 6}, cost=3)
    same = trial("same", {"good": good, "bad": [2.0] * 14 + [0.1] * 6}, cost=1)
    assert Advice((usual, little), (512, 512)).advised is usual
    assert Advice((usual, little, more), (512, 512)).advised is more
    assert Advice((usual, more, same), (512, 512)).advised is same  # as good, and cheaper
    text = advice_text(Advice((usual, more), (512, 512)), ["my parts/"])
    assert "hyperfsad fit 'my parts/' -o part.hfsad --more 1" in text
    assert "finds 14 of 20 defects, where fit by itself finds 10" in text
    assert "Keep what fit chooses" in advice_text(Advice((usual, little), (512, 512)))


def test_sizes_count_from_the_largest_downwards() -> None:
    #            2 %   4 %  8 %  16 %
    strengths = [2.0, 0.1, 2.0, 2.0] * 4
    found = trial("a", {"good": [0.7] * 4, "bad": strengths})
    advice = Advice((found,), (640, 500))
    assert advice.smallest(found, "scratch") == 0.08  # what is below a gap is chance
    text = advice_text(advice)
    assert "Scratches: 12 of 16 found; those shorter than 40 pixels often go unseen." in text
    (head, row) = text[text.index("found, by kind") :].splitlines()[:2]
    assert row.index("12/16") + len("12/16") == head.index("scratches") + len("scratches")
    none = trial("b", {"good": [0.7] * 4, "bad": [2.0, 2.0, 2.0, 0.1]})
    assert Advice((none,), (640, 500)).smallest(none, "scratch") is None


def test_no_judge_has_learnt_the_part_behind_a_sample(
    make: Callable[..., HyperFSAD], photos: Path
) -> None:
    paths = sorted(map(str, photos.iterdir()))
    detector = make(rotations=1, resolution=56).fit(paths, threshold=False)
    judges = HeldOutDetectors(detector)
    for part, path in enumerate(paths):
        alone = detector.unfitted().fit(paths[:part] + paths[part + 1 :])
        learnt = {image.name for image in judges.detectors[part % judges.folds].support_}
        assert path not in learnt
        if part not in (0, 4):  # these two are held out together
            expected = alone.predict(path).strength
            assert judges.strength(TrialSample(path, part)) == pytest.approx(expected, rel=1e-4)


def test_settings_follow_the_pictures_and_the_budget(
    make: Callable[..., HyperFSAD], photos: Path
) -> None:
    usual = make(rotations=1).fit(photos, threshold=False)
    compared, left_out = candidate_settings(usual, (56, 40))
    names = [setting.name for setting in compared]
    assert names == ["as fit chooses", "in eight orientations", "the part alone"]
    assert [(setting.name, why) for setting, why in left_out] == [
        ("at 70 pixels", "The encoder sees all of pictures of 56×40 pixels already."),
        ("in tiles of 56 pixels", "It shows little more of pictures of 56×40 pixels."),
    ]
    large, left_out = candidate_settings(usual, (200, 100), max_cost=100)
    assert [setting.flags for setting in large[3:]] == [("--resolution", "70"), ("--tiles", "56")]
    assert left_out == []
    cheap, left_out = candidate_settings(usual, (200, 100), max_cost=2)
    assert all(setting.cost <= 2 for setting in cheap)
    costly = [setting for setting in large if setting.cost > 2]
    assert [setting for setting, _ in left_out] == costly != []
    assert all("at most 2 times was allowed." in why for _, why in left_out)


def test_advice_from_good_parts_alone(make: Callable[..., HyperFSAD], photos: Path) -> None:
    paths = sorted(map(str, photos.iterdir()))
    advice = advise(paths, make=make, max_cost=2)
    assert advice.parts == 5
    assert advice.drawn
    drawn = len(DEFECT_KINDS) * len(DEFECT_SIZES) * 2 * DEFECT_ROUNDS
    assert len(advice.usual.defects) == drawn
    assert {trial.samples for trial in advice.trials} == {advice.usual.samples}
    again = advise(paths, make=make, max_cost=2)
    assert again.trials == advice.trials


def test_advice_from_bad_parts(make: Callable[..., HyperFSAD], photos: Path) -> None:
    paths = sorted(map(str, photos.iterdir()))
    bad = photos / "bad.png"
    Image.new("RGB", (96, 80), (0, 255, 0)).save(bad)
    advice = advise(paths, [str(bad)], make=make, max_cost=1.1)
    assert not advice.drawn
    assert [sample.path for sample, _ in advice.usual.defects] == [str(bad)]
    assert "px" not in advice_text(advice)


def test_many_good_parts_are_thinned_out(make: Callable[..., HyperFSAD], tmp_path: Path) -> None:
    paths = []
    for seed in range(20):
        paths.append(str(tmp_path / f"{seed:02}.png"))
        make_picture(seed).save(paths[-1])
    bad = str(tmp_path / "bad.png")
    make_picture(99).save(bad)
    advice = advise(paths, [bad], make=make, max_cost=1)
    used = [sample.path for sample in advice.usual.samples if not sample.bad]
    assert len(used) == MAX_PARTS
    assert used[0] == paths[0]
    assert used[-1] == paths[-1]


def test_one_good_part_is_too_few(make: Callable[..., HyperFSAD], photos: Path) -> None:
    with raises(UsageError, "advice-too-few", given=1):
        advise([str(photos / "0.png")], make=make)
