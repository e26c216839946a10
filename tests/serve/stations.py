"""Real stations in processes of their own.

Importing torch takes seconds, and stations are killed and started again here a dozen times. So one
process imports everything and forks a station for each start.
"""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from hyperfsad.serve.client import StationClient

SMALL = ("--recipe", "paper-offline", "--resolution", "84", "--device", "cpu", "--engine", "torch")
PATIENCE = 60.0


class Running:
    """A station that was started."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid, self.log = pid, log
        self.url = ""

    def listening(self) -> str:
        """Its address, as soon as it answers there."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            text = self.log.read_text() if self.log.exists() else ""
            found = re.search(r"listens on (https?://\S+)", text)
            if found:
                self.url = found[1]
                return self.url
            if not _is_alive(self.pid):
                raise AssertionError(f"the station ended: {text}")
            time.sleep(0.02)
        raise AssertionError(f"the station does not answer: {text}")

    def wait(self, tls: ssl.SSLContext | None = None) -> "Running":
        """Until it is ready to inspect."""
        client = StationClient(self.listening(), tls=tls)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if client.ready():
                return self
            if not _is_alive(self.pid):
                raise AssertionError(f"the station ended: {self.log.read_text()}")
            time.sleep(0.02)
        raise AssertionError(f"the station is not ready: {self.log.read_text()}")

    def client(self, token: str | None = None) -> StationClient:
        """A client of it."""
        return StationClient(self.url, token, timeout=PATIENCE)

    def stop(self, kind: int = signal.SIGTERM) -> None:
        """Ends it, and waits until it has ended."""
        if _is_alive(self.pid):
            os.kill(self.pid, kind)
        end = time.monotonic() + PATIENCE
        while _is_alive(self.pid) and time.monotonic() < end:
            time.sleep(0.01)
        assert not _is_alive(self.pid)

    def rows(self) -> list[dict[str, object]]:
        """What it logged."""
        return [json.loads(row) for row in self.log.read_text().splitlines() if row[:1] == "{"]


class Stations:
    """Starts stations."""

    def __init__(self, tiny: str, folder: Path) -> None:
        self._tiny, self._folder, self._count = tiny, folder, 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.serve.stations"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def command(self, store: Path, *options: str) -> list[str]:
        """The command line of a small station on a free port."""
        places = ["--store", str(store), "--port", "0", "--backbone", self._tiny]
        return ["serve", *places, "--reserve-megabytes", "1", *SMALL, *options]

    def start(self, store: Path, *options: str) -> Running:
        """Starts one; it is not ready yet."""
        self._count += 1
        log = self._folder / f"station-{self._count}.log"
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([str(log), *self.command(store, *options)]) + "\n")
        stdin.flush()
        return Running(int(stdout.readline()), log)

    @contextmanager
    def running(self, store: Path, *options: str) -> Iterator[Running]:
        """One that is ready; it ends with the block."""
        found = self.start(store, *options)
        try:
            yield found.wait()
        finally:
            found.stop()

    def close(self) -> None:
        """Ends the process that forks."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _run(log: str, arguments: Sequence[str]) -> None:
    """In the forked process."""
    from hyperfsad.cli.main import main

    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = 1
    try:
        code = main(arguments)
    finally:
        os._exit(code)


def _fork(rows: IO[str]) -> None:
    from transformers import AutoConfig, Dinov2WithRegistersModel  # noqa: F401

    import hyperfsad.detector.hyperfsad
    import hyperfsad.serve.server  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children need nobody to fetch them
    for row in iter(rows.readline, ""):
        log, *arguments = json.loads(row)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _run(log, arguments)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _fork(sys.stdin)
