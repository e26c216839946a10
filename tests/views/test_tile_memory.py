"""Tile-wise memory: exact near a place and everywhere, on disk, and never all in memory."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.errors import DetectorFileError, HyperfsadError
from hyperfsad.images.loading import NormalImage
from hyperfsad.method.matching import MIN_PRUNED_ROWS, Comparison, Matcher
from hyperfsad.method.memory import MemoryBank
from hyperfsad.views import tile_memory
from hyperfsad.views.tile_files import NormalTiles, TileFile, write_tiles
from hyperfsad.views.tile_memory import TileMemory
from hyperfsad.views.tiling import Tiling
from tests.codes import raises
from tests.tokens import unit

GRID, LAYERS, WIDTH = 16, 2, 24
PLAIN = np.zeros(0, dtype=np.float32)
"""The kind of array that tokens become."""
Tokens = NDArray[np.float32]
HOW = Comparison(GRID, sharpness=16.0)


def random_tiles(seed: int, size: tuple[int, int], spool: TileFile | None = None) -> NormalTiles:
    """The tiles of an image of unit tokens that resemble each other."""
    tiling = Tiling.of(size, 160, GRID)
    tiles = (random_tokens(1000 * seed + number) for number in range(len(tiling)))
    return write_tiles(spool or TileFile(), tiling, tiles)


def random_tokens(seed: int) -> Tokens:
    base = np.random.default_rng(7).standard_normal((LAYERS, 1, WIDTH))
    own = np.random.default_rng(seed).standard_normal((LAYERS, GRID**2, WIDTH))
    return unit(base + own)


def plainly(images: list[NormalTiles], places: list[tuple[int, int]], query: Tokens) -> Tokens:
    """As the matcher of whole images does it, with each tile as one image."""
    tiles = [images[image].tokens(number) for image, number in places]
    patches = tuple(np.concatenate(layer) for layer in zip(*tiles, strict=True))
    names = tuple(NormalImage(str(number), str(number)) for number in range(len(tiles)))
    bank = MemoryBank(patches, np.zeros((len(tiles), LAYERS, WIDTH), dtype=np.float32), names)
    found: NDArray[np.float32] = Matcher(bank.patches, HOW).distances(tuple(query))
    return found


def test_tokens_come_back_as_they_were_but_for_half_precision() -> None:
    tiles = random_tiles(3, (500, 300))
    for number in (0, 4, len(tiles) - 1):
        expected = random_tokens(3000 + number)
        assert tiles.tokens(number) == pytest.approx(expected, abs=5e-4, rel=1e-3)


def test_few_tiles_are_all_compared() -> None:
    images = [random_tiles(1, (400, 300)), random_tiles(2, (300, 500))]
    memory = TileMemory(images, HOW, PLAIN)
    assert memory.everywhere
    query = random_tokens(9)
    everything = [(i, n) for i, image in enumerate(images) for n in range(len(image))]
    for place in ((0.1, 0.9), (0.5, 0.5)):
        found = memory.distances(tuple(query), *place)
        assert found == pytest.approx(plainly(images, everything, query), abs=1e-5)


def test_of_many_tiles_those_around_the_place_are_compared_and_exactly() -> None:
    images = [random_tiles(1, (1600, 900)), random_tiles(2, (900, 1200))]
    memory = TileMemory(images, HOW, PLAIN)
    assert not memory.everywhere
    query = random_tokens(9)
    for x, y in ((0.5, 0.5), (0.0, 0.0), (1.0, 0.5)):
        places = memory.places(x, y)
        assert len(places) == 18
        assert len(places) * GRID**2 >= MIN_PRUNED_ROWS
        for image, number in places:
            tiling = images[image].tiling
            apart = np.abs(np.array(tiling.centre(number)) - (x, y))
            assert (apart * (tiling.columns, tiling.rows) <= 2.5 * GRID).all()
        found = memory.distances(tuple(query), x, y)
        assert found == pytest.approx(plainly(images, places, query), abs=2e-6, rel=1e-5)


@pytest.mark.parametrize(("count", "each"), [(4, 9), (5, 4), (9, 4), (10, 1)])
def test_of_many_images_fewer_tiles_are_compared_of_each(count: int, each: int) -> None:
    images = [random_tiles(seed, (700, 400)) for seed in range(count)]
    assert len(TileMemory(images, HOW, PLAIN).places(0.5, 0.5)) == count * each


def test_tiles_are_read_when_needed_and_only_so_many_are_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    content = NormalTiles.content

    def noted(tiles: NormalTiles, number: int) -> bytes:
        read.append(number)
        return content(tiles, number)

    monkeypatch.setattr(NormalTiles, "content", noted)
    monkeypatch.setattr(tile_memory, "ALL_HELD_TILES", 8)
    image = random_tiles(1, (1000, 400))
    memory = TileMemory([image], Comparison(GRID, sharpness=64.0), PLAIN)
    query = tuple(random_tokens(9))
    memory.distances(query, 0.5, 0.5)
    assert len(read) <= tile_memory.AXES_TILES + 9
    held = memory._held
    monkeypatch.setattr(tile_memory, "HELD_BYTES", 12 * next(iter(held.values())).size)
    read.clear()
    for number in range(len(image)):
        memory.distances(query, *image.tiling.centre(number))
        assert len(held) <= 12
    columns = image.tiling.shape[1]
    assert len(read) <= 3 * (columns + 2) * image.tiling.shape[0]  # three new ones at each step


def test_a_lone_image_against_itself_leaves_out_what_shares_pixels() -> None:
    tiling = Tiling.of((600, 300), 160, GRID)
    shape = LAYERS, tiling.rows, tiling.columns, WIDTH
    field = np.random.default_rng(3).standard_normal(shape)
    tiles = []
    for number in range(len(tiling)):  # neighbouring tiles have the same tokens where they overlap
        tile = tiling[number]
        cut = field[:, tile.row : tile.row + GRID, tile.column : tile.column + GRID]
        tiles.append(unit(cut).reshape(LAYERS, -1, WIDTH))
    image = write_tiles(TileFile(), tiling, tiles)
    memory = TileMemory([image], HOW, PLAIN)
    itself = memory.distances(tuple(image.tokens(1)), *tiling.centre(1))
    assert float(itself.max()) < 0.01
    assert float(memory.self_distances(0, 1).min()) > 0.1


def test_a_full_disk_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    spool = TileFile()
    with open("/dev/full", "w+b", buffering=0) as full:
        monkeypatch.setattr(spool, "_file", full)
        with raises(HyperfsadError, "tile-spool-full", reason="the disk is full"):
            spool.append(b"x" * 100)


def test_a_folder_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/nowhere/at/all")
    with raises(HyperfsadError, "tile-spool-full", folder="/nowhere/at/all"):
        TileFile()


def test_a_spool_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tiles = random_tiles(1, (300, 300))
    del tiles
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_changed_or_went_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    tiles = random_tiles(1, (300, 300))
    path = tmp_path / "tiles"
    path.write_bytes(b"".join(tiles.contents()))
    saved = NormalTiles(tiles.tiling, TileFile(path), 0, tiles.shape, tiles.crc32)
    assert np.array_equal(saved.tokens(1), tiles.tokens(1))
    content = bytearray(path.read_bytes())
    content[saved.tile_bytes + 5] ^= 1
    path.write_bytes(content)
    assert np.array_equal(saved.tokens(0), tiles.tokens(0))
    with raises(DetectorFileError, "tile-damaged"):
        saved.tokens(1)
    path.write_bytes(content[:-1])
    with raises(DetectorFileError, "tile-damaged"):
        saved.tokens(len(saved) - 1)
    saved.file.close()
    path.unlink()
    with raises(DetectorFileError, "tile-unreadable"):
        saved.tokens(0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused(value: float) -> None:
    tiling = Tiling.of((100, 100), 160, GRID)
    tokens = random_tokens(1)
    tokens[1, 2, 3] = value
    with raises(DetectorFileError, "tile-damaged"):
        write_tiles(TileFile(), tiling, [tokens]).tokens(0)


def test_temporary_files_go_to_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(os, "access", lambda path, mode: path == "/var/tmp")
    assert TileFile().name == "The temporary file in /var/tmp"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert TileFile().name == f"The temporary file in {tempfile.gettempdir()}"
