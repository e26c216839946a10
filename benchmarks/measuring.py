"""What the benchmarks share: their options, products, supports, journals and encoders."""

import argparse
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperfsad.disk.files import atomic_path
from hyperfsad.encoders.encoder import Encoder, Tokens
from hyperfsad.lab.datasets import Category
from hyperfsad.lab.run import Suite
from hyperfsad.lab.supports import support_order

SHOTS, RUNS = (1, 2, 4), 5
Row = dict[str, Any]


def arguments(description: str | None, output: str | None = None) -> argparse.ArgumentParser:
    """The options of every benchmark that measures product by product."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--suite", help="JSON file of data sets, as for `hyperfsad lab benchmark`")
    parser.add_argument("--products", help="only these, separated by commas")
    if output:
        parser.add_argument("-o", "--output", default=output, help="folder for the figures")
        parser.add_argument("--threads", type=int, help="CPU cores to use")
    else:
        parser.add_argument("--journal", type=Path, help="a file to continue from")
    return parser


def products(options: argparse.Namespace) -> list[Category]:
    """The products of the suite that are asked for; none without a suite."""
    found = Suite.read(Path(options.suite), ()).load() if options.suite else []
    wanted = options.products.split(",") if options.products else [one.name for one in found]
    return [category for category in found if category.name in wanted]


def supports(category: Category) -> dict[tuple[str, int], list[str]]:
    """The good parts of each draw and K: those of the benchmark, and the first files."""
    draws = {str(run): support_order(category, run, 0, lambda path: path) for run in range(RUNS)}
    draws["first"] = sorted(category.normal)
    return {(draw, shots): draws[draw][:shots] for draw in draws for shots in SHOTS}


def write_json(file: Path, content: Any) -> None:
    """Writes a whole file or nothing."""
    with atomic_path(file) as temporary:
        temporary.write_text(json.dumps(content), encoding="utf-8")


def read_json(out: Path, pattern: str = "*.json") -> Iterator[Any]:
    """The files of a folder that was measured before."""
    for file in sorted(out.glob(pattern)):
        yield json.loads(file.read_text(encoding="utf-8"))


class Journal:
    """The rows so far; in a file, if there is one, so that a stopped run continues."""

    def __init__(self, *paths: Path | None) -> None:
        self._path = paths[0] if paths else None
        found = [path for path in paths if path is not None and path.exists()]
        lines = [line for path in found for line in path.read_text("utf-8").splitlines()]
        self.rows: list[Row] = [json.loads(line) for line in lines if line.endswith("}")]

    def add(self, rows: Sequence[Row]) -> None:
        self.rows += rows
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)


class Remembering(Encoder):
    """An encoder that encodes no picture twice; perhaps some of another's layers alone."""

    def __init__(self, encoder: Encoder, picked: Sequence[int] | None = None) -> None:
        super().__init__(encoder.settings, encoder._engine, encoder.device)
        self._encoder, self._picked = encoder, picked
        self.known: dict[bytes, Tokens] = {}

    def encode_prepared(self, images: Sequence[NDArray[np.float32]]) -> Tokens:
        found = []
        for image in images:
            key = hashlib.sha256(image.tobytes()).digest()
            if key not in self.known:
                self.known[key] = self._encoder.encode_prepared([image])
            found.append(self.known[key])
        tokens = Tokens.joined(found)
        if self._picked is None:
            return tokens
        picked = list(self._picked)
        return Tokens(tokens.patches[:, picked], tokens.cls[:, picked])
