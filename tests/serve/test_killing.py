"""kill -9 in the middle of everything: what was acknowledged is there, and nothing is half.

`python -m benchmarks.station --only kills` does the same two hundred times.
"""

from pathlib import Path

from tests.serve.killing import Killing
from tests.serve.stations import Stations

ROUNDS, MOST = 8, 40
KINDS = {"inspections", "products", "uploads"}


def test_kill_in_the_middle(stations: Stations, tmp_path: Path) -> None:
    killing = Killing(stations, tmp_path / "store")
    work = killing.work
    for number in range(MOST):
        killing.kill()
        if number + 1 >= ROUNDS and work.cut and set(work.done) >= KINDS:
            break
    assert work.cut
    assert set(work.done) >= KINDS
    killing.check(tmp_path)
