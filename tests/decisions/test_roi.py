"""The region of interest: nothing outside may change anything."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from safetensors import safe_open

from hyperfsad import HyperFSAD, UsageError
from hyperfsad.cli import main
from hyperfsad.decisions.masks import MAX_MASK_SIDE
from hyperfsad.decisions.roi import Roi, find_foreground, make_region
from hyperfsad.detector.settings import Settings
from hyperfsad.errors import DetectorFileError, HyperfsadWarning, ImageError
from hyperfsad.images.loading import LoadedImage, NormalImage
from hyperfsad.messages import Notify, log
from hyperfsad.method.memory import MemoryBank
from tests.codes import raises
from tests.conftest import make_picture, read_results
from tests.detector.mutations import save_sealed
from tests.tokens import cosines, unit

SIZE = (96, 80)
GRID = 6  # patches of 16 × 13⅓ pixels


def box(left: int, top: int, right: int, bottom: int, size: tuple[int, int] = SIZE) -> Image.Image:
    mask = Image.new("L", size)
    mask.paste(255, (left, top, right, bottom))
    return mask


MASK = box(20, 10, 70, 50)
"""Touches columns 1 to 4 and rows 0 to 3."""


def inside_grid() -> np.ndarray:
    found = np.zeros((GRID, GRID), dtype=bool)
    found[0:4, 1:5] = True
    return found


def scrambled(picture: Image.Image, seed: int = 0) -> Image.Image:
    """The same inside, noise outside."""
    noise = np.random.default_rng(seed).integers(0, 256, (*picture.size[::-1], 3), dtype=np.uint8)
    return Image.composite(picture, Image.fromarray(noise), MASK)


def small(tiny: str, notify: Notify = log, **options: Any) -> HyperFSAD:
    return HyperFSAD.of(Settings(tiny, resolution=84, device="cpu", **options), notify)


@pytest.mark.parametrize("rotations", [1, 4])
def test_nothing_outside_changes_anything(tiny: str, rotations: int) -> None:
    good = [make_picture(seed) for seed in (0, 1)]
    query = make_picture(7)
    detector = small(tiny, roi=MASK, rotations=rotations).fit(good)
    other = small(tiny, roi=MASK, rotations=rotations).fit([scrambled(g, 5) for g in good])
    result = detector.predict(query)
    for asked in (detector, other):
        found = asked.predict(scrambled(query, 9))
        assert (found.score, found.score_map, found.score_cls) == (
            result.score,
            result.score_map,
            result.score_cls,
        )
        assert (found.anomaly_map == result.anomaly_map).all()
        assert found.scale == result.scale
    assert small(tiny).fit(good).predict(query).score != result.score
    changed = np.asarray(query).copy()
    changed[30:34, 40:44] = 255 - changed[30:34, 40:44]
    assert detector.predict(Image.fromarray(changed)).score != result.score


def test_deep_grey_pictures_are_hidden_too(tiny: str) -> None:
    rng = np.random.default_rng(0)
    good = rng.integers(0, 65536, (80, 96), dtype=np.uint16)
    detector = small(tiny, roi=MASK).fit(good)
    query = rng.integers(0, 65536, (80, 96), dtype=np.uint16)
    other = np.where(np.asarray(MASK) > 0, query, 0).astype(np.uint16)
    assert detector.predict(query).score == detector.predict(other).score


def test_the_map_is_zero_outside_and_pooling_counts_the_inside(tiny: str) -> None:
    detector = small(tiny, roi=MASK, pooling="top-50%").fit(make_picture(0))
    result = detector.predict(make_picture(3))
    assert result.inside is not None
    assert (result.inside == inside_grid()).all()
    assert (result.anomaly_map[~inside_grid()] == 0).all()
    assert (result.anomaly_map[inside_grid()] > 0).all()
    one = small(tiny, roi=MASK, pooling="top-50%", smooth=False).fit(make_picture(0))
    values = one.predict(make_picture(3))
    best = np.sort(values.anomaly_map[inside_grid()])[::-1][:8]
    assert values.score_map == pytest.approx(float(best.mean()), abs=1e-6)


def test_only_patches_inside_are_matched(tiny: str) -> None:
    detector = small(tiny, roi=MASK, rotations=1, smooth=False)
    detector.fit([make_picture(0), make_picture(1)])
    kept = inside_grid().ravel()
    how, region = detector.view_.rules.comparison, detector.view_.region
    rows = region.rows(detector.memory_, GRID)
    assert rows is not None
    assert np.array_equal(rows, np.tile(kept, 2))
    image = detector.encoder_.encode([detector.view_.visible(LoadedImage("q", make_picture(5)))])
    found = detector.score_tokens(image)[0]
    expected = []
    for query, memory in zip(image.patches[0], detector.memory_.patches, strict=True):
        q, m = query[kept], memory[rows]
        weights = _sparsemax(how.sharpness * q @ m.T)
        expected.append(1 - cosines(q, weights @ m))
    shown = found.anomaly_map.ravel()
    assert shown[kept] == pytest.approx(np.mean(expected, axis=0), abs=1e-5)
    assert (shown[~kept] == 0).all()


def _sparsemax(z: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = z.astype(np.float64)
    ordered = -np.sort(-wide, axis=-1)
    count = np.arange(1, z.shape[1] + 1)
    sums = ordered.cumsum(axis=-1)
    size = (1 + count * ordered > sums).sum(axis=-1, keepdims=True)
    tau = (np.take_along_axis(sums, size - 1, -1) - 1) / size
    return np.asarray(np.maximum(wide - tau, 0))


@pytest.mark.parametrize(
    "roi",
    [
        "20,10 70,10 70,50 20,50",
        [(20, 10), (70, 10), (70, 50), (20, 50)],
        np.asarray(MASK),
        MASK.resize((960, 800), Image.Resampling.NEAREST),
        Image.fromarray((np.asarray(MASK) > 0).astype(np.uint8)),
        "file",
        "cut-out",
        np.dstack([np.zeros((80, 96, 3), np.uint8), np.asarray(MASK)]),
    ],
)
def test_masks_and_polygons_of_any_kind(tiny: str, tmp_path: Path, roi: object) -> None:
    if isinstance(roi, str) and roi == "file":
        roi = tmp_path / "mask.png"
        MASK.save(roi)
    if isinstance(roi, str) and roi == "cut-out":  # black on clear, as image editors save it
        roi = tmp_path / "cut-out.png"
        Image.merge("LA", (Image.new("L", SIZE), MASK)).save(roi)
    detector = small(tiny, roi=roi).fit(make_picture(0))
    result = detector.predict(make_picture(1))
    assert result.inside is not None
    assert (result.inside == inside_grid()).all()


def test_what_is_no_region_is_told(tiny: str, tmp_path: Path) -> None:
    black = tmp_path / "black.png"
    Image.new("L", SIZE).save(black)
    wide = tmp_path / "wide.png"
    box(0, 0, 50, 50, (200, 80)).save(wide)
    cases: list[tuple[Any, str, dict[str, Any]]] = [
        (black, "roi-mask-empty", {"mask": str(black)}),
        (wide, "roi-mask-shape", {"size": "200×80", "of": "96×80"}),
        (tmp_path / "none.png", "roi-mask-unusable", {}),
        ("none.png", "roi-unknown", {"given": "none.png"}),
        ("a,b c,d", "roi-unknown", {"given": "a,b c,d"}),
        ("10,10 13,10 13,13 10,13", "roi-too-small", {"patches": 1, "grid": 6}),
        (Image.new("RGBA", SIZE, (255, 255, 255, 0)), "roi-mask-empty", {}),
        ("10,10 20,20", "roi-few-corners", {"given": 2}),
        ("10,10 20,20 10,10 20,20", "roi-few-corners", {"given": 2}),
        ("10,10 20,20 30,30", "roi-encloses-nothing", {}),
        ("10,10 97,20 30,50", "roi-corner-outside", {"x": 97, "y": 20, "width": 96}),
        ("-1,10 90,20 30,50", "roi-corner-outside", {"x": -1, "y": 10}),
    ]
    for roi, code, facts in cases:
        with raises(UsageError, code, **facts):
            small(tiny, roi=roi).fit(make_picture(0))
    for roi in (7, [(1, 2, 3)], {"x": 1}):
        with raises(UsageError, "roi-invalid"):
            small(tiny, roi=roi)


def test_pictures_of_another_shape_are_left_out_and_told(tiny: str, photos: Path) -> None:
    make_picture(8, (96, 60)).save(photos / "wrong.png")
    with pytest.warns(
        HyperfsadWarning, match=r"wrong\.png is 96×60 pixels; the region of interest"
    ):
        detector = small(tiny, roi=MASK).fit(photos)
    assert len(detector.memory_) == 5
    results = list(detector.predict_many([photos / "wrong.png", photos / "0.png"]))
    assert results[1].error is None
    with raises(ImageError, "roi-shape") as caught:
        detector.predict(photos / "wrong.png")
    assert results[0].error == str(caught.value)
    assert detector.predict(make_picture(1, (192, 160))).error is None


def test_a_detector_is_fitted_anew_with_its_polygon(tiny: str) -> None:
    detector = small(tiny, roi="20,10 70,10 70,50 20,50").fit(make_picture(0))
    large = detector.fit(make_picture(0, (240, 200))).predict(make_picture(1, (240, 200)))
    assert large.inside is not None
    assert large.inside.sum() == 4


def test_it_is_saved_with_the_detector(tiny: str, photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "part.hfsad"
    detector = small(tiny, roi=MASK).fit([photos / "0.png", photos / "1.png"])
    detector.save(path)
    again = HyperFSAD.load(path, device="cpu")
    for name in ("2.png", "3.png"):
        one, other = detector.predict(photos / name), again.predict(photos / name)
        assert one.score == other.score
        assert (one.anomaly_map == other.anomaly_map).all()
    assert again.identity() == detector.identity()
    assert again.identity() != small(tiny).fit([photos / "0.png", photos / "1.png"]).identity()
    other_mask = small(tiny, roi=box(20, 10, 80, 50)).fit([photos / "0.png", photos / "1.png"])
    assert again.identity() != other_mask.identity()
    assert np.array_equal(
        again.extend(photos / "4.png").memory_.cls, detector.extend(photos / "4.png").memory_.cls
    )
    again.save(tmp_path / "again.hfsad")
    detector.save(path)
    assert path.read_bytes() == (tmp_path / "again.hfsad").read_bytes()


@pytest.mark.parametrize("damage", ["gone", "empty", "large", "kind", "bits"])
def test_a_damaged_region_is_told(tiny: str, tmp_path: Path, damage: str) -> None:
    import json
    import zlib

    path = tmp_path / "part.hfsad"
    small(tiny, roi=MASK).fit(make_picture(0)).save(path)
    with safe_open(path, framework="np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()["hyperfsad"])
    if damage == "gone":
        del tensors["roi"]
    else:
        tensors["roi"] = {
            "empty": np.zeros_like(tensors["roi"]),
            "large": np.ones((MAX_MASK_SIDE + 1, 3), dtype=np.uint8),
            "kind": np.ones((80, 96), dtype=np.float32),
            "bits": 255 - tensors["roi"],
        }[damage]
        if damage != "bits":
            header["crc32"]["roi"] = zlib.crc32(tensors["roi"].data)
    save_sealed(tensors, path, json.dumps(header))
    with raises(DetectorFileError, "file-damaged"):
        HyperFSAD.load(path)


def test_thin_regions_of_large_masks_are_kept() -> None:
    mask = np.zeros((4000, 3000), dtype=np.uint8)
    mask[:, 1501] = 255
    roi = make_region(mask, (300, 400), 20)
    assert isinstance(roi, Roi)
    assert max(roi.mask.shape) == MAX_MASK_SIDE
    assert roi.mask.any(axis=1).all()
    columns = roi.touched(20).reshape(20, 20)
    assert columns[:, 10].all()
    assert columns.sum() == 20


def test_a_turned_view_shows_only_what_was_inside() -> None:
    roi = Roi(np.asarray(box(0, 0, 48, 80)) > 0, SIZE[0] / SIZE[1])
    left = np.arange(GRID) < 3
    assert np.array_equal(roi.touched(GRID).reshape(GRID, GRID), np.tile(left, (GRID, 1)))
    assert np.array_equal(roi.touched(GRID, 180.0).reshape(GRID, GRID), ~np.tile(left, (GRID, 1)))
    tokens = np.zeros((72, 4), dtype=np.float32)
    good = NormalImage("good", "hash")
    bank = MemoryBank((tokens,), np.zeros((2, 1, 4), dtype=np.float32), (good, good))
    rows = roi.rows(bank, GRID).reshape(2, -1)
    assert np.array_equal(rows[0], roi.touched(GRID))
    assert not rows[1].any()


def test_nothing_outside_is_reported_or_explained(tiny: str, photos: Path) -> None:
    detector = small(tiny, roi=MASK).fit(photos / "0.png")
    detector.map_threshold_ = 1e-6
    result = detector.predict(photos / "1.png")
    assert result.regions
    for region in result.regions:
        assert region.peak is not None
        column, row = int(region.peak.x / 16), int(region.peak.y * 6 / 80)
        assert inside_grid()[row, column]
    evidence = result.evidence()
    assert inside_grid()[evidence.row, evidence.column]
    unexplained = [layer.unexplained for layer in evidence.layers]
    assert evidence.value == pytest.approx(sum(unexplained) / len(unexplained), abs=1e-6)
    for layer in evidence.layers:
        assert sum(n.weight for n in layer.neighbours) == pytest.approx(1, abs=1e-5)
        assert all(inside_grid()[n.row, n.column] for n in layer.neighbours)
    same = detector.explain(photos / "0.png", 40, 30)
    assert (same.row, same.column) == (2, 2)
    nearest = same.layers[0].neighbours[0]
    assert (nearest.row, nearest.column) == (2, 2)
    with raises(UsageError, "place-outside-roi", x=90, y=75):
        result.evidence(90, 75)


def test_pictures_show_the_outline(tiny: str, photos: Path) -> None:
    framed = small(tiny, roi=MASK).fit(photos / "0.png", threshold=False).predict(photos / "1.png")
    blue = (np.asarray(framed.plot()).astype(int)[:80] == (0, 150, 200)).all(axis=2)
    assert blue.any(axis=0).sum() >= 60
    assert (
        not (
            np.asarray(small(tiny).fit(photos / "0.png").predict(photos / "1.png").plot())[:80]
            == (0, 150, 200)
        )
        .all(axis=2)
        .any()
    )


def part_tokens(images: int, grid: int = 8, texture: bool = False) -> MemoryBank:
    """Tokens of a part in the middle, another direction than what surrounds it."""
    tokens = 0.1 * np.random.default_rng(images).standard_normal((images, grid, grid, 6))
    tokens[..., 0] += 1
    if not texture:
        tokens[:, 2:6, 3:6, 0] -= 1
        tokens[:, 2:6, 3:6, 1] += 1
        tokens[:, 3, 4] = tokens[:, 0, 0]  # a hole, which is filled
        tokens[:, 0, 7] = tokens[:, 3, 3]  # a speck, which goes
    rows = unit(tokens.reshape(-1, 6))
    names = tuple(NormalImage(str(place), str(place)) for place in range(images))
    return MemoryBank((rows,), rows[:images, None], names)


@pytest.mark.parametrize("images", [1, 3])
def test_the_part_is_found(images: int) -> None:
    bank = part_tokens(images)
    found = find_foreground(bank, 8)
    assert found is not None
    expected = np.zeros((8, 8), dtype=bool)
    expected[1:7, 2:7] = True
    assert found.rows(bank, 8) is None  # all are compared with
    assert np.array_equal(found.patches([bank.patches_of(0)[0]], 8), expected.flatten())
    query = part_tokens(5)
    assert np.array_equal(found.patches([query.patches_of(2)[0]], 8), expected.flatten())
    nothing = part_tokens(1, texture=True)
    assert found.patches(nothing.patches, 8).all()  # an empty picture is looked at as a whole


def test_textures_have_no_foreground(tiny: str) -> None:
    assert find_foreground(part_tokens(2, texture=True), 8) is None
    said: list[str] = []
    noise = np.random.default_rng(0).integers(0, 256, (90, 90, 3), dtype=np.uint8)
    detector = small(tiny, roi="auto", notify=said.append).fit(noise)
    assert [text for text in said if "the region of interest is the whole picture" in text]
    assert detector.predict(make_picture(0)).inside is None
    assert (
        detector.predict(make_picture(0)).score
        == small(tiny).fit(noise).predict(make_picture(0)).score
    )


def test_an_automatic_region_is_used_and_saved(tiny: str, tmp_path: Path) -> None:
    def photo(seed: int) -> Image.Image:
        ground = Image.new("RGB", (84, 84), (250, 250, 250))
        ground.paste(make_picture(seed, (36, 36)), (24 + seed, 22))
        return ground

    said: list[str] = []
    detector = small(tiny, roi="auto", rotations=1, notify=said.append)
    detector.fit([photo(0), photo(1)], threshold=False)
    assert not said
    result = detector.predict(photo(2))
    assert result.inside is not None
    assert 0 < result.inside.sum() < 36
    assert (result.anomaly_map[~result.inside] == 0).all()
    detector.save(tmp_path / "part.hfsad")
    again = HyperFSAD.load(tmp_path / "part.hfsad", device="cpu").predict(photo(2))
    assert again.score == result.score
    assert (again.anomaly_map == result.anomaly_map).all()
    alone = detector.leaving_out([0]).predict(photo(2))
    assert alone.inside is not None
    assert alone.score != result.score


def test_the_command_line(
    tiny: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    MASK.save(tmp_path / "mask.png")
    path = str(tmp_path / "part.hfsad")
    machine = ["--backbone", tiny, "--device", "cpu"]
    fit = ["fit", str(photos / "0.png"), "-o", path, "--resolution", "84", *machine]
    assert main([*fit, "--roi", str(tmp_path / "mask.png")]) == 0
    assert main(["info", path]) == 0
    assert "region      a mask, 26 % of the picture" in capsys.readouterr().out
    detect = ["detect", str(photos), "-o", str(tmp_path / "out"), *machine]
    assert main([*detect, "--detector", path]) == 0
    with_mask = read_results(tmp_path / "out")
    assert main([*detect, "--detector", path, "--roi", "auto"]) == 2
    assert "--roi is fixed in a saved detector" in capsys.readouterr().err
    normal = ["--normal", str(photos / "0.png"), "--resolution", "84"]
    assert main([*detect, *normal, "--roi", "20,10 70,10 70,50 20,50"]) == 0
    by_polygon = read_results(tmp_path / "out")
    assert [line["score"] for line in by_polygon] == [line["score"] for line in with_mask]
    assert (
        main(["explain", str(photos / "1.png"), "--detector", path, "--at", "90,75", *machine]) == 2
    )
    assert "lies outside the region of interest" in capsys.readouterr().err
    assert main([*fit, "--roi", "1,2 3,4"]) == 2
    assert "at least 3 different corners" in capsys.readouterr().err
