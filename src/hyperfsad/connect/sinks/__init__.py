"""Where records go: one small protocol, and a module for each kind of receiver."""

from dataclasses import dataclass
from typing import Any, Protocol

from ...report.records import Record
from ..state import Line, Live


@dataclass(frozen=True)
class Answer:
    """The outcome of one try."""

    taken: bool = False
    final: bool = False
    """Whether another try is useless."""
    why: str = ""


class Sink(Protocol):
    """A receiver. It is given each record until it takes it, and what the line may act upon."""

    @property
    def name(self) -> str:
        """Of its table in the file."""
        ...

    @property
    def address(self) -> str:
        """Where it is, for people: without secrets."""
        ...

    replays: int
    """How many earlier records it is given at each start; 0 where it remembers them itself."""
    timeout: float
    """Seconds that one try may take."""
    pause: float
    """Seconds before the second try; they double with each further one."""
    longest_pause: float
    """Seconds between two tries at most."""

    def start(self, line: Line, origin: str) -> None:
        """Begins to connect or to listen."""
        ...

    def stop(self) -> None:
        """Ends it."""
        ...

    def wants(self, record: Record) -> bool:
        """Whether a record is for it."""
        ...

    def send(self, record: Record, timeout: float) -> Answer:
        """Gives it a record, once."""
        ...

    def show(self, live: Live) -> None:
        """What the line may act upon has changed, or a second has passed; it must not block."""
        ...

    @property
    def problem(self) -> str | None:
        """Why it is not connected, as far as it knows."""
        ...

    def test(self) -> None:
        """Connects as it would, and raises what is wrong."""
        ...


def shown(live: Live) -> dict[str, Any]:
    """What the line may act upon, as an object of JSON."""
    names = ("state", "verdict", "reason", "number", "trigger", "level", "time", "newest", "late")
    counts = {"good": live.counts["good"], "anomalous": live.counts["anomalous"]}
    return {**{name: getattr(live, name) for name in names}, **counts, "none": live.counts["none"]}
