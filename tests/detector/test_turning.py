"""Parts that lie at any angle: turned views of the support, and whether they are worth it."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hyperfsad import HyperFSAD, ProductDetector, UsageError
from hyperfsad.cli import main
from hyperfsad.detector.choices import ROTATED_COPIES, TRIED
from hyperfsad.detector.file import open_file
from hyperfsad.detector.settings import Settings
from hyperfsad.errors import HyperfsadWarning
from hyperfsad.images.geometry import rotate, rotate_back, rotated_copies
from hyperfsad.images.loading import LoadedImage
from hyperfsad.messages import Notify, log
from hyperfsad.quality.coverage import cover_normal
from hyperfsad.wording import COMMAND_LINE, worded
from tests.codes import raises
from tests.conftest import make_picture, read_results


def part(angle: float = 0.0, seed: int = 0) -> Image.Image:
    """A picture without any symmetry, turned; a little noise makes each another photograph."""
    whole = rotate(LoadedImage("part", make_picture(3, (112, 112))), angle).pixels
    noise = np.random.default_rng(seed).normal(0, 2, (112, 112, 3))
    return Image.fromarray(np.clip(np.asarray(whole) + noise, 0, 255).astype(np.uint8))


@pytest.fixture
def angled(tmp_path: Path) -> Path:
    """A folder of three parts at three angles."""
    folder = tmp_path / "angled"
    folder.mkdir()
    for seed, angle in enumerate((0, 90, 225)):
        part(angle, seed).save(folder / f"{seed}.png")
    return folder


def small(tiny: str, notify: Notify = log, **options: Any) -> HyperFSAD:
    return HyperFSAD.of(Settings(tiny, resolution=84, device="cpu", **options), notify)


@pytest.mark.parametrize("size", [(96, 80), (60, 90), (64, 64)])
@pytest.mark.parametrize("angle", [30.0, 90.0, 200.0])
def test_a_place_is_found_again_in_the_picture_as_it_was(
    size: tuple[int, int], angle: float
) -> None:
    width, height = size
    for x, y in ((0.5, 0.5), (0.35, 0.6), (0.6, 0.3)):
        dot = np.zeros((height, width, 3), dtype=np.uint8)
        dot[int(y * height), int(x * width)] = 255
        moved = np.asarray(rotate(LoadedImage("dot", Image.fromarray(dot)), angle).pixels)[:, :, 0]
        row, column = np.unravel_index(int(moved.argmax()), moved.shape)
        back = rotate_back((column + 0.5) / width, (row + 0.5) / height, angle, size)
        assert back[0] * width == pytest.approx(x * width, abs=1.5)
        assert back[1] * height == pytest.approx(y * height, abs=1.5)


def test_a_place_in_a_mirrored_corner_goes_to_what_is_mirrored() -> None:
    for angle in (10.0, 45.0, 300.0):
        for x, y in ((0, 0), (1, 0), (0.02, 0.97)):
            back = rotate_back(x, y, angle, (300, 40))
            assert all(0 <= part <= 1 for part in back)
    assert rotate_back(0.2, 0.7, 0.0, (5, 9)) == pytest.approx((0.2, 0.7))


def test_large_pictures_are_turned_small() -> None:
    large = LoadedImage("large", make_picture(0, (900, 300)))
    views = rotated_copies(large, 4, longest=90)
    assert views[0] is large
    assert [view.size for view in views[1:]] == [(90, 30)] * 3
    alike = rotated_copies(LoadedImage("small", large.pixels.resize((90, 30))), 4)[2]
    difference = np.asarray(views[2].pixels).astype(int) - np.asarray(alike.pixels)
    assert np.abs(difference).mean() < 2


def test_a_turned_part_is_known(tiny: str) -> None:
    usual, turning = (small(tiny, rotations=number).fit(part()) for number in (1, 8))
    for angle in (45, 180, 270):
        query = rotate(LoadedImage("part", part()), angle).pixels
        assert turning.predict(query).score < 1e-4 < usual.predict(query).score
    assert turning.predict(part()).score < 1e-4


def test_images_are_counted_not_views(tiny: str, angled: Path, tmp_path: Path) -> None:
    detector = small(tiny, rotations=3).fit(angled)
    assert len(detector.memory_) == 9
    assert [image.name for image in detector.memory_.normal_images] == [
        str(angled / f"{seed}.png") for seed in range(3)
    ]
    assert "3 normal images" in repr(detector)
    assert [len(views) for views in detector.memory_.entries] == [3, 3, 3]
    part(40, 9).save(angled / "3.png")
    at_once = small(tiny, rotations=3).fit(angled)
    detector.extend(angled / "3.png")
    assert np.array_equal(detector.memory_.cls, at_once.memory_.cls)
    upright = small(tiny, rotations=1).fit(angled)
    assert detector.identity() == at_once.identity() != upright.identity()


def test_all_views_of_an_image_are_left_out_for_thresholds(tiny: str, angled: Path) -> None:
    detector = small(tiny, rotations=4).fit(angled)
    bank = detector.memory_
    groups = [range(4 * place, 4 * place + 4) for place in range(3)]
    scores = [
        detector.leaving_out(group).score_tokens(bank.tokens_of(group[0]))[0].score
        for group in groups
    ]
    assert detector.view_.leave_one_out().scores == pytest.approx(scores, abs=1e-6)


def test_a_saved_detector_turns_what_it_learns_later(
    tiny: str, angled: Path, tmp_path: Path
) -> None:
    path = tmp_path / "part.hfsad"
    detector = small(tiny, rotations=4).fit([angled / "0.png", angled / "1.png"])
    detector.save(path)
    again = HyperFSAD.load(path, device="cpu")
    assert again.rotations_ == 4
    assert again.memory_.images == detector.memory_.images
    assert [image.size for image in again.memory_.normal_images] == [(112, 112)] * 2
    query = angled / "2.png"
    assert again.predict(query).score == detector.predict(query).score
    again.extend(query)
    assert np.array_equal(again.memory_.cls, detector.extend(query).memory_.cls)
    (stored,) = open_file(path).parts()
    bank, header = stored.bank, stored.header
    assert [image["entries"] for image in header["normal_images"]] == [4, 4]
    assert len(bank) == 8


def test_auto_turns_parts_that_lie_at_any_angle(tiny: str, angled: Path) -> None:
    said: list[str] = []
    detector = small(tiny, rotations="auto", notify=said.append).fit(angled)
    assert detector.rotations_ == ROTATED_COPIES
    assert len(detector.memory_) == 3 * ROTATED_COPIES
    assert f"each is remembered in {ROTATED_COPIES} orientations" in said[0]
    as_told = small(tiny, rotations=ROTATED_COPIES).fit(angled)
    assert np.array_equal(as_told.memory_.cls, detector.memory_.cls)
    assert detector.identity() == as_told.identity()


def test_auto_leaves_parts_that_lie_alike(tiny: str) -> None:
    said: list[Any] = []
    parts = [np.asarray(part(0, seed)) for seed in range(TRIED + 2)]
    detector = small(tiny, rotations="auto", notify=said.append).fit(parts)
    assert detector.rotations_ == 1
    assert not detector.tentative_
    assert said[0].code == "rotations-useless"
    as_told = small(tiny, rotations=1).fit(parts)
    assert np.array_equal(as_told.memory_.cls, detector.memory_.cls)
    assert as_told.identity() == detector.identity()


def test_auto_is_what_the_default_recipe_does_but_not_with_tiles(tiny: str) -> None:
    assert small(tiny).settings.rotations == "auto"
    assert small(tiny, tiles=40).settings.rotations == 1
    assert small(tiny, recipe="paper-offline").settings.rotations == 1
    assert small(tiny, recipe="paper-offline", rotations="auto").settings.rotations == "auto"


def test_auto_with_one_part_takes_turned_copies_for_what_they_fit(
    tiny: str, angled: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    detector = small(tiny, rotations="auto", notify=said.append).fit(angled / "0.png")
    assert (detector.rotations_, detector.tentative_) == (ROTATED_COPIES, True)
    assert len(detector.memory_) == ROTATED_COPIES
    assert said[0] == worded("rotations-one-part", {})
    upright, turning = (
        small(tiny, rotations=number).fit(angled / "0.png") for number in (1, ROTATED_COPIES)
    )
    turned_part = rotate(LoadedImage("part", part()), 90).pixels
    damaged = part(0, 9)
    damaged.paste(turned_part.crop((20, 20, 50, 50)), (60, 60))  # a turned piece is a defect here
    assert detector.predict(turned_part).score == turning.predict(turned_part).score
    assert detector.predict(turned_part).score < upright.predict(turned_part).score / 2
    assert detector.predict(damaged).score == pytest.approx(upright.predict(damaged).score)
    assert detector.predict(damaged).score > turning.predict(damaged).score
    assert len({each.identity() for each in (detector, upright, turning)}) == 3
    detector.save(tmp_path / "part.hfsad")
    again = HyperFSAD.load(tmp_path / "part.hfsad", device="cpu")
    assert (again.rotations_, again.tentative_) == (ROTATED_COPIES, True)
    assert again.identity() == detector.identity()
    for query in (turned_part, damaged):
        assert again.predict(query).score == detector.predict(query).score


def test_the_command_line_says_that_turned_copies_are_tentative(
    tiny: str, angled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "part.hfsad")
    fit = ["fit", str(angled / "0.png"), "-o", path, "--backbone", tiny, "--resolution", "84"]
    assert main([*fit, "--device", "cpu"]) == 0
    assert worded("rotations-one-part", {}, COMMAND_LINE) in capsys.readouterr().err
    assert main(["info", path]) == 0
    told = capsys.readouterr().out
    assert "rotations   8, where a rotation fits clearly better" in told
    assert "missing     weighs 0.15" in told


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("angles", [(0, 90, 225), (0, 0, 0)])
def test_further_parts_tell_whether_a_lone_one_is_to_be_turned(
    tiny: str, tmp_path: Path, loaded: bool, angles: tuple[int, ...]
) -> None:
    parts = [tmp_path / f"{seed}.png" for seed in range(3)]
    for seed, (path, angle) in enumerate(zip(parts, angles, strict=True)):
        part(angle, seed).save(path)
    grown, at_once = small(tiny).fit(parts[0]), small(tiny).fit(parts)
    if loaded:
        grown.save(tmp_path / "part.hfsad")
        grown = HyperFSAD.load(tmp_path / "part.hfsad", device="cpu")
    grown.extend(parts[1:])
    assert not grown.tentative_
    assert grown.rotations_ == (8 if any(angles) else 1)
    assert grown.identity() == at_once.identity()
    grown.save(tmp_path / "grown.hfsad")
    at_once.save(tmp_path / "whole.hfsad")
    assert (tmp_path / "grown.hfsad").read_bytes() == (tmp_path / "whole.hfsad").read_bytes()


def test_a_lone_part_is_no_rule_for_other_products(tiny: str, angled: Path, tmp_path: Path) -> None:
    """A product that is learnt later finds out for itself."""
    alike = [np.asarray(part(0, seed)) for seed in range(3)]
    products = ProductDetector(tiny, resolution=84, device="cpu").fit({"one": angled / "0.png"})
    products.save(tmp_path / "products.hfsad")
    again = ProductDetector.load(tmp_path / "products.hfsad", device="cpu")
    assert again.products_["one"].tentative_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HyperfsadWarning)  # they look alike
        again.extend(alike, product="several")
    several = again.products_["several"]
    assert (several.rotations_, several.tentative_) == (1, False)


def test_auto_sees_past_images_that_cannot_be_read(tiny: str, angled: Path) -> None:
    for name in "abcd":
        (angled / f"{name}.png").write_bytes(b"")
    bad = [angled / f"{name}.png" for name in "abcd"]
    with pytest.warns(HyperfsadWarning, match="is empty"):
        detector = small(tiny, rotations="auto").fit([*bad, *sorted(angled.glob("?.png"))[:1]])
    assert len(detector.memory_.normal_images) == 1
    assert len(detector.skipped_) == 4
    with (
        pytest.warns(HyperfsadWarning, match="is empty"),
        raises(UsageError, "no-good-part"),
    ):
        small(tiny, rotations="auto").fit(bad)


def test_a_source_may_use_its_buffer_again(tiny: str) -> None:
    parts = [np.asarray(part(0, seed)) for seed in range(3)]
    buffer = np.empty_like(parts[0])

    def camera() -> Any:
        for each in parts:
            buffer[:] = each
            yield buffer

    detector = small(tiny, rotations="auto").fit(camera())
    assert np.array_equal(detector.memory_.cls, small(tiny, rotations=1).fit(parts).memory_.cls)


def test_evidence_leads_back_to_the_picture_on_disk(tiny: str, tmp_path: Path) -> None:
    path = tmp_path / "good.png"
    make_picture(3, (120, 80)).save(path)
    detector = small(tiny, rotations=4).fit(path)
    query = rotate(LoadedImage("part", make_picture(3, (120, 80))), 180).pixels
    evidence = detector.explain(query, 10, 7)  # the first patch, once the last
    nearest = evidence.layers[-1].neighbours[0]
    assert (nearest.view, nearest.angle, nearest.row, nearest.column) == (2, 180.0, 0, 0)
    assert nearest.centre == pytest.approx((5.5 / 6, 5.5 / 6))
    assert "92 %, 92 %" in evidence.to_text()
    assert "good.png (turned 180°)" in evidence.to_text()
    told = json.loads(evidence.to_json())["layers"][-1]["neighbours"][0]
    assert told["angle"] == 180
    assert told["centre"] == pytest.approx([5.5 / 6, 5.5 / 6])
    assert told["place"] == pytest.approx([0, 0, 1 / 6, 1 / 6])
    drawn = np.asarray(evidence.plot())
    path.unlink()
    with pytest.warns(HyperfsadWarning, match="no longer on disk"):
        assert (np.asarray(evidence.plot()) != drawn).any()  # the turned view was drawn before


def test_coverage_refuses_turned_detectors(tiny: str, photos: Path) -> None:
    with raises(UsageError, "coverage-needs-one-rotation"):
        cover_normal(small(tiny, rotations=2).fit(photos), photos, radius=0.5)


def test_the_command_line(
    tiny: str, angled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "part.hfsad")
    machine = ["--backbone", tiny, "--device", "cpu"]
    fit = ["fit", str(angled), "-o", path, "--resolution", "84", *machine]
    assert main([*fit, "--rotations", "4"]) == 0
    assert "3 normal images, each in 4 orientations" in capsys.readouterr().out
    assert main(["info", path]) == 0
    told = capsys.readouterr().out
    assert "rotations   4" in told
    assert "normal      3 images" in told
    assert main([*fit, "--rotations", "auto"]) == 0
    assert f"remembered in {ROTATED_COPIES} orientations" in capsys.readouterr().err
    detect = ["detect", str(angled), "-o", str(tmp_path / "out"), *machine]
    assert main([*detect, "--detector", path, "--rotations", "8"]) == 2
    assert "--rotations is fixed in a saved detector" in capsys.readouterr().err
    normal = ["--normal", str(angled / "0.png"), "--rotations", "8", "--resolution", "84"]
    assert main([*detect, *normal]) == 0
    assert len(read_results(tmp_path / "out")) == 3
    assert "Learnt from 1 good part<" in (tmp_path / "out" / "report.html").read_text()
    assert main([*fit, "--rotations", "0"]) == 2
    assert "from 1 to 72 or auto, not 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*fit, "--rotations", "some"])
    assert "'some' is not a number such as 16, or auto" in capsys.readouterr().err
