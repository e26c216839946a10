"""A disk that is full, for real: what has its final name is whole, and the error is a sentence."""

import contextlib
import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hyperfsad.errors import HyperfsadError
from hyperfsad.images.loading import load_image, save_picture
from hyperfsad.report.folder import OutputFolder
from tests.codes import raises
from tests.conftest import make_picture
from tests.report.samples import sample_result


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The system writes files up to this size, a part of what is longer, and then refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """A file system of this size."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "bmp", "tiff"])
def test_a_picture_is_whole_or_not_there(tmp_path: Path, suffix: str) -> None:
    picture = make_picture(1, (300, 200))
    save_picture(picture, tmp_path / f"whole.{suffix}")
    whole = (tmp_path / f"whole.{suffix}").stat().st_size
    target = tmp_path / f"a.{suffix}"
    for size in (0, 1, whole // 3, whole - 1):
        with raises(HyperfsadError, "write-failed", path=target), largest_file(size):
            save_picture(picture, target)
        assert os.listdir(tmp_path) == [f"whole.{suffix}"]
    with largest_file(whole):
        save_picture(picture, target)
    assert load_image(target).size == (300, 200)


@pytest.mark.parametrize("size", [16, 40, 64, 96, 160])
def test_a_run_on_a_full_disk_leaves_nothing_cut_off(tmp_path: Path, size: int) -> None:
    with small_disk(tmp_path / "disk", size * 1024) as disk:
        with (
            raises(HyperfsadError, "write-failed", error=errno.ENOSPC),
            OutputFolder(disk / "out", run="r", maps=True).open() as output,
        ):
            for number in range(100):
                name = str(tmp_path / f"{number}.png")
                output.add(sample_result(name, number, peak=0.5, map_threshold=0.3))
        for path in disk.rglob("*.jpg"):
            with Image.open(path) as picture:
                picture.load()
        for path in disk.rglob("*.npy"):
            assert np.load(path).shape == (6, 6)
        assert not list(disk.rglob("*.tmp"))
