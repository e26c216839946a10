"""Where commands are disturbed: a warm process that forks one for each command."""

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from tqdm import tqdm

import tests.warm  # noqa: F401
from hyperfsad import HyperFSAD, threads
from hyperfsad.cli import main
from tests.conftest import make_picture, save_tiny

FAULTS = ("tracebacks", "hangs", "lost", "doubled", "cut off", "changed", "left behind")
"""What must not happen."""

PATIENCE = 120.0
"""Seconds after which a command hangs; undisturbed, each takes less than one."""

PARTS, PHOTOS = 4, 5

Given = ParamSpec("Given")
Found = TypeVar("Found")

CHANGES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate")
"""What Python tells of before it does it."""


@dataclass
class Tally:
    """What came of a row of trials."""

    row: str
    trials: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    note: str = ""

    def add(self, faults: Iterable[tuple[str, str]], where: str) -> None:
        """Counts the faults of one trial; a few are told."""
        self.trials += 1
        for kind, what in faults:
            assert kind in FAULTS
            self.faults[kind] += 1
            if len(self.examples) < 5:
                self.examples.append(f"{where}: {kind}: {what}")


@dataclass(frozen=True)
class Run:
    """A command that ended: its exit code, None if it was killed or hung, and its words."""

    code: int | None
    words: str
    hung: bool = False

    @property
    def faults(self) -> list[tuple[str, str]]:
        """What is wrong whatever the command was to do."""
        found = [("tracebacks", self.words[-2000:])] if "Traceback" in self.words else []
        return [*found, ("hangs", self.words[-500:])] if self.hung else found


def aside(work: Callable[Given, Found], *given: Given.args, **named: Given.kwargs) -> Found:
    """What a function finds in a process of its own: OpenVINO runs in no process that is forked
    from one where it has run."""
    with ProcessPoolExecutor(1, get_context("fork")) as process:
        return process.submit(work, *given, **named).result()


class Stage:
    """A small random encoder, good parts, photographs and detectors; and a place for each trial."""

    def __init__(self, folder: Path) -> None:
        threads.limit(1)
        # tqdm's own lock is shared by all forked processes, and one that is killed never frees it
        tqdm.set_lock(threading.RLock())
        tqdm.monitor_interval = 0
        self.folder = folder
        self.place = folder / "place"
        """Where a trial writes; always the same, since reports name what they show."""
        self.encoder = save_tiny(folder / "encoder")
        self.parts = self._pictures("parts", PARTS, 100)
        self.photos = self._pictures("photos", PHOTOS, 200)
        self.first = folder / "first.hfsad"
        aside(self._learn)

    def _learn(self) -> None:
        self.detector().fit(self.parts[:2]).save(self.first)

    def detector(self) -> HyperFSAD:
        """An unfitted detector."""
        return HyperFSAD(self.encoder, recipe="paper-offline", resolution=84, device="cpu")

    def _pictures(self, name: str, count: int, seed: int) -> list[str]:
        folder = self.folder / name
        folder.mkdir()
        for number in range(count):
            path = folder / f"{number}.png"
            make_picture(seed + number).save(path)
            os.utime(path, (1_700_000_000, 1_700_000_000))  # long complete
        return sorted(map(str, folder.iterdir()))

    def clear(self) -> None:
        """Empties the place."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()

    def start(
        self,
        command: list[str],
        words: Path,
        stop: int | None = None,
        kind: int = signal.SIGKILL,
    ) -> int:
        """Forks a process for a command; before change number `stop` of a file it sends itself a
        signal."""
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until the command begins
        process = os.fork()
        if process:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            return process
        code = 70
        try:
            file = os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            os.dup2(file, 1)
            os.dup2(file, 2)
            counter = _Counter(str(self.place), stop, kind)
            sys.addaudithook(counter)
            with contextlib.suppress(KeyboardInterrupt):
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            device = [] if command[0] == "export" else ["--device", "cpu"]  # it is always the CPU
            code = main([*command, *device])
            with contextlib.suppress(KeyboardInterrupt):  # the command has ended
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # in each of its threads
            words.with_suffix(".count").write_text(str(counter.count))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def run(
        self,
        command: list[str],
        *,
        stop: int | None = None,
        after: float | None = None,
        kind: int = signal.SIGKILL,
    ) -> Run:
        """Runs a command to its end, or until a signal hits it."""
        words = self.folder / "words"
        process = self.start(command, words, stop, kind)
        if after is not None:
            time.sleep(after)
            os.kill(process, kind)
        return self.ended(process, words)

    def ended(self, process: int, words: Path) -> Run:
        """Waits for a process; one that hangs is killed."""
        end, hung = time.monotonic() + PATIENCE, False
        while True:
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                break
            if time.monotonic() > end:
                os.kill(process, signal.SIGKILL)
                end, hung = time.monotonic() + PATIENCE, True
            time.sleep(0.002)
        text = words.read_text(encoding="utf-8", errors="replace") if words.exists() else ""
        return Run(os.WEXITSTATUS(status) if os.WIFEXITED(status) else None, text, hung)

    def measured(self, command: list[str]) -> tuple[int, float]:
        """How often a command changes a file of the place, and how many seconds it takes."""
        began = time.monotonic()
        run = self.run(command)
        assert run.code == 0, run.words
        seconds = time.monotonic() - began
        return int((self.folder / "words.count").read_text()), seconds


class _Counter:
    """Counts what is done to the files of a place, and sends a signal before one of them."""

    def __init__(self, place: str, stop: int | None, kind: int) -> None:
        self._place, self._stop, self._kind, self.count = place, stop, kind, 0

    def __call__(self, event: str, details: tuple[Any, ...]) -> None:
        if event not in CHANGES or not isinstance(details[0], str | os.PathLike):
            return
        if not os.fspath(details[0]).startswith(self._place):
            return
        self.count += 1
        if self.count == self._stop:
            os.kill(os.getpid(), self._kind)
