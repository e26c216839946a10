"""Another process that holds a lock."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = "folder_lock(Path(sys.argv[1])).held()"
FILE = "locked_file(Path(sys.argv[1]))"


@contextmanager
def held_elsewhere(
    what: str, path: Path, seconds: float | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A lock is held until its process's input is closed, for some seconds, or until the end of
    the block."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from hyperfsad.disk.locks import folder_lock, locked_file\n"
        f"with {what}:\n"
        "    print('held', flush=True)\n"
        f"    {'sys.stdin.read()' if seconds is None else f'time.sleep({seconds})'}\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()
