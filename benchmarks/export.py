"""How far exported models are from their detector on real images, with the size and time of each.

    python benchmarks/export.py --suite suite.json [--images 3 | --images all] [--shots 1,4]
        [--recipes default,paper-offline] [--products bottle,pill]
        [--exported] [--journal export.jsonl]

Of each product it learns the first good parts, exports the detector to ONNX and OpenVINO, and asks
all of them about the same test images, bad ones first. It prints the largest differences of score
and map from the detector, how many verdicts differ, megabytes on disk (those
of a detector file are without its encoder), and the median of the seconds per image. The forms take
each image in turns, so that whatever else the machine does burdens all of them; reading the file is
included.

`--exported` asks the exported models alone and takes the detector's tokens from the benchmark's
cache: for differences on many images, without times of the detector. With a journal, a run that was
stopped goes on where it was.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Journal, Row, arguments, products

from hyperfsad import HyperFSAD
from hyperfsad.encoders.encoder import Tokens, use_threads
from hyperfsad.export.exported import ExportedDetector
from hyperfsad.export.writing import export
from hyperfsad.images.loading import load_image
from hyperfsad.lab.datasets import Category
from hyperfsad.lab.tokens import TokenCache

EXPORTED = ("onnx", "openvino")
FORMS = ("detector", *EXPORTED)


def size_of(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def asked(category: Category, count: str) -> list[str]:
    """Test images, bad ones first, from the whole list."""
    images = sorted(category.test, key=lambda image: not image.anomalous)
    some = len(images) if count == "all" else int(count)
    return [image.path for image in images[:: max(1, len(images) // some)][:some]]


class Remembered:
    """The detector itself, on tokens that are known."""

    def __init__(self, detector: HyperFSAD, cache: TokenCache) -> None:
        self._detector, self._cache = detector, cache

    def predict(self, image: str) -> Any:
        found = self._cache.tokens(image)
        tokens = Tokens(np.stack(found.patches)[None], found.cls[None])
        (scored,) = self._detector.score_tokens(tokens)
        return self._detector.levels().result(image, load_image(image).size, image, None, scored)


def compare(
    category: Category,
    fresh: HyperFSAD,
    cache: TokenCache,
    options: argparse.Namespace,
    shots: int,
    journal: Journal,
) -> None:
    which = {"recipe": fresh.settings.recipe, "shots": shots, "product": category.name}
    done = {row["image"] for row in journal.rows if which.items() <= row.items()}
    images = asked(category, options.images)
    images = [image for image in images if category.name_of(image) not in done]
    if not images:
        return
    fresh.use_encoder(cache.encoder)
    detector = fresh.fit(list(category.normal[:shots]))
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "part.hfsad"
        detector.save(file)
        forms: dict[str, Any] = {
            FORMS[0]: Remembered(detector, cache) if options.exported else detector
        }
        sizes = dict.fromkeys(FORMS, size_of(file))
        for kind in EXPORTED:
            export(detector, Path(place) / kind, kind)
            forms[kind] = ExportedDetector(Path(place) / kind, threads=options.threads)
            sizes[kind] = size_of(Path(place) / kind)
        for form in forms.values():
            form.predict(images[0])  # once without the clock
        for image in images:
            found = {}
            for name, form in forms.items():
                start = time.perf_counter()
                found[name] = form.predict(image), time.perf_counter() - start
            expected = found[FORMS[0]][0]
            journal.add(
                [
                    {
                        **which,
                        "image": category.name_of(image),
                        "form": name,
                        "score": abs(result.score - expected.score),
                        "map": float(np.abs(result.anomaly_map - expected.anomaly_map).max()),
                        "verdict": result.anomalous != expected.anomalous,
                        "seconds": seconds,
                        "bytes": sizes[name],
                    }
                    for name, (result, seconds) in found.items()
                ]
            )


def table(journal: Journal) -> str:
    """The largest differences of each recipe and number of good parts."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in journal.rows:
        groups[row["recipe"], row["shots"], row["form"]].append(row)
    lines = ["recipe         K  form                Δ score  Δ map    verdicts   MB     s"]
    for (recipe, shots, name), rows in sorted(groups.items(), key=lambda one: one[0][:2]):
        score, on_map = (max(row[key] for row in rows) for key in ("score", "map"))
        megabytes = statistics.median(row["bytes"] for row in rows) / 1e6
        seconds = statistics.median(row["seconds"] for row in rows)
        lines.append(
            f"{recipe:13} {shots:2}  {name:18}  {score:.1e}  {on_map:.1e}"
            f"  {sum(row['verdict'] for row in rows):3} of {len(rows):<3}"
            f" {megabytes:6.1f} {seconds:6.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--images", default="3", help="of each product; all: every one")
    parser.add_argument("--shots", default="1,4")
    parser.add_argument("--recipes", default="default,paper-offline")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--exported", action="store_true", help="differences of exports alone")
    options = parser.parse_args()
    use_threads(options.threads)
    journal = Journal(options.journal)
    known = {
        recipe: TokenCache(HyperFSAD(recipe=recipe).encoding_, device="cpu")
        for recipe in options.recipes.split(",")
    }
    for category in products(options):
        for recipe, shots in itertools.product(known, map(int, options.shots.split(","))):
            fresh = HyperFSAD(recipe=recipe, device="cpu")
            compare(category, fresh, known[recipe], options, shots, journal)
            print(category.name, recipe, shots, file=sys.stderr)
    print(table(journal))


if __name__ == "__main__":
    main()
