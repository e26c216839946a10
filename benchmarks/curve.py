"""The figure of docs/measurements/speed.md: accuracy against images per second.

    python benchmarks/curve.py accuracy --suite suite.json -o out/ [--products screw,pill]
    python benchmarks/curve.py speed --suite suite.json -o out/     # alone on a quiet machine
    python benchmarks/curve.py draw -o out/                         # out/curve.svg and a table

Every resolution in every precision that this machine has, and peers at settings of their own; four
good parts, the first files. Means over products. Rotated copies are left to screws and grids. The
time is from file to verdict, the median over a few products, all ways in turns.
"""

import itertools
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import arguments, products, read_json, supports, write_json
from precision import FULL, SIZE, TURNED, Asked

from hyperfsad import HyperFSAD
from hyperfsad.encoders.devices import computes_in
from hyperfsad.encoders.encoder import use_threads
from hyperfsad.lab.datasets import Category
from hyperfsad.lab.peers import make_peer
from hyperfsad.quality.metrics import image_metrics, pixel_metrics, upsampled
from hyperfsad.quality.test_set import load_mask

RESOLUTIONS = (224, 280, 336, 392, 448, 560)
PRECISIONS = ("bf16", FULL, "int8")
PEERS = ("patchcore", "subspace", "nearest")
SHOTS = 4
TIMED = ("transistor", "bottle", "cookie")
"""Products whose images are timed: metal, glass and food, without rotated copies."""
IMAGES, TURNS = 5, 3
FIGURES = ("I-AUROC", "balanced", "P-AP")


def ways() -> list[tuple[str, int]]:
    """Precision and resolution of each way, and the peers with 0; the fastest come first."""
    here = [each for each in PRECISIONS if computes_in(each, "openvino", "cpu")]
    ours = [(each, side) for each in here for side in RESOLUTIONS]
    return [*ours[: len(RESOLUTIONS)], *((one, 0) for one in PEERS), *ours[len(RESOLUTIONS) :]]


def accuracy(category: Category, way: tuple[str, int]) -> dict[str, float]:
    """The figures of one way on one product, in points."""
    name, side = way
    paths = supports(category)["first", SHOTS]
    masks = None
    if category.has_masks:
        masks = np.stack([load_mask(image, SIZE) for image in category.test])
    if side:
        asked = Asked([name], side)
        rotations: Any = "auto" if category.name in TURNED else 1
        detector = HyperFSAD(resolution=side, rotations=rotations)
        detector.use_encoder(asked.encoders[name])
        found = asked.figures(detector.fit(paths), name, category.test, masks)
        return {figure: found[figure] for figure in FIGURES if figure in found}
    peer = make_peer(name, device="cpu").fit(paths)
    results = [peer.predict(image.path) for image in category.test]
    bad = np.array([image.anomalous for image in category.test])
    found = dict(image_metrics(bad, np.array([one.score for one in results])))
    if masks is not None:
        maps = np.stack([result.anomaly_map for result in results])
        found |= pixel_metrics(upsampled(maps, SIZE), masks)
    return {figure: 100 * float(found[figure]) for figure in FIGURES if figure in found}


def milliseconds(category: Category) -> dict[str, list[float]]:
    """The time of each way for a few images, in turns."""
    paths = supports(category)["first", SHOTS]
    images = [image.path for image in category.test[:: len(category.test) // IMAGES]][:IMAGES]
    detectors: dict[str, Any] = {}
    for way in ways():
        name, side = way
        ours: dict[str, Any] = {"resolution": side, "precision": name, "rotations": 1}
        one = HyperFSAD(device="cpu", **ours) if side else make_peer(name, device="cpu")
        detectors[key(way)] = one.fit(paths)
    found: dict[str, list[float]] = {name: [] for name in detectors}
    for turn in range(TURNS + 1):
        for name, detector in detectors.items():
            for path in images:
                start = time.perf_counter()
                detector.predict(path)
                if turn:  # the first one warms up
                    found[name].append(1000 * (time.perf_counter() - start))
    return found


def key(way: tuple[str, int]) -> str:
    """How a way is called in files: bf16 448, or patchcore."""
    return f"{way[0]} {way[1]}" if way[1] else way[0]


def table(out: Path) -> dict[str, dict[str, float]]:
    """Means over products, and images per second, of each way; printed."""
    accuracies = list(read_json(out, "accuracy-*.json"))
    times = [row["times"] for row in read_json(out, "speed-*.json")]
    found = {}
    for name in map(key, ways()):
        ours = [row["figures"] for row in accuracies if row["way"] == name]
        row = {
            figure: statistics.mean(each[figure] for each in ours if figure in each)
            for figure in FIGURES
            if any(figure in each for each in ours)
        }
        if times:
            took = statistics.mean(statistics.median(each[name]) for each in times)
            row["images per second"] = 1000 / took
        found[name] = row
        print(f"| {name} | " + " | ".join(f"{each:.1f}" for each in row.values()) + " |")
    return found


def draw(found: dict[str, dict[str, float]], out: Path) -> None:
    """I-AUROC and balanced accuracy against images per second."""
    from hyperfsad.lab.drawing.canvas import new_figure, save_figure, style

    with style():
        figure = new_figure(7.2, 3.2)
        panels = figure.subplots(1, 2)
        for axes, measured in zip(panels, FIGURES, strict=False):
            for precision in PRECISIONS:
                rows = [found.get(f"{precision} {side}", {}) for side in RESOLUTIONS]
                axes.plot(
                    [row["images per second"] for row in rows if measured in row],
                    [row[measured] for row in rows if measured in row],
                    marker="o",
                    label=precision,
                )
            for name in PEERS:
                row = found[name]
                if measured in row:
                    axes.plot(row["images per second"], row[measured], "s", label=name)
            axes.set_xlabel("images per second")
            axes.set_ylabel(measured)
        panels[0].legend()
        save_figure(figure, out, "curve")


def main() -> None:
    parser = arguments(__doc__, "curve")
    parser.add_argument("what", choices=("accuracy", "speed", "draw"))
    options = parser.parse_args()
    use_threads(options.threads)
    out = Path(options.output)
    out.mkdir(parents=True, exist_ok=True)
    if options.what == "draw":
        draw(table(out), out)
    chosen = products(options)
    if options.what == "speed":
        for category in chosen:
            if category.name in TIMED:
                found = {"product": category.name, "times": milliseconds(category)}
                write_json(out / f"speed-{category.name}.json", found)
        return
    for way, category in itertools.product(ways(), chosen):
        file = out / f"accuracy-{category.name}-{key(way).replace(' ', '-')}.json"
        if not file.exists():
            figures = accuracy(category, way)
            write_json(file, {"product": category.name, "way": key(way), "figures": figures})
            print(file.stem, flush=True)


if __name__ == "__main__":
    main()
