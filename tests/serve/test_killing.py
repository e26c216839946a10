"""kill -9 in the middle of everything: what was acknowledged is there, and nothing is half.

`python -m benchmarks.station --only kills` does the same two hundred times.
"""

from pathlib import Path

from tests.serve.killing import Killing
from tests.serve.stations import Stations

ROUNDS = 8


def test_kill_in_the_middle(stations: Stations, tmp_path: Path) -> None:
    killing = Killing(stations, tmp_path / "store")
    for _ in range(ROUNDS):
        killing.kill()
    work = killing.work
    assert work.inspections
    assert work.cut
    assert {"inspections", "products", "uploads"} <= set(work.done)
    killing.check(tmp_path)
