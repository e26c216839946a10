"""The tables of docs/measurements/accuracy.md: how well recipes and peers rank untuned parts.

    python benchmarks/ranking.py --suite suite.json -o out/ [--products screw,pill] [--threads 1]
    python benchmarks/ranking.py -o out/                       # the tables of what is there

Each product gets five drawn supports and the first K files, for K = 1, 2 and 4. Every detector is
fitted and asked as a user would do it (`fit`, `predict`), so that it chooses its view by itself;
only encoding is remembered, as the same pictures come again and again. Peers but for the nearest
neighbour take minutes a product, so they get the first draw alone. The figures of a product and a
method go to one file, and a run goes on with those that have none. The last table leaves whole
products out: the pooling and the weight of missing pieces are chosen on eight, measured on the
ninth.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
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
from hyperfsad.arrays import Array
from hyperfsad.detector.settings import find_recipe
from hyperfsad.encoders.encoder import Encoder, load_encoder, use_threads
from hyperfsad.lab.datasets import Category
from hyperfsad.lab.peers import SAME_TOKENS as PEERS
from hyperfsad.lab.peers import make_peer
from hyperfsad.lab.peers.peer import FewShotDetector, Peer
from hyperfsad.method.missing import missing_weight
from hyperfsad.method.scoring import Pooling
from hyperfsad.quality.metrics import image_metrics, pixel_metrics, upsampled
from hyperfsad.quality.test_set import load_mask

SIZE = 256
OURS, ANOMALYDINO = "default", "AnomalyDINO (authors' settings)"
METRICS = ("I-AUROC", "P-AUROC", "PRO", "P-AP")
POOLINGS = ("max", "top-0.2%", "top-0.5%", "top-1%", "top-2%")
WEIGHTS = (0.0, 0.1, 0.15, 0.2, 0.3)
SAME_TOKENS = " on the same tokens"
ONE_DRAW = tuple(peer + SAME_TOKENS for peer in PEERS if peer != "nearest")


class Poolings(Pooling):
    """Pools as it should, and notes what other poolings would say."""

    def __new__(cls, *_: Any) -> "Poolings":
        return object.__new__(cls)

    def __init__(self, own: Pooling, noted: list[list[float]]) -> None:
        super().__init__(own.name, own.count, own.share)
        object.__setattr__(self, "noted", noted)

    def __call__(self, anomaly_map: Array, patches: int | None = None) -> Array:
        noted: list[list[float]] = self.__dict__["noted"]
        noted.append([float(Pooling.parse(name)(anomaly_map)) for name in POOLINGS])
        return super().__call__(anomaly_map, patches)


def methods() -> dict[str, Callable[[], FewShotDetector]]:
    """All that are compared; peers get the tokens of the default recipe."""
    ours = find_recipe("default").settings()
    common: dict[str, Any] = {"layers": ours.layers, "last_norm": True}
    found: dict[str, Callable[[], FewShotDetector]] = {
        OURS: HyperFSAD,
        ANOMALYDINO: lambda: make_peer(
            "nearest", ours.name, layers=ours.layers[-1:], last_norm=True
        ),
    }
    for peer in PEERS:
        found[peer + SAME_TOKENS] = lambda peer=peer: make_peer(peer, ours.name, **common)  # type: ignore[misc]
    return found


def measure(category: Category, out: Path, chosen: Sequence[str]) -> None:
    """Every figure of a product, by method, draw and K; each method goes to a file of its own."""
    anomalous = [image.anomalous for image in category.test]
    masks = None
    if category.has_masks:
        masks = np.stack([load_mask(image, SIZE) for image in category.test])
    encoders: dict[str, Remembering] = {}
    for number, (name, make) in enumerate(methods().items()):
        file = out / f"{category.name}-{number}.json"
        if file.exists() or (chosen and name not in chosen):
            continue
        detector = make()
        encoder = encoder_of(detector, encoders)
        records = []
        for (draw, shots), paths in supports(category).items():
            if draw != "0" and name in ONE_DRAW:
                continue
            record = scored(make(), encoder, paths, category)
            maps = record.pop("maps")
            record |= {"method": name, "draw": draw, "shots": shots}
            record["metrics"] = image_metrics(anomalous, np.array(record["scores"]))
            if masks is not None:
                smoothing = detector.smoothing if isinstance(detector, Peer) else 0.0
                shown = upsampled(maps, SIZE, smoothing)
                record["metrics"] |= pixel_metrics(shown, masks)
            records.append(record)
        found = {"product": category.name, "anomalous": anomalous, "records": records}
        write_json(file, found)
        print(f"{category.name}: {name}", flush=True)


def encoder_of(detector: FewShotDetector, known: dict[str, Remembering]) -> Encoder:
    """The encoder of a detector, which another with the same model may have loaded already."""
    settings, ours = detector.encoding_, find_recipe("default").settings()
    whole = ours if settings.name == ours.name else settings
    if whole.name not in known:
        known[whole.name] = Remembering(load_encoder(whole))
    if settings.layers == whole.layers:
        return known[whole.name]
    return Remembering(known[whole.name], [whole.layers.index(layer) for layer in settings.layers])


def scored(
    detector: FewShotDetector, encoder: Encoder, support: Sequence[str], category: Category
) -> dict[str, Any]:
    """What a detector says of all test images, fitted on these good parts."""
    detector.use_encoder(encoder)
    noted: list[list[float]] = []
    if isinstance(detector, HyperFSAD):
        detector.fit(support, threshold=False)
        view: Any = detector.view_
        view.scoring = replace(view.scoring, pooling=Poolings(view.scoring.pooling, noted))
    else:
        detector.fit(support)
    results = [detector.predict(image.path) for image in category.test]
    return {
        "scores": [result.score for result in results],
        "missing": [result.branches.values.get("missing", 0.0) for result in results],
        "poolings": noted,
        "rotations": getattr(detector, "rotations_", 1),
        "maps": np.stack([result.anomaly_map for result in results]),
    }


def tables(measured: dict[str, Any]) -> None:
    """Prints means over the draws, and over the products."""
    records = [
        {**record, "product": name}
        for name, found in measured.items()
        for record in found["records"]
    ]
    names = list(dict.fromkeys(record["method"] for record in records))
    for metric in METRICS:
        print(f"\n{metric}, K = {' / '.join(map(str, SHOTS))}")
        for method in names:
            cells = {}
            for product in measured:
                found = [mean_of(records, method, product, shots, metric) for shots in SHOTS]
                if None not in found:
                    cells[product] = [100 * float(value or 0) for value in found]
            means = np.mean(list(cells.values()), axis=0)
            row = "  ".join(f"{product} {shown(cell)}" for product, cell in cells.items())
            print(f"{method:32} mean {shown(means)}  {row}")
    print("\nI-AUROC without the branch of missing pieces")
    without = {
        product: [auroc(found, shots, 2, 0.0) for shots in SHOTS]
        for product, found in measured.items()
    }
    print(
        f"{OURS:32} mean {shown(np.mean(list(without.values()), axis=0))}  "
        + "  ".join(f"{p} {shown(c)}" for p, c in without.items())
    )
    if len(measured) > 1:
        leave_products_out(measured)


def mean_of(
    records: Sequence[dict[str, Any]], method: str, product: str, shots: int, metric: str
) -> float | None:
    """Over the draws; None where the product has no such metric."""
    found = [
        record["metrics"].get(metric)
        for record in records
        if (record["method"], record["product"], record["shots"]) == (method, product, shots)
    ]
    return None if not found or None in found else float(np.mean(found))


def auroc(found: dict[str, Any], shots: int, pooling: int, weight: float) -> float:
    """Of a product with another pooling and another weight of missing pieces, in percent."""
    values = []
    for record in found["records"]:
        if record["method"] == OURS and record["shots"] == shots:
            pooled = np.array(record["poolings"])[:, pooling]
            scores = pooled + missing_weight(weight, shots) * np.array(record["missing"])
            values.append(image_metrics(found["anomalous"], scores)["I-AUROC"] or 0.0)
    return 100 * float(np.mean(values))


def leave_products_out(measured: dict[str, Any]) -> None:
    """Chooses on all products but one, measures on that one."""
    grid = list(itertools.product(range(len(POOLINGS)), WEIGHTS))
    figures = {
        product: {choice: [auroc(found, shots, *choice) for shots in SHOTS] for choice in grid}
        for product, found in measured.items()
    }

    def best(names: Sequence[str]) -> tuple[int, float]:
        return max(
            grid, key=lambda choice: float(np.mean([figures[name][choice] for name in names]))
        )

    chosen = best(list(measured))
    print(f"\nChosen on all: {POOLINGS[chosen[0]]}, weight {chosen[1]}")
    left = {}
    for product in measured:
        choice = best([name for name in measured if name != product])
        left[product] = figures[product][choice]
        summary = f"{POOLINGS[choice[0]]:9} weight {choice[1]}"
        print(f"without {product:14} {summary}: {shown(left[product])}")
    print(f"left out {shown(np.mean(list(left.values()), axis=0))}")
    print(f"chosen on all {shown(np.mean([figures[name][chosen] for name in measured], axis=0))}")


def shown(values: Sequence[float] | NDArray[Any]) -> str:
    """The figures of all K."""
    return " / ".join(f"{value:.1f}" for value in values)


def main() -> None:
    """Measures what is not there yet, and prints the tables."""
    parser = arguments(__doc__, "ranking")
    parser.add_argument("--methods", help="only these, separated by commas")
    options = parser.parse_args()
    use_threads(options.threads)
    out = Path(options.output)
    out.mkdir(parents=True, exist_ok=True)
    for category in products(options):
        measure(category, out, options.methods.split(",") if options.methods else ())
    measured: dict[str, Any] = {}
    for found in read_json(out):
        kept = measured.setdefault(found["product"], {**found, "records": []})
        kept["records"] += found["records"]
    if measured:
        tables(measured)


if __name__ == "__main__":
    main()
