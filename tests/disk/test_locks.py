"""Locks: of one process at a time, given back however it ends, and nothing is left lying about."""

import errno
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hyperfsad.disk.files import folder_lock, locked_file, locked_folder
from hyperfsad.errors import HyperfsadError
from hyperfsad.messages import Notice
from hyperfsad.wording import COMMAND_LINE
from tests.codes import raises
from tests.disk.holding import FILE, FOLDER, held_elsewhere


def test_the_second_learns_who_holds_the_lock(tmp_path: Path) -> None:
    with held_elsewhere(FOLDER, tmp_path) as process:
        holder = _holder(process)
        with raises(HyperfsadError, "target-locked", path=tmp_path, holder=holder) as caught:
            folder_lock(tmp_path).acquire()
    assert caught.value.worded(COMMAND_LINE).endswith("or wait with --wait.")
    with folder_lock(tmp_path).held():  # it was killed
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == []


def test_a_file_is_locked_by_a_neighbour(tmp_path: Path) -> None:
    path = tmp_path / "part.hfsad"
    with held_elsewhere(FILE, path):
        with raises(HyperfsadError, "target-locked", path=path), locked_file(path):
            pytest.fail("another process holds it")
        with locked_file(tmp_path / "other.hfsad"):
            pass
    with locked_file(path), locked_file(path):  # within, it is ours
        assert os.listdir(tmp_path) == [".part.hfsad.lock"]
    assert os.listdir(tmp_path) == []


def test_another_thread_is_another(tmp_path: Path) -> None:
    found: list[BaseException] = []

    def change() -> None:
        try:
            with locked_file(tmp_path / "part.hfsad"):
                pass
        except HyperfsadError as error:
            found.append(error)

    with locked_file(tmp_path / "part.hfsad"):
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
    assert len(found) == 1


def test_waiting(tmp_path: Path) -> None:
    said: list[str] = []
    with held_elsewhere(FOLDER, tmp_path) as process:

        def release(notice: str) -> None:
            said.append(notice)
            assert process.stdin is not None
            process.stdin.close()

        with folder_lock(tmp_path).held(wait=True, notify=release):
            assert said == [Notice("lock-awaited", path=tmp_path, holder=_holder(process))]
    assert os.listdir(tmp_path) == []


def _holder(process: "subprocess.Popen[str]") -> str:
    return f"{process.pid} on {socket.gethostname()}"


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    said: list[str] = []
    assert not folder_lock(tmp_path).acquire(notify=said.append)
    assert said == [Notice("locks-unsupported", folder=tmp_path)]


def test_many_at_once_are_one_after_the_other(tmp_path: Path) -> None:
    """The file of the lock goes and comes; no two ever hold it together."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from hyperfsad.disk import files\n"
        "files.LOCK_POLL = 0.001\n"
        "number = Path(sys.argv[1]) / 'number'\n"
        "for _ in range(50):\n"
        "    with files.locked_file(number, wait=True):\n"
        "        number.write_text(str(int(number.read_text()) + 1))\n"
    )
    (tmp_path / "number").write_text("0")
    command = [sys.executable, "-c", code, str(tmp_path)]
    started = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(300) for process in started] == [0] * 4
    assert (tmp_path / "number").read_text() == "200"
    assert os.listdir(tmp_path) == ["number"]


def test_a_folder_that_stays_empty_goes_again(tmp_path: Path) -> None:
    with locked_folder(tmp_path / "a" / "out"):
        assert (tmp_path / "a" / "out").is_dir()
    assert not (tmp_path / "a" / "out").exists()
    with locked_folder(tmp_path / "out"):
        (tmp_path / "out" / "table.csv").touch()
    assert os.listdir(tmp_path / "out") == ["table.csv"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_keeps_no_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from hyperfsad.disk.files import FOLDER_LOCK, folder_lock\n"
        "lock = folder_lock(Path(sys.argv[1]))\n"
        "lock.acquire()\n"
        "if os.fork() == 0:\n"
        "    sys.stdin.readline()\n"
        "    lock.release()  # which is not its own\n"
        "    assert Path(sys.argv[1], FOLDER_LOCK).exists()\n"
        "    print('still held', flush=True)\n"
        "    os._exit(0)\n"
        "lock.release()\n"
        "again = folder_lock(Path(sys.argv[1]))\n"
        "again.acquire()\n"
        "print('again', flush=True)\n"
        "os.wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "again\n"
        process.stdin.write("now\n")
        process.stdin.flush()
        assert process.stdout.readline() == "still held\n"
    assert process.returncode == 0
