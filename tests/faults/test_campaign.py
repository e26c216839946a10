"""The small part of the campaign of benchmarks/faults.py; each row must be without a fault."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import REPOSITORY

TRIALS = {
    "pictures": 1200,
    "files": 200,
    "kills": 24,
    "interrupts": 12,
    "watched": 12,
    "disks": 5,
    "pairs": 12,
}


@pytest.fixture(scope="module")
def campaign() -> tuple[dict[str, Any], str]:
    """What came of each row, and the examples of faults; all rows share one process and stage."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.faults", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.stdout, done.stderr
    return dict(zip(TRIALS, json.loads(done.stdout), strict=True)), done.stderr


@pytest.mark.parametrize("row", TRIALS)
def test_nothing_is_lost_doubled_cut_off_or_changed(
    row: str, campaign: tuple[dict[str, Any], str]
) -> None:
    rows, said = campaign
    found = rows[row]
    if found["note"].startswith("not run"):
        pytest.skip(found["note"])
    assert found["faults"] == {}, said
    assert found["trials"] == TRIALS[row]
