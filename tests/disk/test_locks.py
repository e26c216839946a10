"""Locks: of one process at a time, given back however it ends, and nothing is left lying about."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hyperfsad.disk.locks import changing, folder_lock, occupied
from hyperfsad.errors import HyperfsadError
from tests.disk.holding import FILE, FOLDER, held_elsewhere


def test_the_second_is_told_who_is_there(tmp_path: Path) -> None:
    with held_elsewhere(FOLDER, tmp_path) as process:
        told = rf"Another process \({process.pid} on .*\) is at work in .*; stop it or .* --wait"
        with pytest.raises(HyperfsadError, match=told), folder_lock(tmp_path).held():
            pass
    with folder_lock(tmp_path).held():  # it was killed
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == []


def test_a_file_is_locked_by_a_neighbour(tmp_path: Path) -> None:
    path = tmp_path / "part.hfsad"
    with held_elsewhere(FILE, path):
        with pytest.raises(HyperfsadError, match=r"is changing .*part\.hfsad; try"), changing(path):
            pass
        with changing(tmp_path / "other.hfsad"):
            pass
    with changing(path), changing(path):  # within, it is ours
        assert os.listdir(tmp_path) == [".part.hfsad.lock"]
    assert os.listdir(tmp_path) == []


def test_another_thread_is_another(tmp_path: Path) -> None:
    found: list[BaseException] = []

    def change() -> None:
        try:
            with changing(tmp_path / "part.hfsad"):
                pass
        except HyperfsadError as error:
            found.append(error)

    with changing(tmp_path / "part.hfsad"):
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
    assert len(found) == 1


def test_waiting(tmp_path: Path) -> None:
    said: list[str] = []
    with (
        held_elsewhere(FOLDER, tmp_path, 0.5),
        folder_lock(tmp_path).held(wait=True, notify=said.append),
    ):
        pass
    assert len(said) == 1
    assert "waiting until it is done" in said[0]
    assert os.listdir(tmp_path) == []


def test_many_at_once_are_one_after_the_other(tmp_path: Path) -> None:
    """The file of the lock goes and comes; no two ever hold it together."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from hyperfsad.disk import locks\n"
        "locks._AGAIN = 0.001\n"
        "number = Path(sys.argv[1]) / 'number'\n"
        "for _ in range(50):\n"
        "    with locks.changing(number, wait=True):\n"
        "        number.write_text(str(int(number.read_text()) + 1))\n"
    )
    (tmp_path / "number").write_text("0")
    command = [sys.executable, "-c", code, str(tmp_path)]
    started = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(60) for process in started] == [0] * 4
    assert (tmp_path / "number").read_text() == "200"
    assert os.listdir(tmp_path) == ["number"]


def test_a_folder_that_stays_empty_goes_again(tmp_path: Path) -> None:
    with occupied(tmp_path / "a" / "out"):
        assert (tmp_path / "a" / "out").is_dir()
    assert not (tmp_path / "a" / "out").exists()
    with occupied(tmp_path / "out"):
        (tmp_path / "out" / "table.csv").touch()
    assert os.listdir(tmp_path / "out") == ["table.csv"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_keeps_no_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from hyperfsad.disk.locks import folder_lock\n"
        "lock = folder_lock(Path(sys.argv[1]))\n"
        "lock.acquire()\n"
        "if os.fork() == 0:\n"
        "    os.close(1)\n"
        "    time.sleep(0.5)\n"
        "    lock.release()  # which is not its own\n"
        "    time.sleep(60)\n"
        "lock.release()\n"
        "folder_lock(Path(sys.argv[1])).acquire()\n"
        "print('again', flush=True)\n"
        "time.sleep(1)\n"
        "os.killpg(0, 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.stdout == "again\n", done.stderr
