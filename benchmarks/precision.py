"""The tables of docs/measurements/precision.md: do faster precisions rank or classify worse?

    python benchmarks/precision.py --suite suite.json -o out/ [--products screw,pill] [--threads 1]
    python benchmarks/precision.py -o out/               # the tables of what is there

Each product gets detectors whose memory and thresholds are made in each precision, and the same
images are asked in it; and, since a file may be read where its precision is missing, in float32.
Products with `line/good` also learn from 24 unlabelled parts, 2 of them bad. Losses are means over
the supports of a product; their limit is the upper 95 % one of the mean over products, drawn anew
10,000 times. Rotated copies are left to screws and grids, to save time.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from line import halves, unlabelled
from measuring import Remembering, arguments, products, read_json, supports, write_json

from hyperfsad import HyperFSAD
from hyperfsad.encoders.devices import computes_in
from hyperfsad.encoders.encoder import load_encoder, prepare, use_threads
from hyperfsad.images.loading import load_image
from hyperfsad.lab.datasets import Category
from hyperfsad.quality.metrics import image_metrics, pixel_metrics, upsampled
from hyperfsad.quality.test_set import TestImage, load_mask

FULL, OTHERS = "float32", ("bf16", "int8")
DRAWS, SHOTS, LINE = ("first", "0"), (1, 4), 24
SIZE = 256
TURNED = ("screw", "grid")
FIGURES = {"I-AUROC": 0.5, "balanced": 1.0, "P-AP": 1.0, "PRO": 0.5}
"""What may be lost in the mean, in points."""
MOST_OF_ONE = 3.0
"""What one product may lose."""
DRAWN = 10_000


class Asked:
    """The test images of a product in each precision."""

    def __init__(self, here: list[str], resolution: int | None = None) -> None:
        settings = HyperFSAD(resolution=resolution).encoding_
        self.encoders = {
            name: Remembering(load_encoder(settings, "cpu", precision=name)) for name in here
        }

    def figures(
        self, detector: HyperFSAD, precision: str, test: Sequence[TestImage], masks: Any
    ) -> dict[str, Any]:
        """All figures of a detector whose images are encoded in a precision."""
        encoder, levels, results = self.encoders[precision], detector.levels(), []
        for image in test:
            tokens = encoder.encode_prepared([prepare(load_image(image.path), encoder.settings)])
            (scored,) = detector.score_tokens(tokens)
            results.append(levels.result(image.path, (SIZE, SIZE), None, None, scored))
        bad = np.array([image.anomalous for image in test])
        called = np.array([bool(result.anomalous) for result in results])
        found: dict[str, Any] = dict(image_metrics(bad, np.array([one.score for one in results])))
        if masks is not None:
            maps = np.stack([result.anomaly_map for result in results])
            found |= pixel_metrics(upsampled(maps, SIZE), masks)
        found["balanced"] = (called[bad].mean() + (~called[~bad]).mean()) / 2
        kept = {name: 100 * float(found[name]) for name in FIGURES if name in found}
        return {**kept, "levels": [float(result.level or 0) for result in results]}


def rows(category: Category, asked: Asked) -> Iterator[dict[str, Any]]:
    """The figures of every memory, asked in its own precision and in float32."""
    test, half = category.test, halves(category)[1]
    masks = [
        np.stack([load_mask(image, SIZE) for image in each]) if category.has_masks else None
        for each in (test, half)
    ]
    has_line = (Path(category.normal[0]).parents[2] / "line").is_dir()
    rotations: Any = "auto" if category.name in TURNED else 1
    for (draw, shots), paths in supports(category).items():
        if draw not in DRAWS or shots not in SHOTS:
            continue
        for memory, encoder in asked.encoders.items():
            detector = HyperFSAD(rotations=rotations)
            detector.use_encoder(encoder)
            detector.fit(paths)
            row = {"memory": memory, "draw": draw, "shots": shots, "line": 0}
            for precision in dict.fromkeys((memory, FULL)):
                pixels = masks[0] if precision == memory and draw == DRAWS[0] else None
                found = asked.figures(detector, precision, test, pixels)
                yield {**row, "asked": precision, **found}
            if has_line and (draw, shots) == (DRAWS[0], max(SHOTS)):
                detector.adapt(unlabelled(category, LINE, 2 / LINE, DRAWS[0]))
                found = asked.figures(detector, memory, half, masks[1])
                yield {**row, "line": LINE, "asked": memory, **found}


def tables(measured: dict[str, list[dict[str, Any]]]) -> None:
    """Losses against float32, and how far levels move."""
    ways = [(one, one) for one in OTHERS] + [(one, FULL) for one in OTHERS]
    for memory, asked in ways:
        print(f"\nmemory {memory}, asked in {asked}")
        for line in (0, LINE):
            for figure, allowed in FIGURES.items():
                losses = {
                    name: np.mean(found)
                    for name, every in measured.items()
                    if (found := _losses(every, memory, asked, line, figure))
                }
                if losses:
                    _print_losses(f"{figure}, {line} unlabelled", losses, allowed)
        moved = [m for every in measured.values() for m in _moved(every, memory, asked)]
        if moved:
            parts = np.quantile(moved, (0.5, 0.95, 1))
            print("  level moves by " + ", ".join(f"{100 * each:.2f} %" for each in parts))


def _pairs(
    every: list[dict[str, Any]], memory: str, asked: str, line: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Rows of a precision, each beside that of float32."""
    named = {(r["memory"], r["asked"], r["draw"], r["shots"], r["line"]): r for r in every}
    for (own, way, *rest), row in named.items():
        full = named.get((FULL, FULL, *rest))
        if (own, way, rest[-1]) == (memory, asked, line) and full is not None:
            yield row, full


def _losses(
    every: list[dict[str, Any]], memory: str, asked: str, line: int, figure: str
) -> list[float]:
    pairs = _pairs(every, memory, asked, line)
    return [full[figure] - own[figure] for own, full in pairs if figure in own and figure in full]


def _moved(every: list[dict[str, Any]], memory: str, asked: str) -> list[float]:
    return [
        abs(one - other) / max(other, 1e-9)
        for own, full in _pairs(every, memory, asked, 0)
        for one, other in zip(own["levels"], full["levels"], strict=True)
    ]


def _print_losses(title: str, losses: dict[str, Any], allowed: float) -> None:
    values = np.array(list(losses.values()))
    drawn = np.random.default_rng(0).choice(values, (DRAWN, len(values))).mean(axis=1)
    worst = max(losses, key=lambda name: losses[name])
    limit = np.quantile(drawn, 0.95)
    holds = "holds" if limit < allowed and losses[worst] <= MOST_OF_ONE else "does not hold"
    print(
        f"  {title:24} mean loss {values.mean():5.2f}, limit {limit:5.2f} of {allowed}, worst"
        f" {losses[worst]:5.2f} ({worst}), {len(values)} products: {holds}"
    )


def main() -> None:
    options = arguments(__doc__, "precision").parse_args()
    use_threads(options.threads)
    out = Path(options.output)
    out.mkdir(parents=True, exist_ok=True)
    here = [name for name in (FULL, *OTHERS) if computes_in(name, "openvino", "cpu")]
    for category in products(options):
        file = out / f"{category.name}.json"
        if not file.exists():
            found = list(rows(category, Asked(here)))
            write_json(file, {"product": category.name, "rows": found})
            print(category.name, flush=True)
    tables({found["product"]: found["rows"] for found in read_json(out)})


if __name__ == "__main__":
    main()
