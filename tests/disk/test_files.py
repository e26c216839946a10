"""Nothing is ever half there."""

import errno
import os
from pathlib import Path

import pytest

from hyperfsad.disk.files import atomic_folder, atomic_path
from hyperfsad.errors import HyperfsadError


def test_a_file_appears_whole_with_ordinary_permissions(tmp_path: Path) -> None:
    target = tmp_path / "new" / "a.txt"
    with atomic_path(target) as temporary:
        temporary.write_text("all of it")
        assert not target.exists()
    assert target.read_text() == "all of it"
    (tmp_path / "plain").touch()
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("no")])
def test_a_failure_keeps_the_old_file_and_leaves_no_trace(
    tmp_path: Path, error: BaseException
) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(type(error)), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "disk is full"), (errno.EACCES, "not allowed")]
)
def test_refusals_of_the_system_are_one_sentence(tmp_path: Path, code: int, words: str) -> None:
    with pytest.raises(HyperfsadError, match=words), atomic_path(tmp_path / "a") as temporary:
        temporary.write_text("some")
        raise OSError(code, os.strerror(code))
    assert os.listdir(tmp_path) == []


def test_a_file_where_a_folder_should_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(HyperfsadError, match="is a file, not a folder"),
        atomic_path(tmp_path / "file" / "a.txt"),
    ):
        pytest.fail("there is no place to write to")
    (tmp_path / "folder").mkdir()
    with (
        pytest.raises(HyperfsadError, match="it is a folder"),
        atomic_path(tmp_path / "folder") as temporary,
    ):
        temporary.write_text("x")


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "f") as temporary:
        (temporary / "half").touch()
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    with atomic_folder(tmp_path / "f") as temporary:
        (temporary / "whole").touch()
    assert os.listdir(tmp_path / "f") == ["whole"]


def test_a_folder_of_a_faster_process_stays(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "f") as temporary:
        (temporary / "mine").touch()
        (tmp_path / "f").mkdir()
        (tmp_path / "f" / "theirs").touch()
    assert os.listdir(tmp_path) == ["f"]
    assert os.listdir(tmp_path / "f") == ["theirs"]
