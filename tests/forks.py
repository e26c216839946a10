"""Commands in processes of their own, which a warm process forks.

Imports take most of a short command's time. What `python -m hyperfsad` itself does, its imports and
streams, is tested in real ones: cli/test_main.py, cli/test_isolation.py.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.waiting import DEADLINE

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.warm"])

COMMAND = "import sys; from hyperfsad.cli import main; sys.exit(main(sys.argv[1:]))"


class Forked:
    """A command that was started; its words go to files."""

    def __init__(
        self, words: Sequence[object], code: str = COMMAND, cwd: Path | None = None
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hyperfsad-forked-")
        self._streams = [Path(self._folder.name, name) for name in ("out", "err")]
        for stream in self._streams:
            stream.touch()
        given = (list(map(str, words)), code, str(cwd or Path.cwd()), dict(os.environ))
        self._process = CONTEXT.Process(
            target=_run, args=(*given, *map(str, self._streams)), daemon=True
        )
        self._process.start()

    @property
    def stdout(self) -> str:
        return self._streams[0].read_text(encoding="utf-8")

    @property
    def stderr(self) -> str:
        return self._streams[1].read_text(encoding="utf-8")

    def send(self, kind: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, kind)

    @property
    def ended(self) -> bool:
        return not self._process.is_alive()

    @property
    def returncode(self) -> int:
        """The exit code, once it has ended."""
        self._process.join(DEADLINE)
        assert self._process.exitcode is not None, f"it has not ended: {self.stderr}"
        return self._process.exitcode


def _run(
    words: list[str], code: str, cwd: str, environment: dict[str, str], out: str, err: str
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs are deaf to it
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for place, number in ((out, 1), (err, 2)):
        os.dup2(os.open(place, os.O_WRONLY | os.O_APPEND), number)
    sys.argv = ["hyperfsad", *words]
    exec(compile(code, "command", "exec"), {"__name__": "__main__"})
