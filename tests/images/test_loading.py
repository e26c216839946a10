"""Every kind of picture, every kind of bad file."""

import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hyperfsad.errors import ImageError, UsageError
from hyperfsad.images.loading import (
    batched,
    draft,
    drawn_image,
    load_image,
    opened_picture,
    read_image,
)
from hyperfsad.images.reading import find_images, is_collection
from hyperfsad.messages import Notice
from tests.codes import raises
from tests.conftest import make_picture

MEAN, STD = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


def grey_level(source: str | Path | np.ndarray) -> float:
    """The mean of the encoder's input, on 0 to 255."""
    return float(load_image(source).to_array(28, MEAN, STD).mean() * 255)


def test_an_rgb_file_is_squashed_and_normalised(tmp_path: Path) -> None:
    image = make_picture(1, (60, 40))
    image.save(tmp_path / "a.png")
    loaded = load_image(tmp_path / "a.png")
    assert loaded.size == (60, 40)
    array = loaded.to_array(28, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7))
    small = np.asarray(image.resize((28, 28), Image.Resampling.BICUBIC)) / 255
    expected = (small - [0.1, 0.2, 0.3]) / [0.5, 0.6, 0.7]
    assert array.shape == (3, 28, 28)
    assert array.dtype == np.float32
    assert np.abs(array.transpose(1, 2, 0) - expected).max() < 1e-6


def test_16_bit_grey_keeps_one_fixed_scale(tmp_path: Path) -> None:
    for level in (257 * 10, 257 * 200):
        deep = np.full((20, 20), level, dtype=np.uint16)
        Image.fromarray(deep).save(tmp_path / "deep.png")
        assert grey_level(tmp_path / "deep.png") == pytest.approx(level / 257, abs=1e-3)
        assert grey_level(deep) == pytest.approx(level / 257, abs=1e-3)
    fine = np.full((20, 20), 257 * 10 + 64, dtype=np.uint16)  # less than one 8-bit step
    assert grey_level(fine) == pytest.approx(10.249, abs=1e-3)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (1.01, "image-float-range"),
        (-0.1, "image-float-range"),
        (np.nan, "image-not-finite"),
        (np.inf, "image-not-finite"),
    ],
)
def test_float_grey_outside_it_is_refused(tmp_path: Path, value: float, code: str) -> None:
    values = np.full((20, 20), 0.5, dtype=np.float32)
    Image.fromarray(values).save(tmp_path / "f.tiff")
    assert grey_level(tmp_path / "f.tiff") == pytest.approx(127.5, abs=1e-3)
    values[3, 4] = value
    Image.fromarray(values).save(tmp_path / "f.tiff")
    for source in (tmp_path / "f.tiff", values):
        with raises(ImageError, code):
            load_image(source)


def test_alpha_is_laid_over_white(tmp_path: Path) -> None:
    Image.new("RGBA", (20, 20), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert grey_level(tmp_path / "clear.png") == pytest.approx(255)
    Image.new("LA", (20, 20), (0, 128)).save(tmp_path / "half.png")
    assert grey_level(tmp_path / "half.png") == pytest.approx(127, abs=1)


def test_palette_with_and_without_transparency(tmp_path: Path) -> None:
    palette = Image.new("P", (20, 20), 1)
    palette.putpalette([0, 0, 0, 200, 100, 0])
    palette.save(tmp_path / "p.png")
    assert np.asarray(load_image(tmp_path / "p.png").rgb())[0, 0].tolist() == [200, 100, 0]
    palette.save(tmp_path / "t.png", transparency=1)
    assert np.asarray(load_image(tmp_path / "t.png").rgb())[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize("mode", ["1", "L", "CMYK", "YCbCr"])
def test_other_colour_modes_become_rgb(tmp_path: Path, mode: str) -> None:
    image = make_picture(2).convert(mode)
    path = tmp_path / ("a.tiff" if mode != "YCbCr" else "a.jpg")
    image.save(path)
    loaded = load_image(path)
    assert loaded.pixels.mode == "RGB"
    difference = np.asarray(loaded.rgb()).astype(int) - np.asarray(image.convert("RGB"))
    assert np.abs(difference).mean() < 3


def test_an_exif_rotated_jpeg_stands_upright(tmp_path: Path) -> None:
    image = Image.new("RGB", (40, 20), "black")
    image.paste("white", (0, 0, 20, 20))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the left side is up
    image.save(tmp_path / "turned.jpg", exif=exif)
    loaded = load_image(tmp_path / "turned.jpg")
    assert loaded.size == (20, 40)
    upright = np.asarray(loaded.rgb()).mean(axis=2)
    assert upright[:18].mean() > 240
    assert upright[22:].mean() < 15


def test_an_animation_gives_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("L", (20, 20), level) for level in (40, 200)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert grey_level(tmp_path / "a.gif") == pytest.approx(40, abs=1)


def huge_png(path: Path, side: int) -> None:
    """A valid PNG header for a picture that would need gigabytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = (
        chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def test_bad_files_are_named_in_one_sentence(tmp_path: Path) -> None:
    make_picture(3).save(tmp_path / "whole.png")
    content = (tmp_path / "whole.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(content[: len(content) // 2])
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("not a picture")
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "folder.png").mkdir()
    Image.new("RGB", (1, 1)).save(tmp_path / "dot.png")
    Image.new("RGB", (3, 4000)).save(tmp_path / "sliver.png")
    huge_png(tmp_path / "bomb.png", 30_000)
    Image.new("LAB", (20, 20)).save(tmp_path / "lab.tiff")
    os.mkfifo(tmp_path / "pipe.png")
    expected = {
        "cut.png": "image-damaged",
        "empty.png": "image-empty",
        "text.png": "image-unsupported",
        "link.png": "image-link",
        "missing.png": "image-missing",
        "folder.png": "image-unreadable",
        "pipe.png": "image-unreadable",
        "dot.png": "image-too-small",
        "sliver.png": "image-too-small",
        "bomb.png": "image-too-large",
        "lab.tiff": "image-mode",
        "\0": "image-path",
    }
    for name, code in expected.items():
        with raises(ImageError, code, name=str(tmp_path / name)) as caught:
            load_image(tmp_path / name)
        sentence = str(caught.value)
        assert sentence.endswith(".")
        assert "\n" not in sentence


@contextmanager
def without_privileges() -> Iterator[Path]:
    """A folder that anyone may open; the superuser, who may read everything, is somebody else."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        user = os.geteuid()
        try:
            yield Path(folder)
        finally:
            os.seteuid(user)


def give_up_privileges() -> None:
    if os.geteuid() == 0:
        os.seteuid(65534)


def test_a_file_without_permission_is_named() -> None:
    with without_privileges() as folder:
        make_picture(4).save(folder / "secret.png")
        (folder / "secret.png").chmod(0)
        give_up_privileges()
        with raises(ImageError, "image-unreadable", reason="permission denied"):
            load_image(folder / "secret.png")


@pytest.mark.parametrize("name", ["with space.png", "Prüfstück äöü.png", "-rf.png", "a[1].png"])
def test_names_of_all_kinds(tmp_path: Path, name: str) -> None:
    make_picture(5).save(tmp_path / name)
    assert load_image(tmp_path / name).name == str(tmp_path / name)
    assert find_images([tmp_path]).paths == [str(tmp_path / name)]
    assert find_images([tmp_path / name]).paths == [str(tmp_path / name)]


def test_arrays_and_pil_images_are_equal_to_files(tmp_path: Path) -> None:
    image = make_picture(6)
    image.save(tmp_path / "a.png")
    hashes = {load_image(s).sha256() for s in (tmp_path / "a.png", image, np.asarray(image))}
    image.save(tmp_path / "a.bmp")
    hashes.add(load_image(tmp_path / "a.bmp").sha256())
    assert len(hashes) == 1
    assert load_image(make_picture(7)).sha256() not in hashes


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (np.zeros((20, 20, 2), np.uint8), "array-shape"),
        (np.zeros((2, 20, 20, 3), np.uint8), "array-shape"),
        (np.zeros((0, 20, 3), np.uint8), "array-shape"),
        (np.zeros((20, 20), np.int64), "array-type"),
    ],
)
def test_other_arrays_are_refused(array: np.ndarray, code: str) -> None:
    with raises(ImageError, code):
        load_image(array)


def test_other_objects_are_refused() -> None:
    with raises(UsageError, "image-type", given="3"):
        load_image(3)  # type: ignore[arg-type]


def test_folders_are_searched_below_in_a_fixed_order(tmp_path: Path) -> None:
    names = ["b.png", "a/z.PNG", "a/b/c.jpg", "a.png", "Thumbs.db", "x.lnk", "._a.png", ".h/q.png"]
    for name in reversed(names):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.touch()
    found = find_images([tmp_path])
    assert [os.path.relpath(path, tmp_path) for path in found.paths] == [
        "a/b/c.jpg",
        "a/z.PNG",
        "a.png",
        "b.png",
    ]
    (note,) = found.notes
    assert (note.code, note.facts["ignored"]) == ("files-ignored", ["Thumbs.db", "x.lnk"])


def test_heat_maps_of_another_run_are_not_parts(tmp_path: Path) -> None:
    for name in ("a.png", "out/results.jsonl", "out/heatmaps/a-1.jpg", "heatmaps/mine.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [os.path.relpath(path, tmp_path) for path in find_images([tmp_path]).paths]
    assert found == ["a.png", "heatmaps/mine.jpg"]


def test_a_folder_that_cannot_be_opened_is_named_and_the_others_are_used() -> None:
    with without_privileges() as folder:
        (folder / "a.png").touch()
        (folder / "closed").mkdir(mode=0)
        give_up_privileges()
        found = find_images([folder])
        with raises(UsageError, "no-images"):
            find_images([folder / "closed"])
    assert found.paths == [str(folder / "a.png")]
    assert found.failed
    facts = {"folder": str(folder / "closed"), "reason": "permission denied"}
    assert found.notes == [Notice("folder-unreadable", **facts)]


def test_a_folder_linked_into_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    (tmp_path / "again").symlink_to(tmp_path)
    assert find_images([tmp_path]).paths == [str(tmp_path / "a.png")]


def test_paths_stay_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.png").touch()
    monkeypatch.chdir(tmp_path)
    assert find_images(["p/"]).paths == ["p/a.png"]
    assert find_images(["./p"]).paths == ["./p/a.png"]
    assert find_images(["p/*.png", "./p/a.png"]).paths == ["p/a.png"]
    assert is_collection("p")
    assert is_collection("p/*.png")
    assert not is_collection("p/a.png")


def test_nothing_to_find_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "others").mkdir()
    for number in range(5):
        (tmp_path / "others" / f"{number}.txt").touch()
    expected = {
        "empty": "folder-without-images",
        "others": "folder-without-images",
        "nowhere": "path-missing",
        "*.png": "pattern-unmatched",
    }
    for name, code in expected.items():
        with raises(UsageError, "no-images") as caught:
            find_images([f"{tmp_path}/{name}"])
        assert [note.code for note in caught.value.facts["notes"]] == [code]
        if name == "others":
            assert "ignored: 0.txt, 1.txt, 2.txt and 2 more." in str(caught.value)
    with raises(UsageError, "no-images", notes=[]):
        find_images([])


def test_batches_are_taken_lazily() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    batches = batched(items(), 3)
    assert next(batches) == [0, 1, 2]
    assert len(taken) == 3
    assert list(batched(range(4), 3)) == [[0, 1, 2], [3]]


def test_the_content_of_a_file_is_read_like_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    make_picture(1).save(path)
    assert read_image(path.read_bytes(), str(path)).sha256() == load_image(path).sha256()
    small = tmp_path / "small.png"
    make_picture(1, (4, 40)).save(small)
    cut = tmp_path / "cut.png"
    cut.write_bytes(path.read_bytes()[:300])
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.png").write_bytes(b"no picture")
    for bad in (small, cut, tmp_path / "empty.png", tmp_path / "text.png"):
        with pytest.raises(ImageError) as here:
            load_image(bad)
        with pytest.raises(ImageError) as there:
            read_image(bad.read_bytes(), str(bad))
        assert (there.value.code, there.value.facts) == (here.value.code, here.value.facts)


def test_a_large_jpeg_is_never_decoded_whole_to_look_at_it(tmp_path: Path) -> None:
    path = str(tmp_path / "a.jpg")
    Image.new("RGB", (800, 600), (90, 100, 110)).save(path)
    with opened_picture(path, "a.jpg") as image:
        draft(image, 50 * 40)
        assert image.size == (100, 75)
    shown = drawn_image(path, "a.jpg", 50 * 40)
    assert shown.size == (50, 38)
    assert shown.rgb().getpixel((9, 9)) == (90, 100, 110)
    assert drawn_image(path, "a.jpg").size == (800, 600)
