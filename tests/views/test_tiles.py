"""Detectors that cut images into tiles: the same after saving, extending and leaving out."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.detector.file import KEY
from hyperfsad.errors import DetectorFileError, HyperfsadError, HyperfsadWarning, UsageError
from hyperfsad.images.loading import load_image
from hyperfsad.views.tile_files import NormalTiles, TileFile
from hyperfsad.views.tiled import TiledView
from tests.codes import raises
from tests.conftest import make_picture
from tests.detector.test_file import rewritten

WIDE = (200, 110)


@pytest.fixture
def tiled(tiny: str) -> Callable[[], HyperFSAD]:
    def make() -> HyperFSAD:
        return HyperFSAD(tiny, resolution=84, device="cpu", tiles=60)

    return make


def wide(seed: int, size: tuple[int, int] = WIDE) -> Image.Image:
    return make_picture(seed, size)


@pytest.fixture
def saved(tiled: Callable[[], HyperFSAD], tmp_path: Path) -> Path:
    tiled().fit([wide(1), wide(2)]).save(tmp_path / "wide.hfsad")
    return tmp_path / "wide.hfsad"


def test_the_map_has_the_shape_of_the_image(tiled: Callable[[], HyperFSAD]) -> None:
    detector = tiled().fit(wide(1))
    result = detector.predict(wide(2))
    assert result.anomaly_map.shape == (11, 20)
    assert result.anomaly_map.dtype == np.float32
    assert detector.predict(wide(3, (40, 50))).anomaly_map.shape == (6, 6)
    itself = detector.predict(wide(1)).anomaly_map
    assert itself.max() < 0.05 * result.anomaly_map.max()


def test_one_tile_gives_the_map_without_tiles(tiny: str) -> None:
    images = [wide(1), wide(2)]
    common: dict[str, Any] = {"resolution": 84, "rotations": 1, "missing": 0, "device": "cpu"}
    plain = HyperFSAD(tiny, **common).fit(images)
    tiled = HyperFSAD(tiny, tiles=max(WIDE), **common).fit(images)
    expected, found = plain.predict(wide(3)), tiled.predict(wide(3))
    np.testing.assert_allclose(found.anomaly_map, expected.anomaly_map, atol=1e-3)
    assert found.score == pytest.approx(expected.score, abs=1e-3)
    assert found.score_cls == expected.score_cls
    assert tiled.scale_ == pytest.approx(plain.scale_, abs=2e-3)


def test_a_saved_detector_comes_back(
    tiled: Callable[[], HyperFSAD], saved: Path, tmp_path: Path
) -> None:
    detector, loaded = tiled().fit([wide(1), wide(2)]), HyperFSAD.load(saved, device="cpu")
    assert loaded.tile_side_ == 60
    assert loaded.identity() == detector.identity()
    assert loaded.scale_ == detector.scale_
    assert {image.file.path for image in detector.memory_.extras} == {None}
    assert {image.file.path for image in loaded.memory_.extras} == {saved}
    first, second = detector.predict(wide(3)), loaded.predict(wide(3))
    assert first.score == second.score
    assert np.array_equal(first.anomaly_map, second.anomaly_map)
    loaded.save(tmp_path / "again.hfsad")
    assert (tmp_path / "again.hfsad").read_bytes() == saved.read_bytes()


def test_safetensors_itself_reads_the_file(saved: Path) -> None:
    loaded = HyperFSAD.load(saved, device="cpu")
    with safe_open(saved, framework="np") as file:
        for number, image in enumerate(loaded.memory_.extras):
            tensor = file.get_tensor(f"tiles.{number}")
            assert tensor.dtype == np.float16
            assert tensor.shape == (len(image), *image.shape)
            assert np.array_equal(tensor[-1].astype(np.float32), image.tokens(len(image) - 1))
            crc32 = file.get_tensor(f"tiles.{number}.crc32")
            assert tuple(crc32.tolist()) == image.crc32


def test_extending_is_the_same_as_fitting_on_all(
    tiled: Callable[[], HyperFSAD], tmp_path: Path
) -> None:
    paths = [tmp_path / f"{seed}.png" for seed in (1, 2, 5)]
    for path, picture in zip(paths, (wide(1), wide(2), wide(5, (200, 260))), strict=True):
        picture.save(path)
    saved = tmp_path / "wide.hfsad"
    tiled().fit(paths[:2]).save(saved)
    together = tiled().fit(paths)
    with pytest.warns(HyperfsadWarning, match="was learnt already"):
        grown = HyperFSAD.load(saved, device="cpu").extend([paths[2], wide(2)])
    grown.save(saved)  # over the file that it is reading from
    together.save(tmp_path / "together.hfsad")
    assert saved.read_bytes() == (tmp_path / "together.hfsad").read_bytes()
    expected = together.predict(wide(3)).score
    assert grown.predict(wide(3)).score == expected
    saved.unlink()  # a file that is open can go, as on every system but one
    if os.name == "posix":
        assert grown.predict(wide(3)).score == expected
    grown.save(saved)
    assert HyperFSAD.load(saved, device="cpu").predict(wide(3)).score == expected


def test_leaving_out_is_the_same_as_never_seen(tiled: Callable[[], HyperFSAD]) -> None:
    detector = tiled().fit([wide(1), wide(2), wide(4)])
    before = detector.predict(wide(3)).score
    for entries in detector.memory_.entries:
        rest = [wide(s) for n, s in enumerate((1, 2, 4)) if n not in entries]
        image = detector.prepare(wide(3))
        left = detector.leaving_out(entries).score_images([image])[0]
        assert left.score == tiled().fit(rest).predict(wide(3)).score
    assert detector.predict(wide(3)).score == before


def test_many_tiles_are_read_from_disk_and_never_held(
    tiled: Callable[[], HyperFSAD], saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperfsad.views.tile_memory.ALL_HELD_TILES", 4)
    monkeypatch.setattr("hyperfsad.views.tile_memory.HELD_BYTES", 0)
    loaded = HyperFSAD.load(saved, device="cpu")
    reads: list[int] = []
    content = NormalTiles.content

    def noted(tiles: NormalTiles, number: int) -> bytes:
        reads.append(number)
        return content(tiles, number)

    monkeypatch.setattr(NormalTiles, "content", noted)
    result = loaded.predict(wide(1))
    assert result.anomaly_map.max() < 0.02
    tiles = result.anomaly_map.size // 36
    assert len(reads) > 9 * tiles  # each tile reads those around it again
    assert result.score == tiled().fit([wide(1), wide(2)]).predict(wide(1)).score


def test_images_of_a_run_are_judged_as_alone(tiled: Callable[[], HyperFSAD]) -> None:
    detector = tiled().fit(wide(1))
    small = Image.new("RGB", (3, 3))
    images = [wide(2), small, wide(3, (90, 200)), wide(4)]
    results = list(detector.predict_many(images, keep_pictures=True))
    assert [result.error is None for result in results] == [True, False, True, True]
    for place in (0, 2, 3):
        assert results[place].score == detector.predict(images[place]).score
        assert results[place].plot().size[1] > results[place].size[1]


def test_each_kind_of_damage_is_noticed(saved: Path) -> None:
    with safe_open(saved, framework="np") as file:
        tiles = json.loads(file.metadata()[KEY])["tiles"]
    content = saved.read_bytes()
    broken = bytearray(content)
    broken[-100] ^= 1
    saved.write_bytes(broken)
    loaded = HyperFSAD.load(saved, device="cpu")  # gigabytes are not read only to check them
    with raises(DetectorFileError, "tile-damaged"):
        loaded.predict(wide(3))
    for length in (len(content) - 1, len(content) // 2):
        saved.write_bytes(content[:length])
        with raises(DetectorFileError, "file-damaged"):
            HyperFSAD.load(saved)
    wrongs: list[object] = [
        {**tiles, "side": 90},
        {**tiles, "side": "x"},
        {**tiles, "side": 1},
        {**tiles, "sizes": tiles["sizes"][:1]},
        {**tiles, "sizes": [*tiles["sizes"], [9, 9]]},
        {**tiles, "sizes": [[200, 110], [200, 950]]},
        {**tiles, "sizes": [[1e15, 1e15], [200, 110]]},
        {**tiles, "sizes": [3, 4]},
        {"side": 60},
        [],
    ]
    for wrong in wrongs:
        saved.write_bytes(content)
        rewritten(saved, tiles=wrong)
        with pytest.raises((DetectorFileError, UsageError)) as caught:
            HyperFSAD.load(saved)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [0, 5, -3, 1.5, "320"])
def test_a_side_that_is_none_is_refused(tiny: str, wrong: int) -> None:
    with raises(UsageError, "setting-invalid", name="tiles"):
        HyperFSAD(tiny, resolution=84, tiles=wrong)


def test_true_stands_for_the_resolution_of_the_encoder(tiny: str) -> None:
    assert HyperFSAD(tiny, resolution=84, tiles=True).tile_side_ == 84
    assert HyperFSAD(tiny, resolution=84, tiles=False).tile_side_ is None
    assert HyperFSAD(tiny, resolution=84).tile_side_ is None


def test_a_full_disk_while_learning_leaves_nothing_behind(
    tiled: Callable[[], HyperFSAD], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(spool: TileFile, content: bytes) -> int:
        raise HyperfsadError("write-failed", path=tmp_path, error=errno.ENOSPC)

    detector = tiled().fit(wide(1))
    score = detector.predict(wide(3)).score
    with monkeypatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path))
        patch.setattr(TileFile, "append", refuse)
        with raises(HyperfsadError, "write-failed"):
            detector.extend(wide(2))
    assert list(tmp_path.iterdir()) == []
    assert detector.predict(wide(3)).score == score  # as it was


def test_a_full_disk_while_saving_leaves_nothing_behind(
    tiled: Callable[[], HyperFSAD], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = tiled().fit(wide(1))
    contents = type(detector.memory_.extras[0]).contents

    def full(image: object) -> object:
        yield next(contents(image))
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr("hyperfsad.views.tile_files.NormalTiles.contents", full)
        with raises(
            HyperfsadError, "write-failed", path=tmp_path / "wide.hfsad", error=errno.ENOSPC
        ):
            detector.save(tmp_path / "wide.hfsad")
    assert list(tmp_path.iterdir()) == []
    detector.save(tmp_path / "wide.hfsad")
    assert HyperFSAD.load(tmp_path / "wide.hfsad", device="cpu").tile_side_ == 60


def test_commands(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(3):
        wide(seed).save(tmp_path / f"{seed}.png")
    small = ["--backbone", tiny, "--resolution", "84", "--device", "cpu"]
    detector, out = tmp_path / "d.hfsad", tmp_path / "out"
    assert main(["fit", str(tmp_path / "0.png"), "-o", str(detector), "--tiles", *small]) == 0
    assert HyperFSAD.load(detector).tile_side_ == 84
    first = ["fit", "--tiles", "60", str(tmp_path / "0.png"), "-o", str(detector), *small]
    assert main(first) == 0
    assert HyperFSAD.load(detector).tile_side_ == 60
    detect = ["detect", str(tmp_path / "1.png"), str(tmp_path / "2.png"), "--save-maps"]
    assert main([*detect, "--detector", str(detector), "-o", str(out)]) == 0
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert np.load(out / lines[0]["map"]).shape == (11, 20)
    assert (out / lines[1]["heatmap"]).exists()
    again = [*detect, "--normal", str(tmp_path / "0.png"), "--tiles", "60", "-o", str(out)]
    assert main([*again, *small]) == 0
    others = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [line["score"] for line in others] == [line["score"] for line in lines]
    capsys.readouterr()
    assert main([*detect, "--detector", str(detector), "--tiles", "-o", str(out)]) == 2
    assert "--tiles is fixed in a saved detector" in capsys.readouterr().err
    assert main(["info", str(detector)]) == 0
    assert "60 px" in capsys.readouterr().out
    assert main(["fit", "-o", str(detector), "--tiles", "3", str(tmp_path / "0.png"), *small]) == 2
    assert "--tiles must be a tile's side" in capsys.readouterr().err


def test_a_path_after_tiles_is_told_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["fit", "--tiles", "photos/", "-o", "d.hfsad"])
    assert ended.value.code == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert "'photos/' is not a tile's side in pixels such as 640" in told


def test_large_pictures_are_drawn_reduced(
    tiled: Callable[[], HyperFSAD], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperfsad.results.result.LARGEST_DRAWN", 100 * 100)
    monkeypatch.setattr("hyperfsad.encoders.encoder.LARGEST_DRAWN", 100 * 100)
    detector = tiled().fit(wide(1))
    detector.map_threshold_ = 0.05
    result = detector.predict(wide(2), keep_pictures=True)
    assert result.picture is not None
    assert result.picture.size == (100, 55)
    assert result.regions
    assert result.shown().size == (100, 55)
    assert result.original().size == WIDE
    assert result.plot().tobytes() == detector.predict(wide(2)).plot().tobytes()
    assert load_image(wide(2)).reduced(200 * 110).size == WIDE


def test_evidence_tells_the_neighbours_at_their_true_places(
    tiled: Callable[[], HyperFSAD], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in (1, 2):
        wide(seed, (260, 140)).save(tmp_path / f"{seed}.png")
    names = [str(tmp_path / "1.png"), str(tmp_path / "2.png")]
    shifted = wide(2, (260, 140)).crop((30, 10, 230, 120))  # three and one patches further
    for everywhere in (64, 4):
        monkeypatch.setattr("hyperfsad.views.tile_memory.ALL_HELD_TILES", everywhere)
        detector = tiled().fit(names)
        result = detector.predict(shifted)
        evidence = result.evidence(105, 55)
        assert (evidence.row, evidence.column) == (5, 10)
        assert (evidence.rows, evidence.columns) == result.anomaly_map.shape == (11, 20)
        assert evidence.shown == pytest.approx(float(result.anomaly_map[5, 10]), abs=1e-5)
        assert evidence.bbox == pytest.approx((100, 50, 10, 10))
        unexplained = [layer.unexplained for layer in evidence.layers]
        assert evidence.value == pytest.approx(sum(unexplained) / len(unexplained), abs=1e-5)
        for layer in evidence.layers:
            assert sum(n.weight for n in layer.neighbours) == pytest.approx(1, abs=1e-5)
            for n in layer.neighbours:
                assert n.image in names
                assert 0 <= n.row < n.rows == 14
                assert 0 <= n.column < n.columns == 26
        same = detector.explain(names[1], 105, 55)
        nearest = same.layers[0].neighbours[0]
        assert (nearest.image, nearest.row, nearest.column) == (names[1], 5, 10)
        assert nearest.place == pytest.approx((10 / 26, 5 / 14, 1 / 26, 1 / 14))
    peak = detector.explain(shifted)
    assert peak.shown == pytest.approx(float(result.anomaly_map.max()), abs=1e-5)
    assert json.loads(peak.to_json())["columns"] == 20
    assert f"row {peak.row}, column {peak.column} of 11×20" in peak.to_text()
    assert peak.plot().width > 1000


def test_the_score_is_that_from_close_or_from_afar(tiny: str) -> None:
    image = wide(3)
    settings = {"resolution": 84, "device": "cpu", "precision": "float32"}
    whole = HyperFSAD(tiny, rotations=1, **settings)  # type: ignore[arg-type]
    afar = whole.fit(wide(1), threshold=False).predict(image).score_map
    seen = []
    for side in (20, 60, 200):
        detector = HyperFSAD(tiny, tiles=side, **settings)  # type: ignore[arg-type]
        detector.fit(wide(1), threshold=False)
        assert isinstance(detector.view_, TiledView)
        distances, _ = detector.view_.maps(load_image(image), detector.encoder_)
        close = float(np.sort(distances.ravel())[-1:].mean())  # 0.5 % of 36 patches are one
        assert detector.predict(image).score_map == pytest.approx(max(close, afar), abs=1e-6)
        seen.append(close > 1.01 * afar)
    assert seen == [True, False, False]


def test_a_small_defect_of_a_large_image_is_not_drowned(tiny: str) -> None:
    detector = HyperFSAD(tiny, resolution=84, device="cpu", tiles=60, pooling="top-10%", lam=1.0)
    detector.fit(wide(1, (420, 300)))
    good = wide(1, (420, 300)).point(lambda value: min(value + 3, 255))
    bad = good.copy()
    bad.paste((255, 0, 255), (200, 150, 220, 170))
    alone, defect = detector.predict(good), detector.predict(bad)
    assert defect.score > 2 * alone.score
    values = np.sort(detector.predict(bad, keep_pictures=False).anomaly_map.ravel())[::-1]
    assert defect.score > 0.5 * values[:4].mean()  # four are a tenth of a tile's 36 patches
