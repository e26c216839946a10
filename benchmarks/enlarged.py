"""Tiles on real parts that were enlarged: do they order good and bad parts as well as the whole?

    python benchmarks/enlarged.py --suite suite.json [--times 3] [--tiles PX] [--shots 1,4]

Enlarged pictures hold no detail that the whole view lacks, so this is the hard case for tiles. The
support is that of `hyperfsad lab benchmark`.
`--every N` takes every N-th test image only. It prints the I-AUROC in percent.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.metrics import roc_auc_score

from hyperfsad import HyperFSAD
from hyperfsad.detector.recipes import find_recipe
from hyperfsad.images.loading import LoadedImage, load_image
from hyperfsad.lab.datasets import Category
from hyperfsad.lab.run import Suite
from hyperfsad.lab.supports import support_order
from hyperfsad.lab.token_cache import TokenCache

WAYS = ("whole", "tiles")


def enlarged(path: str, times: float) -> LoadedImage:
    """A picture of so many times the width and height."""
    picture = load_image(path).rgb()
    size = (round(times * picture.width), round(times * picture.height))
    return load_image(picture.resize(size, Image.Resampling.BICUBIC), path)


def measured(
    category: Category, options: argparse.Namespace, blank: HyperFSAD
) -> dict[tuple[int, str], float]:
    """I-AUROC for each number of shots and way, a mean over the runs."""
    shots = [int(part) for part in options.shots.split(",")]
    cache = TokenCache(blank.settings, engine=options.engine, limit=0)
    detectors = []
    for run in range(options.runs):
        order = support_order(category, run, 0, cache.content_hash)
        for count in shots:
            pictures = [enlarged(path, options.times).pixels for path in order[:count]]
            detectors.append(blank.unfitted().fit(pictures, threshold=False))
    tests = category.test[:: options.every]
    scores: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for image in tests:
        picture = enlarged(image.path, options.times)
        tokens = blank.encoder_.encode([picture])
        scores["whole"].append([d.score_tokens(tokens)[0].score for d in detectors])
        scores["tiles"].append([d.predict(picture.pixels).score for d in detectors])
    bad = [image.anomalous for image in tests]
    return {
        (count, way): float(
            np.mean(
                [
                    100 * roc_auc_score(bad, of_detector)
                    for of_detector in np.transpose(scores[way])[place :: len(shots)]
                ]
            )
        )
        for place, count in enumerate(shots)
        for way in WAYS
    }


def table(names: Sequence[str], found: Sequence[dict[tuple[int, str], float]]) -> None:
    """Prints a row for each number of shots and way."""
    print("| K | score | " + " | ".join(names) + " | mean |")
    print("| --- " * (len(names) + 3) + "|")
    for count, way in found[0]:
        cells = [of_category[count, way] for of_category in found]
        told = " | ".join(f"{cell:.1f}" for cell in [*cells, np.mean(cells)])
        print(f"| {count} | {way} | {told} |")


def main() -> None:
    """Reads the options and measures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--times", type=float, default=3)
    parser.add_argument("--tiles", type=int, metavar="PX", help="default: the encoder's resolution")
    parser.add_argument("--shots", default="1,4")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--engine", default="auto")
    options = parser.parse_args()
    categories = Suite.read(Path(options.suite), (find_recipe("default").backbone,)).load()
    blank = HyperFSAD(tiles=options.tiles or True, engine=options.engine)
    found = [measured(category, options, blank) for category in categories]
    table([category.name for category in categories], found)


if __name__ == "__main__":
    main()
