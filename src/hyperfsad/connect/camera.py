"""A camera at work: a thread reads its frames, keeps the shots, and comes back when it is lost."""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..errors import HyperfsadError
from ..messages import LOGGER, Notice, Notify, log
from .sources.frames import Frame, Pixels, Source
from .triggers import Trigger

RETRY, LONGEST_RETRY = 0.5, 10.0
"""Seconds until a lost camera is tried again; the time doubles with each try."""
ROOM = 8
"""Shots that may wait. A live camera does not wait: the oldest shot is dropped, and counted."""
NAP = 0.1
LOG = logging.getLogger(f"{LOGGER}.camera")

State: TypeAlias = Literal["connecting", "running", "away", "ended", "stopped"]


@dataclass(frozen=True)
class Shot:
    """A frame that is to be judged."""

    id: str
    frame: Frame
    pixels: Pixels

    @property
    def age(self) -> float:
        """Seconds since it arrived."""
        return time.monotonic() - self.frame.arrived


class Camera:
    """Reads a source until it is stopped, and holds the shots that wait to be judged."""

    def __init__(
        self,
        source: Source,
        trigger: Trigger,
        *,
        room: int = ROOM,
        wanted: Callable[[Frame], bool] = lambda _: True,
        notify: Notify = log,
    ) -> None:
        """`wanted` says no to shots that were judged before."""
        self.source, self.trigger, self.room = source, trigger, room
        self.state: State = "connecting"
        self.problem: HyperfsadError | None = None
        self.latest: Frame | None = None
        """What it sees now."""
        self.frames = self.shots = self.dropped = self.losses = 0
        self._wanted, self._notify = wanted, notify
        self._waiting: deque[Shot] = deque()
        self._changed = threading.Condition()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hyperfsad-camera", daemon=True)

    def start(self) -> "Camera":
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ends it; shots that wait are dropped, and counted."""
        self._ending.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        with self._changed:
            self.dropped += len(self._waiting)
            self._waiting.clear()

    @property
    def queue(self) -> int:
        """Shots that wait."""
        return len(self._waiting)

    @property
    def oldest(self) -> float:
        """Seconds for which the oldest shot has waited; 0 where none waits."""
        with self._changed:
            return self._waiting[0].age if self._waiting else 0.0

    @property
    def over(self) -> bool:
        """Whether no shot will ever come again."""
        return self.state in ("ended", "stopped") and not self._waiting

    def next(self, timeout: float) -> Shot | None:
        """The shot that has waited longest; None if there was none for so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self.over, timeout)
            found = self._waiting.popleft() if self._waiting else None
            self._changed.notify_all()
            return found

    def _run(self) -> None:
        pause = RETRY
        while not self._ending.is_set():
            before = self.frames
            try:
                self._read()
                break
            except HyperfsadError as error:
                self._lost(error)
            except Exception as error:  # a thread that dies would be silence
                LOG.exception("reading %s failed", self.source.name)
                why = type(error).__name__
                self._lost(HyperfsadError("source-lost", source=self.source.name, why=why))
            pause = RETRY if self.frames > before else min(2 * pause, LONGEST_RETRY)
            self._ending.wait(pause)
        with self._changed:
            self.state = "stopped" if self._ending.is_set() else "ended"
            self._changed.notify_all()

    def _lost(self, error: HyperfsadError) -> None:
        if self.problem is None or self.problem.code != error.code:
            self._notify(Notice(error.code, **error.facts))  # once, not at each try
        self.losses += self.state == "running"
        self.state, self.problem = "away", error
        self.dropped += self.trigger.reset()

    def _read(self) -> None:
        with contextlib.closing(self.source.frames()) as frames:
            for frame in frames:
                if self._ending.is_set():
                    return
                if frame is not None:
                    self._take(frame)

    def _take(self, frame: Frame) -> None:
        if self.state != "running":
            if self.state == "away":
                self._notify(Notice("source-back", source=self.source.name))
            self.state, self.problem = "running", None
        self.frames += 1
        self.latest = frame
        found = self.trigger.fires(frame)
        if found is None or not self._wanted(frame):
            return
        shot = Shot(found, frame, frame.pixels())
        with self._changed:
            while not self.source.live and self.queue >= self.room and not self._ending.is_set():
                self._changed.wait(NAP)
            self.shots += 1
            self._waiting.append(shot)
            if len(self._waiting) > self.room:
                self._waiting.popleft()
                self.dropped += 1
            self._changed.notify_all()
