"""Faults from outside, thousands of them: what happens to results, detectors and commands.

    python -m benchmarks.faults            # about half an hour on two cores
    python -m benchmarks.faults --quick    # a minute: the part that `make test` runs

Damaged pictures, damaged detector files, processes that are killed, full disks, and two processes
at one place. All come from a seed. The encoder is a small random one in the real format: what is
tested here does not depend on what it has learnt. Prints a table; every figure in it but the number
of trials should be 0, and the exit code says whether it is. Mounting small disks needs root.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.damaged import detector_files, pictures
from tests.faults.disturbing import full_disks, interrupts, kills, watched
from tests.faults.pairs import pairs
from tests.faults.stage import FAULTS, Stage, Tally

ROWS: dict[str, tuple[Callable[[Stage, int, int], Tally], int, int]] = {
    "pictures": (pictures, 6000, 1200),
    "files": (detector_files, 2000, 200),
    "kills": (kills, 1000, 24),
    "interrupts": (interrupts, 600, 12),
    "watched": (watched, 200, 10),
    "disks": (full_disks, 100, 5),
    "pairs": (pairs, 200, 12),
}
"""What is tried, how often, and how often in `make test`."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the small part for `make test`")
    parser.add_argument("--only", metavar="ROW", choices=ROWS, action="append", help="some rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    tallies = []
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        stage = Stage(Path(folder))
        for name in options.only or ROWS:
            campaign, most, few = ROWS[name]
            began = time.monotonic()
            tallies.append(campaign(stage, few if options.quick else most, options.seed))
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    for tally in tallies:
        for example in tally.examples:
            print(example, file=sys.stderr)
    print(_json(tallies) if options.json else _table(tallies))
    return int(any(tally.faults.total() for tally in tallies))


def _table(tallies: list[Tally]) -> str:
    rows = [["", "trials", *FAULTS, "seen"], ["---", *["---:"] * (1 + len(FAULTS)), "---"]]
    for tally in tallies:
        counts = [f"{tally.faults[kind]}" for kind in FAULTS]
        rows.append([tally.row, f"{tally.trials:,}", *counts, tally.note])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _json(tallies: list[Tally]) -> str:
    return json.dumps(
        [
            {"row": tally.row, "trials": tally.trials, "faults": +tally.faults, "note": tally.note}
            for tally in tallies
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
