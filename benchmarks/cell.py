"""A cell of a plant: parts, a station, MQTT, OPC UA and Modbus clients; what fails, and how fast.

    python -m benchmarks.cell --parts 1000

The broker is cut off for 30 seconds and the station killed twice. At the end each client has to
have every record once by its number, in order, and no "good" that was none. `tests/connect` runs
thirty parts of it.
"""

import argparse
import tempfile
import time
from pathlib import Path

from tests.conftest import save_tiny
from tests.connect.cell import Cell
from tests.serve.stations import Stations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=1000)
    parser.add_argument("--away", type=float, default=30.0, help="seconds without the broker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        stations = Stations(save_tiny(folder / "tiny"), folder)
        cell = Cell(stations, folder)
        seconds: list[float] = []
        try:
            run(cell, options.parts, options.away, seconds)
            cell.check()
        finally:
            cell.close()
            stations.close()
    seconds.sort()
    shares = {f"p{share}": seconds[share * (len(seconds) - 1) // 100] for share in (50, 95, 99)}
    print(f"{len(cell.verdicts)} records; each client has each of them once, in order")
    print(f"{len(cell.shown)} verdicts acted upon by the PLC, {len(cell.listener.records)} by MQTT")
    print("from trigger to verdict: " + ", ".join(f"{k} {v:.3f} s" for k, v in shares.items()))


def run(cell: Cell, parts: int, away: float, seconds: list[float]) -> None:
    """All parts, and what is broken between them."""

    def go(first: int, last: int) -> None:
        for number in range(first, last):
            began = time.monotonic()
            cell.part(number)
            seconds.append(time.monotonic() - began)
            if number % 100 == 99:  # a client that looks up records has only the latest thousand
                cell.catch_up()
                print(f"{number + 1} parts")

    def without_the_broker() -> None:
        end = time.monotonic() + away
        go(quarter, 2 * quarter)
        time.sleep(max(0.0, end - time.monotonic()))

    quarter = parts // 4
    go(0, quarter)
    cell.cut_off(without_the_broker)
    cell.kill()
    go(2 * quarter, 3 * quarter)
    cell.kill()
    go(3 * quarter, parts)


if __name__ == "__main__":
    main()
