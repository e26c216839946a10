"""Nothing is ever half there."""

import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from hyperfsad.disk.files import (
    atomic_folder,
    atomic_path,
    open_regular,
    read_objects,
    write_file,
)
from hyperfsad.errors import HyperfsadError
from tests.codes import raises


def test_a_file_appears_whole_with_ordinary_permissions(tmp_path: Path) -> None:
    target = tmp_path / "new" / "a.txt"
    with atomic_path(target, parents=True) as temporary:
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


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES])
def test_refusals_of_the_system_are_explained(tmp_path: Path, error: int) -> None:
    with (
        raises(HyperfsadError, "write-failed", path=tmp_path / "a", error=error),
        atomic_path(tmp_path / "a") as temporary,
    ):
        temporary.write_text("some")
        raise OSError(error, os.strerror(error))
    assert os.listdir(tmp_path) == []


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with raises(HyperfsadError, "write-failed", error=errno.ENOTDIR):
        write_file(tmp_path / "file" / "a.txt", b"x")
    (tmp_path / "folder").mkdir()
    with raises(HyperfsadError, "write-failed", error=errno.EISDIR):
        write_file(tmp_path / "folder", b"x")


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


def test_only_files_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with socket.socket(socket.AF_UNIX) as open_socket:
        monkeypatch.chdir(tmp_path)  # the path of a socket must be short
        open_socket.bind("socket")
        kinds = {"pipe": "a named pipe", "link": "a link", "socket": "a socket"}
        for name, kind in kinds.items():
            with raises(HyperfsadError, "write-not-a-file", path=tmp_path / name, kind=kind):
                write_file(tmp_path / name, b"new")
    with raises(HyperfsadError, "write-not-a-file", kind="a device"):
        write_file(Path("/dev/null"), b"new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert sorted(os.listdir(tmp_path)) == ["file", "link", "pipe", "socket"]
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    target = tmp_path / "new" / "a.txt"
    with raises(HyperfsadError, "write-folder-missing", folder=target.parent):
        write_file(target, b"x")
    assert os.listdir(tmp_path) == []
    write_file(target, b"x", parents=True)
    assert target.read_bytes() == b"x"


def test_a_link_that_leads_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with raises(HyperfsadError, "write-failed", error=errno.ELOOP):
        write_file(tmp_path / "a" / "x.txt", b"x")
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(tmp_path / "a")


def test_only_files_are_read_and_nothing_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "named pipe"), (Path("/dev/null"), "device")):
        with pytest.raises(OSError, match=f"it is a {kind}, not a file"):
            open_regular(path)
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"content"
    assert list(read_objects(tmp_path / "pipe")) == []
