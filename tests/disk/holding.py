"""Another process that holds a lock, and commands that wait for it."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.forks import Forked
from tests.waiting import until

FOLDER = "folder_lock(Path(sys.argv[1])).held()"
FILE = "locked_file(Path(sys.argv[1]))"


@contextmanager
def held_elsewhere(what: str, path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A lock is held until the input of its process is closed, or until the end of the block."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from hyperfsad.disk.files import folder_lock, locked_file\n"
        f"with {what}:\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def run_behind(holder: "subprocess.Popen[str]", command: Sequence[str]) -> int:
    """The exit code of a command that waits for a lock; it is released once the command says so."""
    started = Forked([*command, "--wait"])
    until(lambda: started.ended or "waiting until it is done" in started.stderr)
    assert not started.ended, "the command did not wait"
    assert holder.stdin is not None
    holder.stdin.close()
    return started.returncode
