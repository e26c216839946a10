"""The tables of docs/measurements/verdicts.md: what verdicts from good parts alone are worth.

    python benchmarks/verdicts.py --suite suite.json -o out/ [--products screw,pill] [--threads 1]
    python benchmarks/verdicts.py -o out/                      # the tables of what is there
    python benchmarks/verdicts.py --suite suite.json --outlier # one bad part among 24 good ones
    python benchmarks/verdicts.py --suite suite.json --learnt  # one bad part among 4 or 8 learnt
    python benchmarks/verdicts.py --conformal [--splits 200]

The first measures, on data sets with defects, false alarms on good test images, missed defects and
the balanced accuracy, beside the best that any threshold on the same scores reaches: five drawn
supports and the first K files, for K = 1, 2 and 4. The last table leaves whole products out: the
constants of the rule are chosen on the others. `--outlier` calibrates with 24 good parts, and with
23 and a bad one. `--learnt` fits on the first 4 and 8 files, and on 3 or 7 of them and a bad part:
does `fit` name it? `--conformal` checks the split-conformal bound on good parts that the demo
draws: each split divides the same scores into calibration images and fresh ones.
"""

import argparse
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measuring import (
    SHOTS,
    Remembering,
    arguments,
    products,
    read_json,
    supports,
    write_json,
)
from numpy.typing import NDArray

from hyperfsad import HyperFSAD
from hyperfsad.decisions import thresholds
from hyperfsad.decisions.odd import odd_learnt, odd_parts
from hyperfsad.decisions.thresholds import LeaveOneOut, conformal_threshold, from_support
from hyperfsad.demo.drawing import PRODUCTS, draw
from hyperfsad.detector.settings import RecipeName
from hyperfsad.encoders.encoder import load_encoder, use_threads
from hyperfsad.lab.datasets import Category

Scores = NDArray[np.float64]
Row = tuple[float, float, float, float]
"""Balanced accuracy, false alarms, missed defects, and the best balanced accuracy, in percent."""
Record = dict[str, Any]
Thresholds = tuple[float, float]
"""Of the score, and of the map."""
LONE = (1.4, 1.5, 1.58, 1.65, 1.75)
MARGIN = (1.0, 1.5, 2.0, 2.5)
ALONE = (1.0, 1.5, 2.0)
MAP_OVER_SCORE = 1.43 / 1.58
ASKED = 6
"""Bad parts of a product that are learnt in turn."""
CALIBRATED = 24
"""Good parts that calibrate, beside four that were learnt."""
MOST_FALSE_ALARMS = 12.0
"""Beyond this share a rule loses half a point for each further one, when constants are chosen."""


def measure(category: Category, file: Path, recipe: RecipeName) -> None:
    """What the detectors of all supports say of the test images, and of their good parts."""
    encoder = Remembering(load_encoder(HyperFSAD(recipe=recipe).encoding_))
    records = []
    for (draw_name, shots), paths in supports(category).items():
        detector = HyperFSAD(recipe=recipe)
        detector.use_encoder(encoder)
        detector.fit(paths)
        found = detector.view_.leave_one_out()
        results = [detector.predict(image.path) for image in category.test]
        records.append(
            {
                "draw": draw_name,
                "shots": shots,
                "scores": [result.score for result in results],
                "peaks": [float(result.anomaly_map.max()) for result in results],
                "threshold": detector.threshold_,
                "map_threshold": detector.map_threshold_,
                "left_out": [found.scores, found.peaks, found.self_distances, found.total],
            }
        )
    anomalous = [image.anomalous for image in category.test]
    write_json(file, {"product": category.name, "anomalous": anomalous, "records": records})
    print(category.name, flush=True)


def judged(record: Record, bad: NDArray[np.bool_], found: Thresholds) -> Row:
    """What the thresholds of score and map do; the best has any threshold on the score alone."""
    scores, peaks = np.array(record["scores"]), np.array(record["peaks"])
    anomalous = (scores > found[0]) | (peaks > found[1])
    alarms, missed = 100 * anomalous[~bad].mean(), 100 * (~anomalous[bad]).mean()

    def accuracy(level: float) -> float:
        return float(50 * ((scores[bad] > level).mean() + (scores[~bad] <= level).mean()))

    best = max(accuracy(level) for level in [-np.inf, *scores])
    return float(100 - (alarms + missed) / 2), float(alarms), float(missed), best


def rows(
    found: Record, shots: int, rule: Callable[[Record], Thresholds], first: bool = False
) -> Scores:
    """The mean over the draws of a product."""
    bad = np.array(found["anomalous"])
    chosen = [
        judged(record, bad, rule(record))
        for record in found["records"]
        if record["shots"] == shots and (not first or record["draw"] == "first")
    ]
    return np.asarray(np.mean(chosen, axis=0))


def as_set(record: Record) -> Thresholds:
    """The thresholds that the detector had."""
    return float(record["threshold"]), float(record["map_threshold"])


def as_with(lone: float, margin: float, alone: float) -> Callable[[Record], Thresholds]:
    """The thresholds that other constants would give."""

    def rule(record: Record) -> Thresholds:
        scores, peaks, apart, total = record["left_out"]
        seen = LeaveOneOut(tuple(scores), tuple(peaks), tuple(apart), total)
        thresholds.SPREAD_MARGIN, thresholds.ALONE = margin, alone
        rate, of_map = thresholds.FALSE_ALARM_RATE, lone * MAP_OVER_SCORE
        found = from_support(seen, rate, (lone, of_map))
        return found.threshold, found.map_threshold

    return rule


def tables(measured: dict[str, Record]) -> None:
    """Prints a row for each number of shots, and what leaving products out costs."""
    print("Balanced accuracy / false alarms / missed defects (best balanced accuracy)")
    for shots in SHOTS:
        every = {name: rows(found, shots, as_set) for name, found in measured.items()}
        mean = np.mean(list(every.values()), axis=0)
        first = np.mean([rows(found, shots, as_set, True) for found in measured.values()], axis=0)
        print(f"K = {shots}: mean {shown(mean)}; the first {shots}: {shown(first)}")
        print("   " + "  ".join(f"{name} {shown(row)}" for name, row in every.items()))
    if len(measured) > 1:
        leave_products_out(measured)


def leave_products_out(measured: dict[str, Record]) -> None:
    """Chooses the constants on all products but one, measures on that one."""
    grid = list(itertools.product(LONE, MARGIN, ALONE))
    figures = {
        name: {choice: [rows(found, shots, as_with(*choice)) for shots in SHOTS] for choice in grid}
        for name, found in measured.items()
    }

    def worth(choice: tuple[float, ...], names: Iterable[str]) -> float:
        means = np.mean([figures[name][choice] for name in names], axis=0)  # type: ignore[index]
        return float((means[:, 0] - np.maximum(means[:, 1] - MOST_FALSE_ALARMS, 0) / 2).sum())

    chosen = max(grid, key=lambda choice: worth(choice, measured))
    print(f"Chosen on all (one good part, margin, power): {chosen}")
    left = []
    for product in measured:
        names = [name for name in measured if name != product]
        choice = max(grid, key=lambda choice: worth(choice, names))
        left.append(figures[product][choice])
        print(f"without {product:14} {choice}: {shown_all(left[-1])}")
    print(f"left out       {shown_all(np.mean(left, axis=0))}")
    print(f"chosen on all  {shown_all(np.mean([f[chosen] for f in figures.values()], axis=0))}")


def shown(row: Scores) -> str:
    """The figures of one K."""
    return f"{row[0]:.1f} / {row[1]:.1f} / {row[2]:.1f} ({row[3]:.1f})"


def shown_all(found: Sequence[Scores] | Scores) -> str:
    """Balanced accuracy and false alarms of all K."""
    return ", ".join(f"{row[0]:.1f} / {row[1]:.1f}" for row in found)


def conformal(options: argparse.Namespace) -> None:
    """False alarms of the split-conformal threshold on fresh good parts, over many splits."""
    for product in PRODUCTS:
        detector = HyperFSAD(recipe=options.recipe)
        detector.fit([draw(product, seed=seed).image for seed in range(4)])
        assert detector.calibration_ is not None
        total = options.calibration + options.fresh
        results = [detector.predict(draw(product, seed=4 + seed).image) for seed in range(total)]
        reach = detector.calibration_.level
        scores = np.array([reach(one.score, float(one.anomaly_map.max())) for one in results])
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


def reached(detector: HyperFSAD, paths: Sequence[str]) -> Scores:
    """How far images reach against the thresholds that the good parts gave."""
    return np.array([detector.predict(path).level for path in paths], dtype=np.float64)


def with_an_outlier(categories: Iterable[Category], recipe: RecipeName) -> None:
    """Defects found after calibration with 24 good parts, when one of them is a bad part.

    Each bad test image takes the place of the last good part in turn; the others are to be found.
    """
    for category in categories:
        order = supports(category)["0", max(SHOTS)]
        further = [path for path in category.normal if path not in order][:CALIBRATED]
        if len(further) < CALIBRATED:
            continue
        detector = HyperFSAD(recipe=recipe).fit(order)
        good = reached(detector, further)
        bad = reached(detector, [image.path for image in category.test if image.anomalous])
        fresh = reached(detector, [image.path for image in category.test if not image.anomalous])
        rows = []
        for place, odd in enumerate(bad):
            others = np.delete(bad, place)
            mixed = np.append(good[:-1], odd)
            left = np.delete(mixed, odd_parts(list(mixed)))
            levels = [thresholds.good_part_level(list(each), 0.05) for each in (good, mixed, left)]
            rows.append([100 * float((others > level).mean()) for level in levels])
        level = thresholds.good_part_level(list(good), 0.05)
        clean, kept, dropped = np.mean(rows, axis=0)
        print(
            f"{category.name}: {len(further)} good parts at 5 %: {clean:.1f} % of the defects"
            f" found, {100 * (fresh > level).mean():.1f} % false alarms; with one bad part among"
            f" them {kept:.1f} % if it is kept, {dropped:.1f} % as calibrate does it; odd among the"
            f" good ones: {len(odd_parts(list(good)))}",
            flush=True,
        )


def with_a_bad_part_learnt(categories: Iterable[Category], recipe: RecipeName) -> None:
    """How often `fit` names a part: none is bad, or one of a few spread over the bad ones."""
    encoder = Remembering(load_encoder(HyperFSAD(recipe=recipe).encoding_))
    for category in categories:
        good = sorted(category.normal)
        bad = [image.path for image in category.test if image.anomalous]
        some = [bad[round(place * (len(bad) - 1) / (ASKED - 1))] for place in range(ASKED)]
        summary = []
        for shots in (4, 8):

            def named(paths: list[str]) -> int | None:
                detector = HyperFSAD(recipe=recipe)
                detector.use_encoder(encoder)
                return odd_learnt(detector.fit(paths, threshold=False).view_.leave_one_out().scores)

            wrong = named(good[:shots])
            found = [named([*good[: shots - 1], path]) == shots - 1 for path in some]
            nobody = "nobody" if wrong is None else f"{good[wrong]} of the good ones"
            summary.append(f"K = {shots}: {sum(found)} of {len(found)} bad parts named, {nobody}")
        encoder.known.clear()
        print(f"{category.name}: {'; '.join(summary)}", flush=True)


def main() -> None:
    """Measures what is not there yet, and prints the tables."""
    parser = arguments(__doc__, "verdicts")
    parser.add_argument("--recipe", default="default", help="the recipe (default: default)")
    parser.add_argument("--conformal", action="store_true", help="check the conformal bound")
    parser.add_argument("--outlier", action="store_true", help="one bad part among the good ones")
    parser.add_argument("--learnt", action="store_true", help="one bad part among those learnt")
    parser.add_argument("--calibration", type=int, default=40)
    parser.add_argument("--fresh", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--splits", type=int, default=200)
    options = parser.parse_args()
    use_threads(options.threads)
    if options.conformal:
        conformal(options)
        return
    if options.outlier:
        with_an_outlier(products(options), options.recipe)
        return
    if options.learnt:
        with_a_bad_part_learnt(products(options), options.recipe)
        return
    out = Path(options.output)
    out.mkdir(parents=True, exist_ok=True)
    for category in products(options):
        file = out / f"{category.name}.json"
        if not file.exists():
            measure(category, file, options.recipe)
    if found := {one["product"]: one for one in read_json(out)}:
        tables(found)


if __name__ == "__main__":
    main()
