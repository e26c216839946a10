"""CLS scores from the results of earlier runs."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError, reason

RESULTS = "results.jsonl"


def is_results(source: str) -> bool:
    """Whether a path is a results file or the output folder of a run."""
    return source.endswith(".jsonl") or os.path.isfile(os.path.join(source, RESULTS))


def read_stream(sources: Sequence[str]) -> list[tuple[str, float]]:
    """Name and S_cls of each image that was scored, in the order of the lines."""
    found: list[tuple[str, float]] = []
    for source in sources:
        path = Path(source) / RESULTS if os.path.isdir(source) else Path(source)
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} cannot be read: {reason(error)}.") from error
        for number, line in enumerate(lines, start=1):
            try:
                entry = json.loads(line)
                if entry["error"] is None:
                    found.append((str(entry["image"]), float(entry["score_cls"])))
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(
                    f"Line {number} of {path} is not a line of results; write them again with"
                    " hyperfsad detect."
                ) from error
    return found
