"""The tables of docs/decisions.md: what thresholds from good parts alone are worth.

    python benchmarks/thresholds.py --suite suite.json [--shots 1,2,4] [--runs 5]
    python benchmarks/thresholds.py --conformal [--splits 200]

The first measures, on data sets with defects, false alarms on good test images and the balanced
accuracy, beside the best that any threshold on the same scores reaches. The second checks the
split-conformal bound on good parts that the demo draws: each split divides the same scores into
calibration images and fresh ones.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hyperfsad import HyperFSAD
from hyperfsad.bench.datasets import Category
from hyperfsad.bench.protocol import support_order
from hyperfsad.bench.run import Suite
from hyperfsad.bench.token_cache import TokenCache
from hyperfsad.decisions.thresholds import conformal_threshold
from hyperfsad.demo.drawing import PRODUCTS, draw
from hyperfsad.detector.recipes import find_recipe
from hyperfsad.images.loading import load_image

Scores = NDArray[np.float64]
RULES = ("default", "largest", "largest × 1.2")


def balanced_accuracy(scores: Scores, bad: NDArray[np.bool_], threshold: float) -> float:
    """In percent."""
    return float(50 * ((scores[bad] > threshold).mean() + (scores[~bad] <= threshold).mean()))


def best_accuracy(scores: Scores, bad: NDArray[np.bool_]) -> float:
    """Of all thresholds."""
    return max(balanced_accuracy(scores, bad, threshold) for threshold in [-np.inf, *scores])


def left_out(detector: HyperFSAD) -> float:
    """The largest score of a normal image against the others; a lone one has none."""
    bank = detector.memory_
    if len(bank.entries) == 1:
        return float("nan")
    return max(
        detector.leaving_out(entries).score_tokens(bank.tokens_of(entries[0]))[0].score
        for entries in bank.entries
    )


class Measured:
    """One category: its test images are encoded once."""

    def __init__(self, category: Category, recipe: str, engine: str) -> None:
        self.category = category
        self.detector = HyperFSAD(recipe=recipe, engine=engine)
        self.tokens = [
            self.detector.encoder_.encode([load_image(image.path)]) for image in category.test
        ]
        self.bad = np.array([image.anomalous for image in category.test])

    def run(self, support: Sequence[str]) -> dict[str, tuple[float, float, float]]:
        """False alarms, balanced accuracy and the best possible, for each rule, in percent."""
        fitted = self.detector.fit(list(support))
        scores = np.array([s.score for t in self.tokens for s in fitted.score_tokens(t)])
        best = best_accuracy(scores, self.bad)
        largest = left_out(fitted)
        assert fitted.threshold_ is not None
        chosen = dict(zip(RULES, (fitted.threshold_, largest, 1.2 * largest), strict=True))
        return {
            rule: (
                float(100 * (scores[~self.bad] > threshold).mean()),
                balanced_accuracy(scores, self.bad, threshold),
                best,
            )
            for rule, threshold in chosen.items()
            if not np.isnan(threshold)
        }


def thresholds(options: argparse.Namespace) -> None:
    """Prints a row for each category, number of shots and rule."""
    encoder = find_recipe(options.recipe).backbone
    categories = Suite.read(Path(options.suite), (encoder,)).load()
    shots = [int(part) for part in options.shots.split(",")]
    found: dict[tuple[str, int, str], list[tuple[float, float, float]]] = {}
    for category in categories:
        measured = Measured(category, options.recipe, options.engine)
        cache = TokenCache(measured.detector.settings, engine=options.engine, limit=0)
        for run in range(options.runs):
            order = support_order(category, run, 0, cache)
            for count in shots:
                for rule, row in measured.run(order[:count]).items():
                    found.setdefault((category.name, count, rule), []).append(row)
    names = [category.name for category in categories]
    print("| K | rule | " + " | ".join(names) + " | mean |")
    print("| --- " * (len(names) + 3) + "|")
    for count in shots:
        for rule in RULES:
            keys = [(name, count, rule) for name in names]
            rows = [np.mean(found[key], axis=0) for key in keys if key in found]
            if rows:
                cells = [_cell(row) for row in [*rows, np.mean(rows, axis=0)]]
                print(f"| {count} | {rule} | " + " | ".join(cells) + " |")
    print("Each cell: false alarms on good test images / points below the best balanced accuracy.")


def _cell(row: Scores) -> str:
    return f"{row[0]:.1f} / {row[2] - row[1]:.1f}"


def conformal(options: argparse.Namespace) -> None:
    """False alarms of the split-conformal threshold on fresh good parts, over many splits."""
    for product in PRODUCTS:
        detector = HyperFSAD(recipe=options.recipe, engine=options.engine)
        detector.fit([draw(product, seed=seed).image for seed in range(4)], threshold=False)
        total = options.calibration + options.fresh
        scores = np.array(
            [detector.predict(draw(product, seed=4 + seed).image).score for seed in range(total)]
        )
        shares = []
        for split in range(options.splits):
            order = np.random.default_rng(split).permutation(total)
            calibration = list(scores[order[: options.calibration]])
            threshold = conformal_threshold(calibration, options.rate)
            shares.append(float((scores[order[options.calibration :]] > threshold).mean()))
        mean, error = np.mean(shares), np.std(shares, ddof=1) / np.sqrt(options.splits)
        limit = options.rate + 2 * error
        print(
            f"{product}: {options.calibration} calibration images, level {options.rate:g}:"
            f" {mean:.4f} false alarms (standard error {error:.4f}, limit {limit:.4f},"
            f" {'kept' if mean <= limit else 'missed'}; {options.splits} splits of {total} parts)"
        )


def main() -> None:
    """Reads the options and measures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--suite")
    parser.add_argument("--shots", default="1,2,4")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--conformal", action="store_true")
    parser.add_argument("--calibration", type=int, default=40)
    parser.add_argument("--fresh", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--splits", type=int, default=200)
    options = parser.parse_args()
    if options.conformal:
        conformal(options)
    if options.suite:
        thresholds(options)


if __name__ == "__main__":
    main()
