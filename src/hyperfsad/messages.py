"""How long work speaks to whoever started it: one sentence at a time."""

from collections.abc import Callable

Notify = Callable[[str], None]


def silent(_: str) -> None:
    """Tells nobody."""
