"""Advice: each sample goes to a detector that has not learnt its part; only clear gains count."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.demo.drawing import draw
from hyperfsad.errors import UsageError
from hyperfsad.quality.advise import DEFECT_ROUNDS, MAX_PARTS, Advice, advise
from hyperfsad.quality.drawn_defects import DEFECT_KINDS, DEFECT_SIZES, DrawnDefect
from hyperfsad.quality.operating_points import Rate
from hyperfsad.quality.trials import (
    CandidateSetting,
    Trial,
    TrialSample,
    candidate_settings,
    held_out_detectors,
)
from tests.codes import raises
from tests.conftest import make_picture


@pytest.fixture
def make(tiny: str) -> Callable[..., HyperFSAD]:
    return partial(HyperFSAD, tiny, device="cpu")


def trial(
    name: str, levels: dict[str, list[float]], cost: float = 1.0, *, drawn: bool = True
) -> Trial:
    """Good parts, and drawn scratches of the four sizes in turn, or real bad parts."""
    good = [TrialSample(f"{n}.png", n) for n in range(len(levels["good"]))]
    scratches = (
        DrawnDefect("scratch", DEFECT_SIZES[n % 4], True, n) for n in range(len(levels["bad"]))
    )
    bad = [TrialSample("0.png", 0, True, one if drawn else None) for one in scratches]
    values = (*levels["good"], *levels["bad"])
    return Trial(CandidateSetting(name, {name: 1}, cost), (*good, *bad), values)


def test_defects_count_at_the_level_of_the_good_parts() -> None:
    found = trial("a", {"good": [0.7, 0.72, 0.71, 0.7], "bad": [0.6, 0.75, 0.99, 2.0]})
    assert 0.8 < found.limit < 0.99  # 5 % of such good parts lie above it
    assert found.found() == Rate(2, 4)
    assert found.share_found == 0.5
    assert found.found_by_itself == 1  # above 1
    assert found.false_alarms == Rate(0, 4)
    assert found.found(share=DEFECT_SIZES[2]) == Rate(1, 1)
    assert found.found(share=DEFECT_SIZES[1], kind="scratch") == Rate(0, 1)
    assert found.found(kind="stain") == Rate(0, 0)
    wide = trial("b", {"good": [0.7, 1.4, 0.5, 1.2], "bad": [0.6, 0.75, 0.99, 2.0]})
    assert wide.limit > 1.4  # the same levels mean less where good parts differ
    assert wide.false_alarms.count == 2


def test_only_a_clear_gain_is_advised() -> None:
    def real(name: str, found: int, cost: float = 1.0) -> Trial:
        levels = {"good": [0.7] * 4, "bad": [2.0] * found + [0.1] * (20 - found)}
        return trial(name, levels, cost, drawn=False)

    usual, little, more = real("usual", 10), real("little", 11, 3), real("more", 14, 3)
    same = real("same", 14)
    assert Advice((usual, little), (512, 512)).advised is usual
    assert Advice((usual, little, more), (512, 512)).advised is more
    assert Advice((usual, more, same), (512, 512)).advised is same  # as good, and cheaper
    text = Advice((usual, more), (512, 512)).to_text(["my parts/"])
    assert "hyperfsad fit 'my parts/' -o part.hfsad --more 1" in text
    assert "finds 14 of 20 defects, where fit by itself finds 10" in text
    assert "Keep what fit chooses" in Advice((usual, little), (512, 512)).to_text()


def test_drawn_defects_advise_no_other_setting() -> None:
    usual = trial("usual", {"good": [0.7, 1.2], "bad": [2.0] * 10 + [0.1] * 10})
    more = trial("more", {"good": [0.7, 0.7], "bad": [2.0] * 18 + [0.1] * 2})
    found = Advice((usual, more), (512, 512))
    assert found.advised is usual
    assert "1 of 2 good parts raise a false alarm (so few tell little: up to 99 % may)" in (
        " ".join(found.to_text().split())
    )


def test_the_table_has_a_column_for_each_size() -> None:
    levels = [2.0, 0.1, 2.0, 2.0] * 4
    found = trial("a", {"good": [0.7] * 4, "bad": levels})
    head, row = Advice((found,), (640, 500)).to_text().splitlines()[2:4]
    for size, share in (("10 px", "4/4"), ("20 px", "0/4"), ("40 px", "4/4"), ("80 px", "4/4")):
        end = head.index(size) + len(size)
        assert row[:end].endswith(f" {share}")


def test_no_detector_has_learnt_the_part_behind_a_sample(
    make: Callable[..., HyperFSAD], photos: Path
) -> None:
    paths = sorted(map(str, photos.iterdir()))
    detector = make(rotations=1, resolution=56).fit(paths, threshold=False)
    held_out = held_out_detectors(detector)
    for part, path in enumerate(paths):
        other = held_out[part % len(held_out)]
        assert path not in {image.name for image in other.support_}
        if part not in (0, 4):  # these two are held out together
            alone = detector.unfitted().fit(paths[:part] + paths[part + 1 :])
            expected = alone.predict(path).level
            assert other.predict(path).level == pytest.approx(expected, rel=1e-4)


def test_settings_follow_the_pictures_and_the_budget(
    make: Callable[..., HyperFSAD], photos: Path
) -> None:
    usual = make(rotations=1).fit(photos, threshold=False)
    compared, left_out = candidate_settings(usual, (56, 40))
    names = [setting.name for setting in compared]
    assert names == ["as fit chooses", "in eight orientations", "the part alone"]
    assert left_out == {
        "at 70 pixels": "The encoder sees all of pictures of 56×40 pixels already.",
        "in tiles of 56 pixels": "It shows little more of pictures of 56×40 pixels.",
    }
    large, left_out = candidate_settings(usual, (200, 100), max_cost=100)
    assert [setting.flags for setting in large[3:]] == [["--resolution", "70"], ["--tiles", "56"]]
    assert left_out == {}
    cheap, left_out = candidate_settings(usual, (200, 100), max_cost=2)
    assert all(setting.cost <= 2 for setting in cheap)
    costly = [setting.name for setting in large if setting.cost > 2]
    assert list(left_out) == costly != []
    assert all("at most 2 times was allowed." in why for why in left_out.values())


def test_advice_from_good_parts_alone(make: Callable[..., HyperFSAD], photos: Path) -> None:
    paths = sorted(map(str, photos.iterdir()))
    advice = advise(paths, make=make, max_cost=2)
    assert advice.usual.false_alarms.total == 5
    assert advice.drawn
    drawn = len(DEFECT_KINDS) * len(DEFECT_SIZES) * 2 * DEFECT_ROUNDS
    assert advice.usual.found().total == drawn
    assert {trial.samples for trial in advice.trials} == {advice.usual.samples}
    again = advise(paths, make=make, max_cost=2)
    assert again.trials == advice.trials


def test_advice_from_bad_parts(make: Callable[..., HyperFSAD], photos: Path) -> None:
    paths = sorted(map(str, photos.iterdir()))
    bad = photos / "bad.png"
    Image.new("RGB", (96, 80), (0, 255, 0)).save(bad)
    advice = advise(paths, [str(bad)], make=make, max_cost=1.1)
    assert not advice.drawn
    assert [sample.path for sample in advice.usual.samples if sample.bad] == [str(bad)]
    assert "px" not in advice.to_text()


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


def test_the_figures_are_those_of_the_table(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = tmp_path / "good parts"
    good.mkdir()
    for seed in range(4):
        draw("plate", seed=seed, size=128).image.save(good / f"{seed}.png")
    words = ["advise", str(good), "--backbone", tiny, "--device", "cpu", "--max-cost", "1.2"]
    assert main([*words, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["format"], figures["drawn"], figures["good_parts"]) == (1, True, 4)
    usual = figures["settings"][0]
    assert usual["defects"] == 48
    kinds = usual["kinds"]
    assert [total for _, total in kinds.values()] == [16] * 3
    assert sum(found for found, _ in kinds.values()) == usual["found"]
    costly = [row for row in figures["left_out"] if "at most 1.2 times" in row["reason"]]
    assert [row["setting"] for row in costly] == ["at 70 pixels", "in tiles of 56 pixels"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "Left out: in tiles of 56 pixels." in text
    assert figures["command"] in text
    assert "3 px    5 px   10 px   20 px" in text


def test_bad_parts_instead_of_drawn_ones(
    tiny: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    Image.new("RGB", (96, 80), (0, 255, 0)).save(bad / "green.png")
    (bad / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    words = ["advise", str(photos), "--bad", str(bad), "--max-cost", "1"]
    assert main([*words, "--backbone", tiny, "--device", "cpu"]) == 3
    said = capsys.readouterr()
    assert "1 bad part." in said.out
    assert "--backbone" in said.out
    assert "broken.png" in said.err


def test_no_good_part_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--bad", "bad/"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
