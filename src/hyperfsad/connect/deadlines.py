"""How long verdicts take from their triggers on, and which come too late."""

import threading
from collections import deque

import numpy as np

QUANTILES = (50, 95, 99)
REMEMBERED = 10_000
"""Verdicts that the quantiles look back on."""


class Latencies:
    """Seconds from trigger to verdict, counted for one camera."""

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline = deadline
        self.count = self.late = 0
        self._latest: deque[float] = deque(maxlen=REMEMBERED)
        self._lock = threading.Lock()

    def is_over(self, seconds: float) -> bool:
        """Whether a verdict after so many seconds is late."""
        return self.deadline is not None and seconds > self.deadline

    def add(self, seconds: float) -> bool:
        """Counts a verdict; returns whether it is late."""
        late = self.is_over(seconds)
        with self._lock:
            self._latest.append(seconds)
            self.count += 1
            self.late += late
        return late

    def quantiles(self) -> dict[int, float] | None:
        """Seconds at p50, p95 and p99 of the latest verdicts; None before the first."""
        with self._lock:
            latest = list(self._latest)
        if not latest:
            return None
        # the next higher value that was measured: a mean of two was not
        found = np.percentile(latest, QUANTILES, method="higher")
        return dict(zip(QUANTILES, found.tolist(), strict=True))
