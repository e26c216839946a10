"""The small part of the campaign of benchmarks/faults.py; each row must be without a fault."""

import json
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY

TRIALS = {
    "pictures": 2000,
    "files": 300,
    "kills": 60,
    "interrupts": 24,
    "watched": 12,
    "disks": 5,
    "pairs": 12,
}


@pytest.mark.parametrize("row", TRIALS)
def test_nothing_is_lost_doubled_cut_off_or_changed(row: str) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.faults", "--quick", "--json"]
    done = subprocess.run(
        [*command, "--only", row], capture_output=True, text=True, cwd=REPOSITORY, check=False
    )
    assert done.stdout, done.stderr
    (found,) = json.loads(done.stdout)
    if found["note"].startswith("not run"):
        pytest.skip(found["note"])
    assert found["faults"] == {}, done.stderr
    assert found["trials"] == TRIALS[row]
    assert done.returncode == 0
