"""A station under load while something is taken from it."""

import hashlib
import threading
import time
from collections import Counter
from pathlib import Path

from hyperfsad.serve.client import StationError
from tests.serve.conftest import png
from tests.serve.stations import Running, until


class Campaign:
    """Clients that go on sending, whatever comes back, and a folder that is watched."""

    def __init__(self, station: Running, camera: Path, clients: int = 4) -> None:
        self.station, self.client, self._camera = station, station.client(), camera
        self.product = self.client.create_product("bolt", [png(0), png(1)])["id"]
        self.kept: dict[str, str] = {}
        self.failed: Counter[tuple[int, str]] = Counter()
        self.unknown: set[str] = set()
        self.seconds: list[float] = []
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._send, args=(1000 * (number + 1),))
            for number in range(clients)
        ]

    def __enter__(self) -> "Campaign":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def more(self, count: int = 8) -> None:
        """Waits for further verdicts."""
        enough = len(self.kept) + count
        until(lambda: len(self.kept) >= enough, "further verdicts")

    def photograph(self, seed: int) -> None:
        name, content = png(seed)
        (self._camera / f"{name}.part").write_bytes(content)
        (self._camera / f"{name}.part").rename(self._camera / name)

    def _send(self, seed: int) -> None:
        while not self._ending.is_set():
            image = png(seed := seed + 1)
            sha256, began = hashlib.sha256(image[1]).hexdigest(), time.monotonic()
            try:
                (one,) = self.client.inspect(self.product, [image])["inspections"]
                self.kept[one["id"]] = sha256
            except StationError as error:
                self.failed[error.status, error.code or ""] += 1
                self.unknown.add(sha256)
            self.seconds.append(time.monotonic() - began)

    def check(self, watched: int) -> None:
        """All that was acknowledged is there, once; what was refused is there once at most."""
        assert set(self.failed) == {(503, "database-away")}
        seen = list(self.client.history(limit=100))
        rows = {row["id"]: row["image"] for row in seen}
        assert len(rows) == len(seen)
        assert self.kept.items() <= rows.items()
        photos = {hashlib.sha256(path.read_bytes()).hexdigest() for path in self._camera.iterdir()}
        others = Counter(image for one, image in rows.items() if one not in self.kept)
        assert set(others) <= self.unknown | photos
        assert set(others.values()) == {1}
        assert len(photos & set(others)) == watched == len(photos)
        for one, sha256 in self.kept.items():
            content = self.client.picture(one, "original")
            assert hashlib.sha256(content).hexdigest() == sha256
