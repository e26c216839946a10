"""Which frames are shots: every so often, when a part has arrived, or when a machine asks."""

import re
import threading
import uuid
from collections import deque
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import UsageError
from .sources.frames import Frame, Pixels

TRIGGERS = ("every:500ms", "still", "software")
SAMPLE, HOLD = 0.1, 0.3
"""Seconds between two looks at what moves, and for which a part has to stand still."""
CELLS = 48
"""The frame is compared at so many cells a side: small enough to hide the camera's noise."""
CHANGED = 10.0
"""Levels out of 255 by which a cell changes when something moves there."""
SHARE = 0.004
"""The share of the cells that change when a part moves: nine of them."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)")


class Trigger(Protocol):
    """Decides which frames are wanted."""

    def fires(self, frame: Frame) -> str | None:
        """The id of the shot that this frame is; None where it is none."""
        ...

    def reset(self) -> int:
        """The camera was away: what was seen before says nothing. Returns how many shots that were
        asked for are lost."""
        ...


def new_shot() -> str:
    """An id that no two shots have."""
    return uuid.uuid4().hex


def seconds_of(text: str, name: str) -> float:
    """A duration such as 500ms or 2s; `name` is the setting."""
    found = _DURATION.fullmatch(text.strip())
    seconds = 0.0 if found is None else float(found[1]) * (0.001 if found[2] == "ms" else 1.0)
    if not 0.001 <= seconds <= 86_400:
        raise UsageError("duration-invalid", name=name, given=text)
    return seconds


def trigger_of(text: str) -> Trigger:
    """The trigger that a text describes."""
    if text == "still":
        return Still()
    if text == "software":
        return Software()
    kind, _, rest = text.partition(":")
    if kind != "every":
        raise UsageError("trigger-unknown", given=text, known=[*TRIGGERS])
    return Every(seconds_of(rest, "trigger"))


class Every:
    """A shot every so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: float | None = None

    def fires(self, frame: Frame) -> str | None:
        due = frame.time if self._due is None else self._due
        if frame.time < due:
            return None
        # no burst after a pause
        self._due = max(due + self._seconds, frame.time + self._seconds / 2)
        return new_shot()

    def reset(self) -> int:
        self._due = None
        return 0


class Still:
    """A shot when a part has arrived and stands still, once for each part.

    What is still when the trigger begins is the empty place; what looks like it is no part.
    """

    def __init__(self) -> None:
        self._empty: NDArray[np.float32] | None = None
        self.reset()

    def reset(self) -> int:
        self._seen: deque[tuple[float, NDArray[np.float32]]] = deque()
        self._armed = True
        return 0

    def fires(self, frame: Frame) -> str | None:
        if self._seen and frame.time - self._seen[-1][0] < SAMPLE:
            return None
        now = _cells(frame.pixels())
        if any(_differ(now, before) for _, before in self._seen):
            self._seen.clear()
            self._armed = True
        self._seen.append((frame.time, now))
        if frame.time - self._seen[0][0] < HOLD:
            return None
        self._seen.popleft()
        if not self._armed:
            return None
        self._armed = False
        if self._empty is None or not _differ(now, self._empty):
            self._empty = now  # and follows the light
            return None
        return new_shot()


class Software:
    """A shot for each request: the next frame that arrives."""

    def __init__(self) -> None:
        self._asked: deque[str] = deque()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Requests whose frame has not come yet."""
        return len(self._asked)

    def ask(self, shot: str | None = None) -> str:
        """Asks for a shot; returns its id."""
        with self._lock:
            self._asked.append(shot or new_shot())
            return self._asked[-1]

    def fires(self, _: Frame) -> str | None:
        with self._lock:
            return self._asked.popleft() if self._asked else None

    def reset(self) -> int:
        """None is answered later: the frame would show another part."""
        with self._lock:
            lost = len(self._asked)
            self._asked.clear()
            return lost


def _cells(pixels: Pixels) -> NDArray[np.float32]:
    small = Image.fromarray(pixels).convert("L").resize((CELLS, CELLS), Image.Resampling.BOX)
    return np.asarray(small, np.float32)


def _differ(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    return float((np.abs(one - other) > CHANGED).mean()) > SHARE
