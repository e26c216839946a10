"""The tables of docs/measurements/line.md: what unlabelled parts of the line are worth.

    python benchmarks/line.py --suite suite.json -o out/ [--products screw,pill] [--threads 1]
    python benchmarks/line.py -o out/                    # the tables of what is there

A product needs the folder `line/good` beside `train/good`. The unlabelled parts are drawn from it,
with a share of bad ones from every second bad test image; these are never evaluated. Supports: the
first K files. Each row of the tables is a detector as users get it: `fit`, then
`adapt`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Remembering, arguments, products, read_json, supports, write_json

from hyperfsad import HyperFSAD
from hyperfsad.encoders.encoder import load_encoder, use_threads
from hyperfsad.lab.datasets import Category
from hyperfsad.quality.metrics import image_metrics, pixel_metrics, upsampled
from hyperfsad.quality.test_set import TestImage, load_mask

SIZE = 256
DRAWS = ("first",)
BRACKETS = ("bracket_black", "bracket_brown")
"""Their backdrop tells good from bad (docs/measurements/accuracy.md)."""
CONFIGURATIONS = (
    *((4, 0, 0.0), (4, 24, 0.0), (4, 24, 0.1), (4, 24, 0.2), (4, 12, 0.1)),
    *((1, 0, 0.0), (1, 24, 0.1)),
)
"""Good parts that are known, unlabelled parts, and the share of bad ones among them."""
FIGURES = ("I-AUROC", "P-AUROC", "PRO", "P-AP", "best", "balanced", "alarms", "found")


def unlabelled(category: Category, count: int, share: float, draw: str) -> list[str]:
    """Unlabelled parts in the order in which they come."""
    line = sorted(str(path) for path in (Path(category.normal[0]).parents[2] / "line").rglob("*.*"))
    bad = [image.path for image in halves(category)[0]]
    random = np.random.default_rng([DRAWS.index(draw), count])
    number = round(share * count)
    chosen = [line[place] for place in random.permutation(len(line))[: count - number]]
    chosen += [bad[place] for place in random.permutation(len(bad))[:number]]
    return [chosen[place] for place in random.permutation(count)]


def halves(category: Category) -> tuple[list[TestImage], list[TestImage]]:
    """The bad parts that may be unlabelled ones, and the images that are evaluated."""
    bad = [image for image in category.test if image.anomalous]
    good = [image for image in category.test if not image.anomalous]
    return bad[::2], good + bad[1::2]


def measured(detector: HyperFSAD, test: list[TestImage], masks: Any) -> dict[str, float]:
    """Every figure of a detector."""
    results = [detector.predict(image.path) for image in test]
    bad = np.array([image.anomalous for image in test])
    scores = np.array([result.score for result in results])
    called = np.array([bool(result.anomalous) for result in results])
    found: dict[str, Any] = dict(image_metrics(bad, scores))
    if masks is not None:
        maps = np.stack([result.anomaly_map for result in results])
        found |= pixel_metrics(upsampled(maps, SIZE, 0.0), masks)
    levels = [-np.inf, *scores]
    found["best"] = max(((scores[bad] > t).mean() + (scores[~bad] <= t).mean()) / 2 for t in levels)
    found["alarms"], found["found"] = called[~bad].mean(), called[bad].mean()
    found["balanced"] = (1 - found["alarms"] + found["found"]) / 2
    return {name: 100 * float(found[name]) for name in FIGURES if name in found}


def rows(category: Category) -> Iterator[dict[str, Any]]:
    """The figures of all detectors of a product."""
    encoder = Remembering(load_encoder(HyperFSAD().encoding_))
    test = halves(category)[1]
    masks = None
    if category.has_masks:
        masks = np.stack([load_mask(image, SIZE) for image in test])
    known = supports(category)
    fitted: dict[tuple[str, int], HyperFSAD] = {}
    for draw in DRAWS:
        for shots, count, share in CONFIGURATIONS:
            if (draw, shots) not in fitted:
                detector = HyperFSAD()
                detector.use_encoder(encoder)
                fitted[draw, shots] = detector.fit(known[draw, shots])
            detector = fitted[draw, shots].__copy__()
            if count:
                detector.adapt(unlabelled(category, count, share, draw))
            row = {"draw": draw, "shots": shots, "count": count, "share": share}
            yield {**row, **measured(detector, test, masks)}


def key_of(row: dict[str, Any]) -> tuple[int, int, float]:
    """The configuration of a row."""
    return row["shots"], row["count"], row["share"]


def tables(found: dict[str, list[dict[str, Any]]]) -> None:
    """Means over draws and products, all and without the brackets; then each product."""
    for shots, count, share in CONFIGURATIONS:
        chosen = {
            name: [
                r for r in every if (r["shots"], r["count"], r["share"]) == (shots, count, share)
            ]
            for name, every in found.items()
        }
        print(f"\nK = {shots}, {count} unlabelled parts, {100 * share:.0f} % bad")
        for title, left_out in (("all", ()), ("without brackets", BRACKETS)):
            names = [name for name in chosen if name not in left_out]
            cells = []
            for figure in FIGURES:
                means = [
                    np.mean([r[figure] for r in chosen[n]]) for n in names if figure in chosen[n][0]
                ]
                cells.append(f"{figure} {np.mean(means):.1f}")
            print(f"  {title:16} {'  '.join(cells)}")
        for name, every in chosen.items():
            keys = ("I-AUROC", "best", "balanced", "alarms")
            cells = [f"{key} {np.mean([row[key] for row in every]):.1f}" for key in keys]
            print(f"  {name:16} {'  '.join(cells)}")


def main() -> None:
    options = arguments(__doc__, "line").parse_args()
    use_threads(options.threads)
    out = Path(options.output)
    out.mkdir(parents=True, exist_ok=True)
    for category in products(options):
        file = out / f"{category.name}.json"
        if not file.exists() and (Path(category.normal[0]).parents[2] / "line").is_dir():
            write_json(file, {"product": category.name, "rows": list(rows(category))})
            print(category.name, flush=True)
    tables({found["product"]: found["rows"] for found in read_json(out)})


if __name__ == "__main__":
    main()
