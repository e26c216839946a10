"""What hangs together in a grid, numbered; small enough to go without scipy, which takes a tenth of
the start of `detect` to load."""

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.intp]


def labelled(inside: NDArray[np.bool_]) -> tuple[Labels, int]:
    """The number of each place, from 1, and how many there are; 0 lies outside.

    Neighbours are those at the corners too. Numbers follow the first place of each, row by row.
    """
    rows = len(inside)
    steps = np.diff(np.pad(inside.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    row, start = np.nonzero(steps == 1)
    stop = np.nonzero(steps == -1)[1]  # a run of a row is [start, stop)
    first = np.searchsorted(row, np.arange(rows + 1)).tolist()
    starts, stops = start.tolist(), stop.tolist()
    above = list(range(len(starts)))
    """Of each run, an earlier one that it hangs together with, or itself."""

    def earliest(run: int) -> int:
        while above[run] != run:
            above[run] = above[above[run]]
            run = above[run]
        return run

    for line in range(1, rows):
        one, other = first[line - 1], first[line]
        while one < first[line] and other < first[line + 1]:
            if starts[one] <= stops[other] and starts[other] <= stops[one]:
                low, high = sorted((earliest(one), earliest(other)))
                above[high] = low
            if stops[one] < stops[other]:
                one += 1
            else:
                other += 1
    known, numbers = np.unique([earliest(run) for run in range(len(starts))], return_inverse=True)
    labels = np.zeros(inside.shape, dtype=np.intp)
    labels[inside] = np.repeat(numbers + 1, stop - start)
    return labels, len(known)


def peaks(values: NDArray[np.float64], labels: Labels, count: int) -> list[tuple[int, int]]:
    """Row and column of the highest value of each label, the first of equals."""
    flat = labels.ravel()
    order = np.lexsort((-values.ravel(), flat))  # which is stable
    places = order[np.searchsorted(flat[order], np.arange(1, count + 1))]
    return [divmod(int(place), labels.shape[1]) for place in places]
