"""What the line may act upon now, as a fail-safe state machine.

"Good" is shown for one part, for a limited time, and only while all is well. Whatever else happens
is the verdict "none" with its reason; docs/connect.md draws the machine.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Literal

from ..report.records import Record

State = Literal["stopped", "starting", "ready", "busy", "result", "fault"]
Verdict = Literal["none", "good", "anomalous"]
Reason = Literal[
    "",
    "error",
    "late",
    "unjudged",
    "waiting",
    "silence",
    "restart",
    "disk",
    "fault",
    "stopped",
]
STATES: tuple[State, ...] = ("stopped", "starting", "ready", "busy", "result", "fault")
VERDICTS: tuple[Verdict, ...] = ("none", "good", "anomalous")
REASONS: tuple[Reason, ...] = (
    *("", "error", "late", "unjudged", "waiting", "silence", "restart", "disk", "fault"),
    "stopped",
)
"""A machine reads the place in these lists, so new ones go to the end."""

HOLD = 10.0
"""Seconds for which a verdict is shown, unless chosen otherwise."""


@dataclass(frozen=True)
class Live:
    """What is shown at one moment."""

    state: State = "stopped"
    verdict: Verdict = "none"
    reason: Reason = "stopped"
    number: int = 0
    """Of the record whose verdict is shown; 0 without one."""
    trigger: int = 0
    """How many triggers were accepted."""
    level: float | None = None
    time: str = ""
    """When it came to this."""
    heartbeat: int = 0
    """Grows every second while the station lives and has looked after itself."""
    newest: int = 0
    """The number of the latest record."""
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    """Verdicts since the start."""
    late: int = 0
    """How often a verdict was shown as late."""


def verdict_of(record: Mapping[str, Any]) -> tuple[Verdict, Reason]:
    """What a record says to a machine, and why there is no verdict."""
    if record.get("error") is not None:
        return "none", "error"
    if record.get("late"):
        return "none", "late"
    anomalous = record.get("anomalous")
    if anomalous is None:
        return "none", "unjudged"
    return ("anomalous", "") if anomalous is not False else ("good", "")


def told(record: Record, number: int, origin: str) -> Record:
    """A record as machines get it. Where there is no verdict, nothing reads like one."""
    verdict, reason = verdict_of(record)
    judged = record.get("anomalous") if verdict != "none" else None
    head = {"number": number, "origin": origin, "verdict": verdict, "reason": reason}
    return {**record, **head, "anomalous": judged}


class Line:
    """The state machine. `changed` hears of each step in its order, and must not block."""

    def __init__(
        self,
        changed: Callable[[Live], None] = lambda _: None,
        *,
        deadline: float | None = None,
        hold: float = HOLD,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A verdict that comes more than `deadline` seconds after its trigger, or after its picture
        where nothing was triggered, is late; `hold` limits how long a verdict is shown."""
        self.live = Live()
        self.on_trigger: list[Callable[[int], None]] = []
        """Who takes pictures, and is told the number of each trigger."""
        self._changed, self._clock = changed, clock
        self._deadline, self._hold = deadline, hold
        self._lock = threading.RLock()
        self._since = clock()
        """When the trigger that is waited for was raised, or the verdict was shown."""
        self._owed: list[float] = []
        """Until when the pictures of triggers may still come that were told late."""

    def begin(self, newest: int = 0) -> None:
        """Starts; what was told before is no verdict now."""
        with self._lock:
            self.live = replace(self.live, newest=newest)
            self._go("starting", "restart")

    def stop(self, reason: Reason = "stopped") -> None:
        """Ends: from now on nothing is shown."""
        self._go("stopped", reason)

    def look(self, problem: Reason | None, *, beat: bool = False) -> None:
        """Takes in how the station is, and what time has changed."""
        with self._lock:
            if beat:
                self.live = replace(self.live, heartbeat=self.live.heartbeat + 1)
            state, now = self.live.state, self._clock()
            self._owed = [end for end in self._owed if end > now]
            if state == "stopped":
                return
            if problem == "restart" and state == "starting":
                self._changed(self.live)
            elif problem is not None:
                if (state, self.live.reason) != ("fault", problem):
                    self._owe()
                    self._go("fault", problem)
            elif state in ("starting", "fault"):
                self._go("ready", "waiting")
            elif state == "busy" and now - self._since > self._limit:
                self._owe()
                self._result("none", "late", 0)
            elif state == "result" and now - self._since > self._hold:
                self._go("ready", "silence")
            elif beat:
                self._changed(self.live)

    def trigger(self) -> int | None:
        """A part is there: its number, or None where none can be taken now."""
        with self._lock:
            if self.live.state not in ("ready", "result"):
                return None
            self._since = self._clock()
            self._go("busy", "waiting", trigger=self.live.trigger + 1)
            number = self.live.trigger
        for take in self.on_trigger:
            take(number)
        return number

    def is_late(self, arrived: float, trigger: int | None = None) -> bool:
        """Whether a picture's verdict comes too late now; asked before its record is written."""
        with self._lock:
            if self._deadline is None:
                return False
            if self._answers(arrived, trigger):
                return self._clock() - self._since > self._deadline
            earlier = bool(self._owed) or trigger is not None  # whose trigger was told late
            return earlier or self._clock() - arrived > self._deadline

    def judged(self, record: Record, arrived: float | None, trigger: int | None = None) -> None:
        """A record as it was told. `arrived` says when its picture came, by our clock; None where
        it is only caught up on. `trigger` is the one that took the picture, where known."""
        with self._lock:
            verdict, reason = verdict_of(record)
            number, now = int(record["number"]), self._clock()
            counts = {**self.live.counts, verdict: self.live.counts[verdict] + 1}
            self.live = replace(self.live, newest=number, counts=counts)
            if arrived is None or self.live.state not in ("ready", "busy", "result"):
                self._changed(self.live)
                return
            answers = self._answers(arrived, trigger)
            if not answers and (self._owed or trigger is not None or self.live.state == "busy"):
                del self._owed[:1]  # the answer to an earlier trigger, which was told late
                self._changed(self.live)
                return
            if now - (self._since if answers else arrived) > self._limit:
                verdict, reason = "none", "late"
            self._result(verdict, reason, number, record.get("level"))

    def acknowledge(self, number: int | None = None) -> bool:
        """The line has taken the verdict that is shown; it is shown no longer."""
        with self._lock:
            if self.live.state != "result" or number not in (None, self.live.number):
                return False
            self._go("ready", "waiting")
            return True

    @property
    def _limit(self) -> float:
        return self._hold if self._deadline is None else self._deadline

    def _answers(self, arrived: float, trigger: int | None) -> bool:
        """Whether a picture belongs to the trigger that is waited for. Without its number, it came
        after the trigger, and no earlier one is still owed its picture."""
        if self.live.state != "busy":
            return False
        if trigger is not None:
            return trigger == self.live.trigger
        return not self._owed and arrived >= self._since

    def _owe(self) -> None:
        if self.live.state == "busy":
            self._owed.append(self._clock() + self._hold)

    def _result(
        self, verdict: Verdict, reason: Reason, number: int, level: float | None = None
    ) -> None:
        self._since = self._clock()
        late = self.live.late + (reason == "late")
        self._go("result", reason, verdict=verdict, number=number, level=level, late=late)

    def _go(self, state: State, reason: Reason, **more: Any) -> None:
        with self._lock:
            time = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
            shown = {"verdict": "none", "number": 0, "level": None, **more}
            self.live = replace(self.live, state=state, reason=reason, time=time, **shown)
            self._changed(self.live)
