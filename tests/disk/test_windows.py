"""Where Windows differs, as far as another system can show it: its calls are replaced."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hyperfsad.disk import files
from hyperfsad.errors import HyperfsadError
from tests.codes import raises


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """`os` as the module sees it there: folders cannot be opened, pipes not waited for."""

    def refuse(path: Any, flags: int, *more: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return os.open(path, flags, *more)

    left_out = ("O_NONBLOCK", "fork", "pread", "sched_getaffinity", "register_at_fork")
    seen = SimpleNamespace(**{name: getattr(os, name) for name in dir(os) if name not in left_out})
    seen.name, seen.open = "nt", refuse
    monkeypatch.setattr(files, "os", seen)
    return seen


@pytest.mark.usefixtures("windows")
def test_files_and_folders_appear_whole(tmp_path: Path) -> None:
    files.write_file(tmp_path / "a", b"content")
    files.write_file(tmp_path / "a", b"other", private=True)
    files.sync_folder(tmp_path)
    with files.atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "b").write_bytes(b"1")
    with files.open_regular(tmp_path / "a") as file:
        assert file.read() == b"other"
    assert sorted(os.listdir(tmp_path)) == ["a", "folder"]


@pytest.mark.usefixtures("windows")
def test_a_file_that_another_program_has_open_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Excel keeps a table so; nothing of ours stays beside it."""

    def in_use(self: Path, target: Path) -> Path:
        raise PermissionError(errno.EACCES, "used by another process", str(target))

    monkeypatch.setattr(Path, "replace", in_use)
    with raises(HyperfsadError, "write-failed", error=errno.EACCES):
        files.write_file(tmp_path / "results.csv", b"1")
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("windows")
def test_a_lock_whose_file_cannot_be_removed_or_read_is_still_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open file cannot be removed there, and a locked one not be read by others."""

    def refuse(self: Path, *_: Any, **__: Any) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)
    with (
        files.locked_folder(tmp_path / "out"),
        raises(HyperfsadError, "target-locked", holder="unknown"),
        files.folder_lock(tmp_path / "out").held(),
    ):
        pass
    with files.locked_folder(tmp_path / "out"):  # it was given back
        pass
