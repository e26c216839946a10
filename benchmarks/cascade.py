"""The tables and the plot of docs/cascade.md: what a fast look before the full one is worth.

    python benchmarks/cascade.py --suite suite.json -o out/ [--products screw,pill] [--threads 1]
    python benchmarks/cascade.py -o out/ [--plot cascade.png]   # the tables of what is there
    python benchmarks/cascade.py --suite suite.json -o out/ --times 8   # milliseconds, in turns

The first fits the full detector and each fast one on the same good parts (K = 1 and 4, the first
draw of the benchmark) and asks all of them about every test image; only encoding is remembered. The
scores of a product go to one file. From these the tables follow: a cascade does nothing but choose
whose result it gives. The curve leaves whole products out: for each product, the limits are those
that ask the full detector least while a share of the other products' images is judged otherwise
than by it. Times of the curve count the full detector as 1.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ranking import Remembering, supports

from hyperfsad import CascadeDetector, HyperFSAD
from hyperfsad.bench.datasets import Category
from hyperfsad.bench.drawing.canvas import new_figure
from hyperfsad.bench.metrics import image_metrics
from hyperfsad.bench.run import Suite
from hyperfsad.decisions.limits import Limits
from hyperfsad.disk.files import atomic_path
from hyperfsad.encoders.encoder import load_encoder, use_threads

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
SHOTS, DRAW = (1, 4), "0"
FULL = "full"
WAYS: dict[str, dict[str, Any]] = {
    "168 px": {"resolution": 168},
    "224 px": {"resolution": 224},
    "280 px": {"resolution": 280},
    "layer 3": {"layers": (3,)},
}
"""The fast detectors that are compared."""
CHOSEN = "224 px"
COSTS = {"168 px": 0.12, "224 px": 0.21, "280 px": 0.34, "layer 3": 0.25}
"""Of one image over the full detector, where no times were measured: operations of the encoder."""
GOES_ON = ("layer 3",)
"""Where the full detector could go on from what the fast one has computed."""
RATES = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08)


@dataclass(frozen=True)
class Said:
    """What a fast detector and the full one said of the test images of a product."""

    product: str
    bad: Flags
    full: Numbers
    """Strengths."""
    fast: Numbers
    score: Numbers
    """Of the full detector, over its threshold."""
    fast_score: Numbers

    def judged_by_fast(self, limits: Limits) -> Flags:
        """Which images the fast detector judges."""
        return np.array([limits.are_clear(float(each)) for each in self.fast])

    def otherwise(self, limits: Limits) -> int:
        """Images that the cascade judges otherwise than the full detector."""
        differ = (self.fast > 1) != (self.full > 1)
        return int((self.judged_by_fast(limits) & differ).sum())


def measure(category: Category, file: Path) -> None:
    """What the full detector and each fast one say of the test images, with their thresholds."""
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"said": {}}
    for way, settings in {FULL: {}, **WAYS}.items():
        if way in found["said"]:
            continue
        encoder = Remembering(load_encoder(HyperFSAD(**settings).settings))
        said = found["said"][way] = {}
        for shots in SHOTS:
            detector = HyperFSAD(**settings)
            detector.use_encoder(encoder)
            detector.fit(supports(category)[DRAW, shots])
            results = [detector.predict(image.path) for image in category.test]
            said[str(shots)] = {
                "scores": [result.score for result in results],
                "peaks": [float(result.anomaly_map.max()) for result in results],
                "threshold": detector.threshold_,
                "map_threshold": detector.map_threshold_,
            }
    found |= {"product": category.name, "anomalous": [one.anomalous for one in category.test]}
    with atomic_path(file) as temporary:
        temporary.write_text(json.dumps(found), encoding="utf-8")
    print(category.name, flush=True)


def clock(category: Category, file: Path, count: int) -> None:
    """Milliseconds of the cascade, of its fast look alone and of the full detector, in turns."""
    rows = []
    for shots in SHOTS:
        cascade = CascadeDetector().fit(supports(category)[DRAW, shots])
        step = max(1, len(category.test) // count)
        images = [image.path for image in category.test[::step]][:count]
        taken: dict[str, list[float]] = {"cascade": [], "fast": [], "full": []}
        asked = 0
        for path in [images[0], *images]:
            for name, one in (("fast", cascade.fast_), ("full", cascade.full_)):
                start = time.perf_counter()
                one.predict(path)
                taken[name].append(1000 * (time.perf_counter() - start))
            start = time.perf_counter()
            result = cascade.predict(path)
            taken["cascade"].append(1000 * (time.perf_counter() - start))
            asked += result.looked == FULL
        rows.append({"shots": shots, "asked": asked, **{k: v[1:] for k, v in taken.items()}})
    with atomic_path(file) as temporary:
        temporary.write_text(json.dumps(rows), encoding="utf-8")
    print(category.name, flush=True)


def read(out: Path, way: str, shots: int) -> list[Said]:
    """What is there of a way, product by product."""
    found = []
    for file in sorted(out.glob("*.said.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        if {FULL, way} <= content["said"].keys():
            (full, score), (fast, fast_score) = (
                _strengths(content["said"][name][str(shots)]) for name in (FULL, way)
            )
            bad = np.array(content["anomalous"])
            found.append(Said(content["product"], bad, full, fast, score, fast_score))
    return found


def _strengths(said: dict[str, Any]) -> tuple[Numbers, Numbers]:
    scores = np.array(said["scores"]) / said["threshold"]
    return np.maximum(scores, np.array(said["peaks"]) / said["map_threshold"]), scores


def chosen(others: Sequence[Said], rate: float) -> Limits:
    """The limits that ask the full detector least while at most a share is judged otherwise."""
    fast, full = (np.concatenate([getattr(one, of) for one in others]) for of in ("fast", "full"))
    allowed, best, most = int(rate * len(fast)), Limits(0.0, np.inf), -1
    lows = np.unique([0.0, *np.minimum(fast, 1.0)])
    highs = np.unique([*np.maximum(fast, 1.0), np.inf])
    good = [((fast < low).sum(), ((fast < low) & (full > 1)).sum()) for low in lows]
    bad = [((fast > high).sum(), ((fast > high) & (full <= 1)).sum()) for high in highs]
    for low, (below, missed) in zip(lows, good, strict=True):
        for high, (above, alarms) in zip(highs, bad, strict=True):
            if missed + alarms <= allowed and below + above > most:
                most, best = below + above, Limits(float(low), float(high))
    return best


def curve(said: Sequence[Said], cost: float, goes_on: bool) -> Iterator[tuple[float, ...]]:
    """Rate, agreement, share asked (all, good, bad) and time, each product left out in turn."""
    for rate in RATES:
        otherwise, asked = 0, []
        for one in said:
            limits = chosen([other for other in said if other is not one], rate)
            otherwise += one.otherwise(limits)
            asked.append(~one.judged_by_fast(limits))
        every, bad = np.concatenate(asked), np.concatenate([one.bad for one in said])
        share = float(every.mean())
        taken = cost + share * (1 - cost if goes_on else 1)
        agreement = 1 - otherwise / len(every)
        yield rate, agreement, share, every[~bad].mean(), every[bad].mean(), taken


def auroc(scores: Numbers, bad: Flags) -> float:
    """I-AUROC in percent."""
    return 100 * (image_metrics(bad, scores)["I-AUROC"] or 0.0)


def balanced(anomalous: Flags, bad: Flags) -> float:
    """Balanced accuracy in percent."""
    return 50 * float(anomalous[bad].mean() + (~anomalous[~bad]).mean())


def table(said: Sequence[Said], limits: Limits) -> Iterator[str]:
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
    """Milliseconds an image, medians over the images of each product, and their ratios."""
    yield "| product | K | fast ms | full ms | cascade ms | fast / full | cascade / full |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for file in sorted(out.glob("*.times.json")):
        for row in json.loads(file.read_text(encoding="utf-8")):
            fast, full = median(row["fast"]), median(row["full"])
            mean = float(np.mean(row["cascade"]))
            ratio = mean / float(np.mean(row["full"]))
            yield (
                f"| {file.name.partition('.')[0]} | {row['shots']} | {fast:.0f} | {full:.0f}"
                f" | {mean:.0f} | {fast / full:.2f} | {ratio:.2f} |"
            )


def tables(out: Path, plot: Path | None) -> None:
    """Everything that docs/cascade.md shows."""
    figure = new_figure(6.4, 2.8, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for shots, axes in zip(SHOTS, panels, strict=True):
        print(f"\nK = {shots}\n\n| fast look | allowed % | agree % | asked % (good, bad) | time |")
        print("| --- | ---: | ---: | ---: | ---: |")
        for way in WAYS:
            said = read(out, way, shots)
            if len(said) < 2:
                continue
            rows = list(curve(said, COSTS[way], way in GOES_ON))
            for rate, agreement, share, good, bad, taken in rows:
                print(
                    f"| {way} | {100 * rate:g} | {100 * agreement:.1f} | {100 * share:.0f}"
                    f" ({100 * good:.0f}, {100 * bad:.0f}) | {taken:.2f} |"
                )
            points = [(row[5], 100 * row[1]) for row in rows]
            axes.plot(*zip(*points, strict=True), "o-", markersize=3, label=f"{way} ({len(said)})")
        axes.axhline(99.5, color="#999999", linestyle=":")
        axes.axvline(0.5, color="#999999", linestyle=":")
        axes.set(xlabel="time over the full detector", title=f"K = {shots}")
        axes.grid(True)
        if said := read(out, CHOSEN, shots):
            print(f"\n{CHOSEN} with the limits of fit --fast\n")
            print("\n".join(table(said, Limits())))
    panels[0].set_ylabel("verdicts that agree, %")
    panels[0].legend(fontsize=6)
    if plot is not None:
        figure.savefig(plot, dpi=150)
    print()
    print("\n".join(times(out)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--products", default="")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--times", type=int, metavar="IMAGES")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    use_threads(options.threads)
    out = Path(options.output)
    out.mkdir(parents=True, exist_ok=True)
    for category in Suite.read(Path(options.suite), ()).load() if options.suite else []:
        if options.products and category.name not in options.products.split(","):
            continue
        if options.times:
            clock(category, out / f"{category.name}.times.json", options.times)
        else:
            measure(category, out / f"{category.name}.said.json")
    tables(out, options.plot)


if __name__ == "__main__":
    main()
