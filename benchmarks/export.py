"""How far exported models are from their detector on real images, with the size and time of each.

    python benchmarks/export.py --suite suite.json [--images 3] [--shots 1,4] [--threads 1]
        [--recipes default,paper-offline] [--products bottle,pill]

Of each product it learns the first good parts, exports the detector to ONNX and OpenVINO, and asks
all of them about the same test images, bad ones first. It prints the largest differences of score
and map from the detector with the engine torch, how many verdicts differ, megabytes on disk (those
of a detector file are without its encoder), and the median of the seconds per image. The forms take
each image in turns, so that whatever else the machine does burdens all of them; reading the file is
included.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from hyperfsad import HyperFSAD
from hyperfsad.bench.datasets import Category
from hyperfsad.bench.run import Suite
from hyperfsad.encoders.encoder import Encoder, load_encoder, use_threads
from hyperfsad.export.exported import ExportedDetector
from hyperfsad.export.writing import export

EXPORTED = ("onnx", "openvino")
FORMS = ("detector, torch", "detector, openvino", *EXPORTED)


class Tally:
    """What was seen of one form."""

    def __init__(self) -> None:
        self.score, self.map, self.verdicts, self.images = 0.0, 0.0, 0, 0
        self.seconds: list[float] = []
        self.bytes: list[int] = []

    def add(self, result: Any, expected: Any, seconds: float) -> None:
        self.images += 1
        self.seconds.append(seconds)
        self.score = max(self.score, abs(result.score - expected.score))
        self.map = max(self.map, float(np.abs(result.anomaly_map - expected.anomaly_map).max()))
        self.verdicts += result.anomalous != expected.anomalous


def size_of(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def asked(category: Category, count: int) -> list[str]:
    """Test images, bad ones first, from the whole list."""
    images = sorted(category.test, key=lambda image: not image.anomalous)
    step = max(1, len(images) // count)
    return [str(image.path) for image in images[::step][:count]]


def compare(
    category: Category,
    fresh: HyperFSAD,
    encoders: dict[str, Encoder],
    options: argparse.Namespace,
    shots: int,
    tallies: dict[str, Tally],
) -> None:
    fresh.use_encoder(encoders["torch"])
    detector = fresh.fit(list(category.normal[:shots]))
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "part.hfsad"
        detector.save(file)
        other = HyperFSAD.load(file, engine="openvino")
        other.use_encoder(encoders["openvino"])
        forms: dict[str, Any] = dict(zip(FORMS, (detector, other), strict=False))
        tallies[FORMS[0]].bytes.append(size_of(file))
        tallies[FORMS[1]].bytes.append(size_of(file))
        for kind in EXPORTED:
            export(detector, Path(place) / kind, kind)
            forms[kind] = ExportedDetector(Path(place) / kind, threads=options.threads)
            tallies[kind].bytes.append(size_of(Path(place) / kind))
        images = asked(category, options.images)
        for form in forms.values():
            form.predict(images[0])  # once without the clock
        for image in images:
            found = {}
            for name, form in forms.items():
                start = time.perf_counter()
                found[name] = form.predict(image), time.perf_counter() - start
            expected = found[FORMS[0]][0]
            for name, (result, seconds) in found.items():
                tallies[name].add(result, expected, seconds)


def told(tallies: dict[str, Tally]) -> str:
    """The differences so far, in one line."""
    return "  ".join(f"{name} {one.score:.1e} {one.map:.1e}" for name, one in tallies.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", required=True)
    parser.add_argument("--images", type=int, default=3, help="of each product")
    parser.add_argument("--shots", default="1,4")
    parser.add_argument("--recipes", default="default,paper-offline")
    parser.add_argument("--products", help="names, separated by commas (default: all)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    use_threads(options.threads)
    categories = Suite.read(Path(options.suite), ()).load()
    if options.products:
        categories = [one for one in categories if one.name in options.products.split(",")]
    print("recipe         K  form                Δ score  Δ map    verdicts   MB     s")
    for recipe in options.recipes.split(","):
        settings = HyperFSAD(recipe=recipe).settings
        engines = ("torch", "openvino")
        encoders = {name: load_encoder(settings, "cpu", engine=name) for name in engines}
        for shots in map(int, options.shots.split(",")):
            tallies: dict[str, Tally] = defaultdict(Tally)
            for category in categories:
                fresh = HyperFSAD(recipe=recipe, device="cpu", engine="torch")
                compare(category, fresh, encoders, options, shots, tallies)
                print(recipe, shots, category.name, told(tallies), sep="  ", file=sys.stderr)
            for name, one in tallies.items():
                megabytes = statistics.median(one.bytes) / 1e6
                seconds = statistics.median(one.seconds)
                print(
                    f"{recipe:13} {shots:2}  {name:18}  {one.score:.1e}  {one.map:.1e}"
                    f"  {one.verdicts:3} of {one.images:<3}"
                    f" {megabytes:6.1f} {seconds:6.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
