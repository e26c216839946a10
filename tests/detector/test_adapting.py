"""Learning from unlabelled parts: what is remembered, what is left out, and what a file keeps."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.demo.drawing import draw
from hyperfsad.detector import adapting
from hyperfsad.errors import UsageError
from hyperfsad.messages import Notice
from tests.codes import raises
from tests.conftest import read_results

GOOD, BAD = range(10, 20), (3, 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two good parts, and a line of ten good ones and two bad ones that nobody has labelled."""
    root = tmp_path_factory.mktemp("line")
    for name in ("good", "line", "test"):
        (root / name).mkdir()
    for seed in range(2):
        draw("fabric", seed=seed, size=256).image.save(root / f"good/{seed}.png")
    for seed in GOOD:
        draw("fabric", seed=seed, size=256).image.save(root / f"line/{seed}.png")
    for seed in BAD:
        part = draw("fabric", seed=seed, defect="stain", size=256)
        part.image.save(root / f"line/bad-{seed}.png")
    draw("fabric", seed=50, size=256).image.save(root / "test/good.png")
    draw("fabric", seed=51, defect="hole", size=256).image.save(root / "test/hole.png")
    return root


@pytest.fixture(scope="module")
def adapted(folder: Path) -> tuple[HyperFSAD, HyperFSAD, list[Notice]]:
    """A detector before and after it has learnt from the line, and what it said."""
    told: list[Notice] = []
    before = HyperFSAD(rotations=1)
    before.notify = told.append  # type: ignore[assignment]
    before.fit(folder / "good")
    told.clear()
    return before, before.__copy__().adapt(folder / "line"), told


def test_parts_that_look_bad_are_named_and_not_learnt(
    adapted: tuple[HyperFSAD, HyperFSAD, list[Notice]],
) -> None:
    before, after, told = adapted
    assert before.unlabelled_ is None
    assert after.unlabelled_ is not None
    names = {Path(image.name).name for image in after.unlabelled_.images}
    assert not names & {f"bad-{seed}.png" for seed in BAD}
    assert len(names) >= 9
    (notice,) = [each for each in told if each.code == "line-bad"]
    named = {Path(name).name for name, _ in notice.facts["parts"]}
    assert named >= {f"bad-{seed}.png" for seed in BAD}
    assert after.calibration_ is not None
    found = after.calibration_
    assert (found.method, found.images, found.odd) == ("line", 12, len(named))
    assert f"12 unlabelled parts, {len(named)} of which look bad" in found.words


def test_unlabelled_parts_only_lower_the_map(
    folder: Path, adapted: tuple[HyperFSAD, HyperFSAD, list[Notice]]
) -> None:
    before, after, _ = adapted
    for name in ("good", "hole"):
        old, new = (each.predict(folder / f"test/{name}.png") for each in (before, after))
        assert (new.anomaly_map <= old.anomaly_map + 1e-6).all()
        assert new.anomalous is (name == "hole")


def test_a_part_of_the_line_never_explains_itself(
    folder: Path, adapted: tuple[HyperFSAD, HyperFSAD, list[Notice]]
) -> None:
    _, after, _ = adapted
    assert after.unlabelled_ is not None
    others = after.__copy__()
    name = after.unlabelled_.images[0].name
    others.unlabelled_, others._view = after.unlabelled_.without(0), None
    scores = [each.predict(name).score for each in (after, others)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_a_file_keeps_unlabelled_parts(
    folder: Path, tmp_path: Path, adapted: tuple[HyperFSAD, HyperFSAD, list[Notice]]
) -> None:
    before, after, _ = adapted
    after.save(tmp_path / "a.hfsad")
    after.save(tmp_path / "b.hfsad")
    assert (tmp_path / "a.hfsad").read_bytes() == (tmp_path / "b.hfsad").read_bytes()
    again = HyperFSAD.load(tmp_path / "a.hfsad")
    again.use_encoder(after.encoder_)
    assert again.identity() == after.identity() != before.identity()
    assert again.calibration_ == after.calibration_
    path = folder / "test/hole.png"
    assert np.array_equal(again.predict(path).anomaly_map, after.predict(path).anomaly_map)


def test_learnt_again_thresholds_still_come_from_the_line(
    folder: Path, adapted: tuple[HyperFSAD, HyperFSAD, list[Notice]]
) -> None:
    _, after, _ = adapted
    more = after.__copy__().extend(folder / "test/good.png")
    assert more.calibration_ is not None
    assert more.calibration_.method == "line"
    assert more.unlabelled_ is after.unlabelled_
    assert more.fit(folder / "good").unlabelled_ is None


def test_pictures_of_one_part_count_once(
    folder: Path, adapted: tuple[HyperFSAD, HyperFSAD, list[Notice]]
) -> None:
    before, _, told = adapted
    told.clear()
    picture = Image.open(folder / "line/10.png")
    again = Image.fromarray(np.clip(np.asarray(picture) * 0.98, 0, 255).astype(np.uint8))
    found = before.__copy__().adapt([picture, again, *sorted((folder / "line").glob("1[1-4].png"))])
    assert found.unlabelled_ is not None
    assert "line-copies" in [each.code for each in told]
    assert "line-preliminary" in [each.code for each in told]
    assert 3 <= len(found.unlabelled_) <= 5


def test_another_product_is_left_out(
    adapted: tuple[HyperFSAD, HyperFSAD, list[Notice]],
) -> None:
    before, _, told = adapted
    told.clear()
    with raises(UsageError, "no-unlabelled-part"):
        before.__copy__().adapt([draw("plate", seed=1, size=256).image])
    assert "line-foreign" in [each.code for each in told]


def test_many_parts_are_sampled_evenly_and_far_ones_go_first() -> None:
    pictures = [np.full((2, 2), value, np.uint8) for value in range(96)]
    found = [int(np.asarray(each)[0, 0]) for each in adapting.sample(pictures)]
    assert found == list(range(0, 96, 2))
    assert adapting.far_out([0.2, 0.9, 0.21, 0.05, 0.22], 3) == [3, 1]


def test_the_command_adapts_and_detects_together(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "part.hfsad")
    line = str(folder / "line")
    assert main(["fit", str(folder / "good"), "--rotations", "1", "-o", file, "--line", line]) == 0
    told = capsys.readouterr()
    assert "estimate from 12 unlabelled parts" in told.out
    assert all(f"bad-{seed}.png" in told.err for seed in BAD)
    thresholds = re.findall(r"threshold (\S+)", told.out)
    assert main(["adapt", file, line]) == 0  # what is known already changes nothing
    assert re.findall(r"threshold (\S+)", capsys.readouterr().out) == thresholds * 2
    assert main(["info", file]) == 0
    assert re.search(r"line +\d+ unlabelled parts", capsys.readouterr().out)
    out = str(tmp_path / "out")
    together = ["detect", line, "--normal", str(folder / "good"), "--rotations", "1", "--together"]
    assert main([*together, "-o", out]) == 0
    bad = {row["image"] for row in read_results(tmp_path / "out") if row["anomalous"]}
    assert {f"{line}/bad-{seed}.png" for seed in BAD} <= bad
    assert len(bad) <= 3
