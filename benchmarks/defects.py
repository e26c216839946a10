"""The tables of docs/measurements/defects.md: how well a few examples name defects.

    python benchmarks/defects.py --suite suite.json -o out/ [--products screw,pill] [--threads 1]
    python benchmarks/defects.py -o out/                 # the tables of what is there

Products with two or more kinds of defects, the recipe `default`, the first four good parts. Of each
kind one, two or four examples are drawn, ten times; all other bad parts are asked for their kind.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measuring import arguments, products, read_json, write_json
from numpy.typing import NDArray

from hyperfsad import HyperFSAD
from hyperfsad.decisions.defects import least_likeness, nearness
from hyperfsad.encoders.encoder import Encoder, load_encoder, use_threads
from hyperfsad.lab.datasets import Category
from hyperfsad.method.signature import Signature
from hyperfsad.quality.metrics import image_metrics

SHOTS, DRAWS, LEARNT = (1, 2, 4), 10, 4
RAISES = (0.0, 0.25, 0.5, 1.0)
"""How much a part's level may rise with its likeness to an example, beyond what makes it known."""
FIGURES = {
    "single": "strongest patch alone",
    "accuracy": "named rightly",
    "unknown": "unknown rightly",
    "lost": "unknown wrongly",
    **{f"auroc {factor:g}": f"I-AUROC, raised by {factor:g}" for factor in RAISES},
}


def measured(category: Category, encoder: Encoder) -> dict[str, Any]:
    """What each test image is, its level, and how like each other they are."""
    detector = HyperFSAD()
    detector.use_encoder(encoder)
    detector.fit(sorted(category.normal)[:LEARNT])
    kinds, levels, signatures = [], [], []
    for image in category.test:
        found = detector.view_.signed(detector.prepare(image.path), None, detector.encoder_)
        assert found.signature is not None
        result = detector.result(detector.prepare(image.path), found)
        kinds.append(image.defect if image.anomalous else "")
        levels.append(result.level)
        signatures.append(found.signature)
    last = np.stack([_strongest(one) for one in signatures])
    return {
        "product": category.name,
        "kinds": kinds,
        "levels": levels,
        "likeness": [[one.likeness(other) for other in signatures] for one in signatures],
        "single": (last @ last.T).tolist(),
    }


def _strongest(signature: Signature) -> NDArray[np.float32]:
    """The strongest patch in the last layer; of three layers, two have residuals beside it."""
    own = signature.tokens[int(signature.weights.argmax())]
    last = own[-len(own) // 3 :]
    found: NDArray[np.float32] = last / np.linalg.norm(last)
    return found


Near = Callable[[list[float]], float]
"""How near a kind is, from the likenesses of its examples."""
Examples = dict[str, NDArray[Any]]
"""The places of the images that are taught, for each kind."""


def rows(product: dict[str, Any]) -> Iterator[dict[str, float]]:
    """The figures of each draw."""
    kinds, levels = np.array(product["kinds"]), np.array(product["levels"])
    likeness, single = np.array(product["likeness"]), np.array(product["single"])
    names, bad = sorted(set(kinds) - {""}), kinds != ""
    for shots, draw in ((shots, draw) for shots in SHOTS for draw in range(DRAWS)):
        random = np.random.default_rng([draw, shots])
        examples: Examples = {}
        for name in names:
            own = random.permutation(np.flatnonzero(kinds == name))
            examples[name] = own[: min(shots, len(own) - 1)]
        rest = np.setdiff1d(np.arange(len(kinds)), np.concatenate(list(examples.values())))
        asked = rest[bad[rest]]
        told = []
        for name in names:  # as if nobody had taught it
            others = {other: own for other, own in examples.items() if other != name}
            strangers = asked[kinds[asked] == name]
            told.append(np.mean([far for _, far, _ in named(others, likeness, strangers)]))
        known = named(examples, likeness, rest)
        row = {
            "shots": shots,
            "single": balanced(kinds, asked, named(examples, single, asked, max)),
            "accuracy": balanced(kinds, asked, named(examples, likeness, asked)),
            "unknown": np.mean(told),
            "lost": np.mean([far for far, at in zip(_far(known), rest, strict=True) if bad[at]]),
        }
        above = np.array([max(one, 0.0) for _, _, one in known])
        for factor in RAISES:
            found = image_metrics(bad[rest], levels[rest] * (1 + factor * above))["I-AUROC"]
            assert found is not None
            row[f"auroc {factor:g}"] = found
        yield {name: float(value) for name, value in row.items()}


def _far(known: list[tuple[str, bool, float]]) -> list[bool]:
    return [far for _, far, _ in known]


def named(
    examples: Examples, alike: NDArray[Any], asked: Iterable[int], near: Near = nearness
) -> list[tuple[str, bool, float]]:
    """The kind that each image is nearest to, whether it is too far to be known, and how much
    nearer than that it is."""
    others = [
        float(max(alike[at][rest].max() for other, rest in examples.items() if other != name))
        for name, own in examples.items()
        for at in own
        if len(examples) > 1
    ]
    limit, found = least_likeness(others), []
    for at in asked:
        name = max(examples, key=lambda name: near(alike[at][examples[name]].tolist()))
        value = float(alike[at][examples[name]].max())
        found.append((name, value < limit, value - limit))
    return found


def balanced(
    kinds: NDArray[Any], asked: NDArray[Any], found: list[tuple[str, bool, float]]
) -> float:
    """The mean over the kinds of the share that is named so."""
    right = np.array([name for name, _, _ in found]) == kinds[asked]
    return float(np.mean([right[kinds[asked] == name].mean() for name in set(kinds[asked])]))


def tables(found: list[dict[str, Any]]) -> None:
    """All figures in per cent, with one, two and four examples; then their means."""
    print(f"| product | kinds | {' | '.join(FIGURES.values())} |")
    whole = []
    for product in found:
        of_draws = list(rows(product))
        cells = [
            [np.mean([row[name] for row in of_draws if row["shots"] == shots]) for shots in SHOTS]
            for name in FIGURES
        ]
        whole.append(cells)
        texts = [" / ".join(f"{100 * value:.0f}" for value in cell) for cell in cells]
        kinds = len(set(product["kinds"])) - 1
        print(f"| {product['product']} | {kinds} | {' | '.join(texts)} |")
    for cells, name in zip(np.mean(whole, axis=0), FIGURES.values(), strict=True):
        print(
            name, " / ".join(f"{100 * value:.1f}" for value in cells), f"{100 * cells.mean():.1f}"
        )


def main() -> None:
    """Measures what is asked for, and prints the tables of all that is there."""
    options = arguments(__doc__, "out").parse_args()
    use_threads(options.threads)
    out, asked = Path(options.output), products(options)
    encoder = load_encoder(HyperFSAD().encoding_) if asked else None
    for category in asked:
        file = out / f"{category.name}.json"
        if encoder is not None and not file.exists():
            out.mkdir(parents=True, exist_ok=True)
            write_json(file, measured(category, encoder))
    tables(list(read_json(out)))


if __name__ == "__main__":
    main()
