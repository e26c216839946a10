"""Waiting for what a test needs: never for a fixed time, and never for ever."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE = 300.0
"""Seconds after which something has gone wrong, on the busiest machine."""


def until(found: Callable[[], T], what: str = "what the test waits for") -> T:
    """The first true value; a failure that names it where none comes."""
    end = time.monotonic() + DEADLINE
    while not (value := found()):
        assert time.monotonic() < end, f"{what} did not come within {DEADLINE:g} s"
        time.sleep(0.01)
    return value
