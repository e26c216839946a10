"""Real stations in processes of their own.

Imports take most of a station's start, and stations are killed and started again here a dozen
times. So one process imports everything and forks a station for each start.
"""

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import pytest

from hyperfsad.serve.client import StationClient, StationError

SMALL = ("--recipe", "paper-offline", "--resolution", "84", "--device", "cpu")
PATIENCE = 180.0
"""Seconds after which a test fails that waits for something; machines may be busy."""

Found = TypeVar("Found")


def until(held: "Callable[[], Found | None]", what: str = "it") -> Found:
    """Waits until something holds, and returns it."""
    end = time.monotonic() + PATIENCE
    while not (found := held()):
        assert time.monotonic() < end, f"{what} did not happen within {PATIENCE:g} s"
        time.sleep(0.01)
    return found


def at_once(*jobs: Callable[[], Found]) -> list[Found]:
    """Runs jobs in threads of their own; what each returned, or the first error."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result(PATIENCE) for future in [pool.submit(job) for job in jobs]]


@contextmanager
def refused(status: int, code: str | None = None) -> Iterator[pytest.ExceptionInfo[StationError]]:
    """Expects that the station refuses, with a status and a code."""
    with pytest.raises(StationError) as caught:
        yield caught
    assert caught.value.status == status, caught.value
    assert code is None or caught.value.code == code
    assert str(caught.value)


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


class Running:
    """A station that was started."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid, self.log = pid, log
        self.url = ""

    def listening(self) -> str:
        """Its address, as soon as it answers there."""
        found = until(lambda: self._written(r"listens on (https?://\S+)\s"), "listening")
        self.url = found[1]
        return self.url

    def _written(self, pattern: str) -> "re.Match[str] | None":
        alive = _is_alive(self.pid)
        text = self.log.read_text() if self.log.exists() else ""
        found = re.search(pattern, text)
        assert found or alive, f"the station ended: {text}"
        return found

    def wait(self, tls: ssl.SSLContext | None = None) -> "Running":
        """Until it is ready to inspect."""
        client = StationClient(self.listening(), tls=tls)
        until(lambda: self._written("") and client.ready(), "getting ready")
        return self

    def client(self, token: str | None = None) -> StationClient:
        """A client of it."""
        return StationClient(self.url, token, timeout=PATIENCE)

    def stop(self, kind: int = signal.SIGTERM) -> None:
        """Ends it, and waits until it has ended."""
        if _is_alive(self.pid):
            os.kill(self.pid, kind)
        until(lambda: not _is_alive(self.pid), "the end of the station")

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
        prefix: str = "/api/v1",
    ) -> Answer:
        """A request as a browser or a stranger sends it; what is not bytes goes as JSON."""
        line = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)
        sent = {} if body is None else {"Content-Type": "application/json"}
        content = body if body is None or isinstance(body, bytes) else json.dumps(body)
        try:
            line.request(method, f"{prefix}{path}", content, {**sent, **(headers or {})})
            found = line.getresponse()
            named = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, named, found.read())
        finally:
            line.close()

    def logged(self, request: str) -> dict[str, object]:
        """The row of the log on a request; it is written after the answer was sent."""
        return until(lambda: self.rows().get(request), f"a row of the log on {request}")

    def rows(self) -> dict[str, dict[str, object]]:
        """What it logged of each request; a row that is being written comes later."""
        whole = [row for row in self.log.read_text().splitlines(keepends=True) if row[-1] == "\n"]
        found = [json.loads(row) for row in whole if row[0] == "{"]
        return {row["request"]: row for row in found if "request" in row}


class Stations:
    """Starts stations."""

    def __init__(
        self, tiny: str, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._tiny, self._folder, self._count = tiny, folder, 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.serve.stations"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
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
    from hyperfsad.cli import main

    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = 1
    try:
        code = main(arguments)
    finally:
        os._exit(code)


def _fork(rows: IO[str]) -> None:
    import hyperfsad.serve.server  # noqa: F401
    import tests.warm  # noqa: F401

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
