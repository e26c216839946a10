"""The tables and the plot of docs/cascade.md: what a fast look before the full one is worth.

    python benchmarks/cascade.py --suite suite.json -o out/ [--products screw,pill] [--threads 1]
    python benchmarks/cascade.py --suite suite.json -o out/ --times all   # seconds, in turns
    python benchmarks/cascade.py -o out/ [--plot cascade.png]   # the tables of what is there

The first fits a cascade on the same good parts (K = 1 and 4, the first draw of the
benchmark) and asks both of its detectors about every test image; of the full one, encoding is
remembered. The scores of a product go to one file. From these the tables follow: a cascade does
nothing but choose whose result it gives. The curve leaves whole products out: for each product, the
limits are those that ask the full detector least while a share of the other products' images (of
both K) is judged otherwise than by it. The second takes the time of cascade and full detector,
image by image in turns. Times of the curve count the full detector as 1.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Remembering, arguments, products, read_json, supports, write_json
from numpy.typing import NDArray

from hyperfsad import CascadeDetector, HyperFSAD
from hyperfsad.detector.cascade import EIGHT_BITS_LIMITS, PrescreenLimits
from hyperfsad.detector.protocols import Predictor
from hyperfsad.encoders.encoder import load_encoder, use_threads
from hyperfsad.lab.datasets import Category
from hyperfsad.lab.drawing.canvas import new_figure
from hyperfsad.quality.metrics import image_metrics

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
SHOTS, DRAW = (1, 4), "0"
FULL = "full"
FAST = "int8"
COSTS = {1: 0.46, 4: 0.52}
"""Of the fast detector over the full one, by K."""
RATES = (0.0, 0.0025, 0.005, 0.01, 0.02, 0.04)


@dataclass(frozen=True)
class Said:
    """What a fast detector and the full one said of the test images of a product."""

    product: str
    bad: Flags
    full: Numbers
    """Levels."""
    fast: Numbers
    score: Numbers
    """Of the full detector, over its threshold."""
    fast_score: Numbers

    def judged_by_fast(self, limits: PrescreenLimits) -> Flags:
        """Which images the fast detector judges."""
        return np.array([limits.are_clear(float(each)) for each in self.fast])

    def otherwise(self, limits: PrescreenLimits) -> int:
        """Images that the cascade judges otherwise than the full detector."""
        differ = (self.fast > 1) != (self.full > 1)
        return int((self.judged_by_fast(limits) & differ).sum())


def measure(category: Category, file: Path) -> None:
    """What the full detector and each fast one say of the test images, with their thresholds."""
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"said": {}}
    encoder: Remembering | None = None
    said = found["said"]
    for shots in SHOTS:
        if str(shots) in said.setdefault(FAST, {}):
            continue
        cascade = CascadeDetector(device="cpu")
        encoder = encoder or Remembering(load_encoder(cascade.full_.encoding_, "cpu"))
        cascade.full_.use_encoder(encoder)
        cascade.fit(supports(category)[DRAW, shots])
        for way, detector in ((FULL, cascade.full_), (FAST, cascade.fast_)):
            said.setdefault(way, {})[str(shots)] = _said(detector, category)
    found |= {"product": category.name, "anomalous": [one.anomalous for one in category.test]}
    write_json(file, found)
    print(category.name, flush=True)


def _said(detector: HyperFSAD, category: Category) -> dict[str, Any]:
    results = [detector.predict(image.path) for image in category.test]
    return {
        "scores": [result.score for result in results],
        "peaks": [float(result.anomaly_map.max()) for result in results],
        "threshold": detector.threshold_,
        "map_threshold": detector.map_threshold_,
    }


def clock(category: Category, file: Path, count: str) -> None:
    """Seconds of the cascade, of its fast look alone and of the full detector, in turns."""
    rows = []
    for shots in SHOTS:
        cascade = CascadeDetector().fit(supports(category)[DRAW, shots])
        some = len(category.test) if count == "all" else int(count)
        step = max(1, len(category.test) // some)
        images = [image.path for image in category.test[::step]][:some]
        ways: dict[str, Predictor] = {
            "fast": cascade.fast_,
            "full": cascade.full_,
            "cascade": cascade,
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        asked = 0
        for number, path in enumerate([images[0], *images]):
            order = list(ways.items())
            for name, one in order if number % 2 else reversed(order):
                start = time.perf_counter()
                result = one.predict(path)
                taken[name].append(time.perf_counter() - start)
                asked += number > 0 and result.judged_by == FULL
        rows.append({"shots": shots, "asked": asked, **{k: v[1:] for k, v in taken.items()}})
    write_json(file, rows)
    print(category.name, flush=True)


def read(out: Path, shots: int) -> list[Said]:
    """What was measured, product by product."""
    found = []
    for content in read_json(out, "*.said.json"):
        (full, score), (fast, fast_score) = (
            _levels(content["said"][name][str(shots)]) for name in (FULL, FAST)
        )
        bad = np.array(content["anomalous"])
        found.append(Said(content["product"], bad, full, fast, score, fast_score))
    return found


def _levels(said: dict[str, Any]) -> tuple[Numbers, Numbers]:
    scores = np.array(said["scores"]) / said["threshold"]
    return np.maximum(scores, np.array(said["peaks"]) / said["map_threshold"]), scores


def chosen(others: Sequence[Said], rate: float) -> PrescreenLimits:
    """The limits that ask the full detector least while at most a share is judged otherwise."""
    fast, full = (np.concatenate([getattr(one, of) for one in others]) for of in ("fast", "full"))
    allowed, best, most = int(rate * len(fast)), PrescreenLimits(0.0, np.inf), -1
    lows = np.unique([0.0, *np.minimum(fast, 1.0)])
    highs = np.unique([*np.maximum(fast, 1.0), np.inf])
    good = [((fast < low).sum(), ((fast < low) & (full > 1)).sum()) for low in lows]
    bad = [((fast > high).sum(), ((fast > high) & (full <= 1)).sum()) for high in highs]
    for low, (below, missed) in zip(lows, good, strict=True):
        for high, (above, alarms) in zip(highs, bad, strict=True):
            if missed + alarms <= allowed and below + above > most:
                most, best = below + above, PrescreenLimits(float(low), float(high))
    return best


def curve(said: dict[int, list[Said]]) -> Iterator[tuple[Any, ...]]:
    """Rate, number of good parts, agreement, share asked (all, good, bad) and time, each product
    left out in turn."""
    for rate in RATES:
        limits = {
            one.product: chosen(
                [other for each in said.values() for other in each if other.product != one.product],
                rate,
            )
            for one in said[SHOTS[0]]
        }
        for shots, own in said.items():
            otherwise = sum(one.otherwise(limits[one.product]) for one in own)
            every = np.concatenate([~one.judged_by_fast(limits[one.product]) for one in own])
            bad = np.concatenate([one.bad for one in own])
            share = float(every.mean())
            agreement = 1 - otherwise / len(every)
            asked = share, every[~bad].mean(), every[bad].mean()
            yield rate, shots, agreement, *asked, COSTS[shots] + share


def auroc(scores: Numbers, bad: Flags) -> float:
    """I-AUROC in percent."""
    return 100 * (image_metrics(bad, scores)["I-AUROC"] or 0.0)


def balanced(anomalous: Flags, bad: Flags) -> float:
    """Balanced accuracy in percent."""
    return 50 * float(anomalous[bad].mean() + (~anomalous[~bad]).mean())


def table(said: Sequence[Said], limits: PrescreenLimits) -> Iterator[str]:
    """Each product with fixed limits: agreement, share asked, AUROC and balanced accuracy."""
    yield "| product | images | agree % | asked % | AUROC full, cascade | balanced full, cascade |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    rows = []
    for one in said:
        fast = one.judged_by_fast(limits)
        scores = np.where(fast, one.fast_score, one.score)
        verdicts = np.where(fast, one.fast > 1, one.full > 1)
        row = [100 * (1 - one.otherwise(limits) / len(fast)), 100 * (~fast).mean()]
        row += [auroc(one.score, one.bad), auroc(scores, one.bad)]
        row += [balanced(one.full > 1, one.bad), balanced(verdicts, one.bad)]
        rows.append((one.product, len(fast), row))
    count = np.array([images for _, images, _ in rows])
    values = np.array([row for _, _, row in rows])
    means = [*np.average(values[:, :2], axis=0, weights=count), *values[:, 2:].mean(axis=0)]
    for product, images, row in [*rows, ("all", int(count.sum()), means)]:
        yield (
            f"| {product} | {images} | {row[0]:.1f} | {row[1]:.0f} | {row[2]:.1f}, {row[3]:.1f}"
            f" | {row[4]:.1f}, {row[5]:.1f} |"
        )


def times(out: Path) -> Iterator[str]:
    """Milliseconds an image, means over the images of each product, and their ratios."""
    yield "| product | K | asked | full ms | fast ms | cascade ms | fast / full | cascade / full |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    every: dict[int, list[Any]] = {shots: [] for shots in SHOTS}
    files = sorted(out.glob("*.times.json"))
    for file in files:
        for row in json.loads(file.read_text(encoding="utf-8")):
            every[row["shots"]].append(row)
            yield _time_row(file.name.partition(".")[0], row["shots"], [row])
    for shots, rows in every.items() if files else ():
        yield _time_row("**all**", shots, rows)


def _time_row(name: str, shots: int, rows: Sequence[Any]) -> str:
    full, fast, cascade = (
        1000 * float(np.mean(np.concatenate([row[way] for row in rows])))
        for way in (FULL, "fast", "cascade")
    )
    asked, images = (
        sum(each) for each in zip(*((r["asked"], len(r[FULL])) for r in rows), strict=True)
    )
    return (
        f"| {name} | {shots} | {asked} of {images} | {full:.0f} | {fast:.0f} | {cascade:.0f}"
        f" | {fast / full:.2f} | {cascade / full:.2f} |"
    )


def tables(out: Path, plot: Path | None) -> None:
    """Everything that docs/cascade.md shows."""
    figure = new_figure(6.4, 2.8, layout="constrained")
    panels = dict(zip(SHOTS, figure.subplots(1, 2, sharey=True), strict=True))
    said = {shots: read(out, shots) for shots in SHOTS}
    if len(said[SHOTS[0]]) > 1:
        print("\n| allowed % | K | agree % | asked % (good, bad) | time |")
        print("| ---: | ---: | ---: | ---: | ---: |")
        points: dict[int, list[tuple[float, float]]] = {shots: [] for shots in SHOTS}
        for rate, shots, agreement, share, good, bad, taken in curve(said):
            points[shots].append((taken, 100 * agreement))
            print(
                f"| {100 * rate:g} | {shots} | {100 * agreement:.1f} | {100 * share:.0f}"
                f" ({100 * good:.0f}, {100 * bad:.0f}) | {taken:.2f} |"
            )
        limits = EIGHT_BITS_LIMITS
        for shots, axes in panels.items():
            axes.plot(*zip(*points[shots], strict=True), "o-", markersize=3, label=FAST)
            print(f"\nK = {shots}, limits {limits.low:g} and {limits.high:g}\n")
            print("\n".join(table(said[shots], limits)))
    for shots, axes in panels.items():
        axes.axhline(99.5, color="#999999", linestyle=":")
        axes.axvline(0.5, color="#999999", linestyle=":")
        axes.set(xlabel="time over the full detector", title=f"K = {shots}")
        axes.grid(True)
    panels[SHOTS[0]].set_ylabel("verdicts that agree, %")
    panels[SHOTS[0]].legend(fontsize=6)
    if plot is not None:
        figure.savefig(plot, dpi=150)
    print()
    print("\n".join(times(out)))


def main() -> None:
    parser = arguments(__doc__, "cascade")
    parser.add_argument("--times", metavar="IMAGES", help="of each product; all: every one")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    use_threads(options.threads)
    out = Path(options.output)
    out.mkdir(parents=True, exist_ok=True)
    for category in products(options):
        if options.times:
            clock(category, out / f"{category.name}.times.json", options.times)
        else:
            measure(category, out / f"{category.name}.said.json")
    tables(out, options.plot)


if __name__ == "__main__":
    main()
