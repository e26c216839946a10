"""What half precision and 8 bits change: scores, maps, AUROC, verdicts and time, beside float32.

    python benchmarks/precision.py --suite suite.json [--images 16 | --images all] [--shots 1,4]
        [--recipe default] [--products bottle,pill] [--journal precision.jsonl]

Of each product it fits a detector with every engine on the same first good parts, so that memory
and thresholds are the engine's own, and asks all of them about the same test images, bad and good
ones in turns. Differences are those from the engine openvino (float32); verdicts are each engine's
by its own thresholds. Seconds are CPU time of one thread, of the encoder alone and of the whole
image; the engines take each image in turns. With a journal, a run that was stopped goes on where it
was. `--print` only reads journals.
"""

import argparse
import hashlib
import itertools
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Journal, Row, arguments, products
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from hyperfsad import HyperFSAD
from hyperfsad.arrays import Array
from hyperfsad.encoders.encoder import (
    Encoder,
    Tokens,
    load_encoder,
    prepare,
    use_threads,
)
from hyperfsad.encoders.engines import TokenEngine
from hyperfsad.encoders.openvino import load_engine
from hyperfsad.encoders.runtime import INT8, engine_in, precision_of
from hyperfsad.images.loading import load_image
from hyperfsad.lab.datasets import Category
from hyperfsad.quality.test_set import TestImage


class Remembering:
    """An engine that encodes no picture twice: the same are asked for each number of good parts."""

    is_broken = False

    def __init__(self, inner: TokenEngine) -> None:
        self._inner = inner
        self.name, self.fingerprint, self.width = inner.name, inner.fingerprint, inner.width
        self.known: dict[str, tuple[Array, Array]] = {}
        self.seconds: dict[str, float] = {}

    def tokens(self, pixels: NDArray[np.float32]) -> tuple[Array, Array]:
        found = [self._one(picture[None]) for picture in pixels]
        patches, cls = (np.concatenate([one[place] for one in found]) for place in (0, 1))
        return patches, cls

    def _one(self, pixels: NDArray[np.float32]) -> tuple[Array, Array]:
        key = hashlib.sha256(pixels.tobytes()).hexdigest()
        if key not in self.known:
            start = time.process_time()
            self.known[key] = self._inner.tokens(pixels)
            self.seconds[key] = time.process_time() - start
        return self.known[key]

    def took(self, pixels: NDArray[np.float32]) -> float:
        """The seconds of a picture when it was encoded."""
        return self.seconds[hashlib.sha256(pixels[None].tobytes()).hexdigest()]


def asked(category: Category, count: str) -> list[TestImage]:
    """Bad and good test images in turns; more images are these and others."""
    order = sorted(category.test, key=lambda one: hashlib.sha256(one.path.encode()).hexdigest())
    bad, good = ([one for one in order if one.anomalous is wanted] for wanted in (True, False))
    mixed = [one for pair in itertools.zip_longest(bad, good) for one in pair if one is not None]
    return mixed if count == "all" else mixed[: int(count)]


def fitted(
    engine: str, category: Category, shots: int, recipe: str, known: dict[str, Remembering]
) -> tuple[HyperFSAD, Remembering]:
    """A detector of an engine, and what encodes for it."""
    detector = HyperFSAD(recipe=recipe, device="cpu", engine=engine)  # type: ignore[arg-type]
    good = list(category.normal[:shots])
    if precision_of(engine) == INT8:
        detector.fit(good)
        assert detector.quantised_ is not None
        encoder = load_encoder(
            detector.encoding_, "cpu", engine=engine, quantised=detector.quantised_
        )
        return detector, Remembering(_Plain(encoder))
    if engine not in known:
        settings = detector.encoding_
        known[engine] = Remembering(load_engine(settings, print, precision=precision_of(engine)))
    detector.use_encoder(Encoder(detector.encoding_, known[engine], "cpu"))
    return detector.fit(good), known[engine]


class _Plain:
    """An encoder as an engine."""

    is_broken = False

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name, self.fingerprint, self.width = encoder.engine, encoder.fingerprint, encoder.width

    def tokens(self, pixels: NDArray[np.float32]) -> tuple[Array, Array]:
        found = self._encoder.encode_prepared(list(pixels))
        return found.patches, found.cls


def compare(category: Category, options: argparse.Namespace, done: set[Any]) -> list[Row]:
    """Rows of the images of a product that are not done."""
    known: dict[str, Remembering] = {}
    rows: list[Row] = []
    for shots in map(int, options.shots.split(",")):
        images = [
            image
            for image in asked(category, options.images)
            if (category.name, shots, category.name_of(image.path)) not in done
        ]
        if not images:
            continue
        forms = {
            engine: fitted(engine, category, shots, options.recipe, known)
            for engine in options.engines.split(",")
        }
        for image in images:
            rows += judged(image, category, shots, forms)
    return rows


def judged(
    image: TestImage,
    category: Category,
    shots: int,
    forms: dict[str, tuple[HyperFSAD, Remembering]],
) -> list[Row]:
    rows: list[Row] = []
    picture = load_image(image.path)
    expected: Any = None
    for engine, (detector, encoder) in forms.items():
        pixels = prepare(picture, detector.encoding_)
        tokens = Tokens(*encoder.tokens(pixels[None]))
        start = time.process_time()
        (scored,) = detector.score_tokens(tokens)
        result = detector.levels().result(picture.name, picture.size, None, None, scored)
        matching = time.process_time() - start
        expected = expected or result
        rows.append(
            {
                "product": category.name,
                "shots": shots,
                "image": category.name_of(image.path),
                "truth": image.anomalous,
                "engine": engine,
                "score": result.score,
                "threshold": detector.threshold_,
                "anomalous": result.anomalous,
                "map": float(np.abs(result.anomaly_map - expected.anomaly_map).max()),
                "encoder": encoder.took(pixels),
                "seconds": encoder.took(pixels) + matching,
            }
        )
    return rows


def table(rows: list[Row]) -> str:
    """Each engine beside the first, for each number of good parts, product by product and all."""
    lines = [
        "K  product        engine         images  verdicts   AUROC   Δscore mean/max   Δmap max"
        "  encoder s  image s"
    ]
    found: dict[Any, dict[str, dict[str, Row]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        for product in (row["product"], "all"):
            key = f"{row['product']}/{row['image']}"
            found[row["shots"], product][row["engine"]][key] = row
    for (shots, product), engines in sorted(
        found.items(), key=lambda one: (one[0][0], one[0][1] == "all", one[0][1])
    ):
        first = next(iter(engines.values()))
        for engine, own in engines.items():
            pairs = [(own[key], first[key]) for key in own]
            same = sum(one["anomalous"] == other["anomalous"] for one, other in pairs)
            off = [abs(one["score"] - other["score"]) for one, other in pairs]
            lines.append(
                f"{shots}  {product:14} {engine:14} {len(own):5}  {100 * same / len(own):6.2f} %"
                f"  {auroc(list(own.values())):6.4f}  {statistics.mean(off):.4f}/{max(off):.4f}"
                f"  {max(one['map'] for one, _ in pairs):8.4f}"
                f"  {statistics.median(one['encoder'] for one, _ in pairs):8.2f}"
                f"  {statistics.median(one['seconds'] for one, _ in pairs):8.2f}"
            )
    return "\n".join(lines)


def auroc(rows: list[Row]) -> float:
    """The mean over products."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["product"]].append(row)
    return statistics.mean(
        float(roc_auc_score([one["truth"] for one in group], [one["score"] for one in group]))
        for group in groups.values()
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--images", default="16", help="of each product; all: every one")
    parser.add_argument("--shots", default="1,4")
    parser.add_argument("--recipe", default="default")
    parser.add_argument(
        "--engines", default=",".join(engine_in(one) for one in ("f32", "bf16", INT8))
    )
    parser.add_argument("--print", type=Path, nargs="*", help="journals to make the table of")
    options = parser.parse_args()
    if options.print:
        print(table(Journal(*options.print).rows))
        return
    use_threads(1)
    journal = Journal(options.journal)
    done = {(row["product"], row["shots"], row["image"]) for row in journal.rows}
    for category in products(options):
        journal.add(compare(category, options, done))
        print(category.name, file=sys.stderr)
    print(table(journal.rows))


if __name__ == "__main__":
    main()
