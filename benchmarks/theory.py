"""The tables of docs/theory.md, on real parts.

    python benchmarks/theory.py DATA -o OUT [--products mvtec/bottle,mvtec/tile,mpdd/bracket_black]

DATA holds products in the MVTec layout. The support is the first K images of train/good; coverage
takes all good images. Every image is encoded once, at all blocks of dinov2-vits14; the tables of
a few layers are cut from that.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance

from hyperfsad import HyperFSAD
from hyperfsad.encoders.encoder import ImageTokens
from hyperfsad.images.reading import find_images
from hyperfsad.lab.theorems.certificates import Certificates, certify_tokens
from hyperfsad.lab.theorems.layerwise import Discrepancies, LayerwiseMatcher
from hyperfsad.lab.theorems.ranking import (
    LayerReport,
    cantelli,
    layer_margins,
    rank_layers,
    score_gaps,
)
from hyperfsad.lab.theorems.stability import check_tokens, unaffected_patches
from hyperfsad.method.memory import MemoryBank
from hyperfsad.quality.coverage import cover_tokens
from hyperfsad.quality.drift import monitor_drift
from hyperfsad.quality.miss_rates import held_out_scores, token_distances
from hyperfsad.quality.tokens import encode_images, numbers

BACKBONE = "dinov2-vits14"
SHOTS = (1, 2, 4)
DEPTH = tuple(range(1, 13))
DEFAULT = (2, 4, 6, 8)
PLACES = tuple(layer - 1 for layer in DEFAULT)
SETS = (DEFAULT, (4, 6, 8), (4, 6, 8, 10), (5, 7, 9), (7, 9), (3, 6, 9, 12))
CHECKED = 2  # good and bad images each that stability is checked on
LAM = 0.5
Named = tuple[str, ImageTokens]


def cut(image: ImageTokens) -> ImageTokens:
    """The default layers of an image."""
    return ImageTokens(
        tuple(image.patches[place].copy() for place in PLACES), image.cls[list(PLACES)]
    )


def cut_bank(bank: MemoryBank, shots: int) -> MemoryBank:
    """The default layers of the first images of a bank."""
    first = bank.first(shots)
    patches = tuple(first.patches[place] for place in PLACES)
    return MemoryBank(patches, first.cls[:, list(PLACES)], first.images)


def cut_discrepancies(image: Discrepancies) -> Discrepancies:
    return Discrepancies(image.name, image.distances[list(PLACES)], image.cls[list(PLACES)])


class Product:
    """The good and bad images of one product, encoded once."""

    def __init__(self, root: Path) -> None:
        self.name = root.name
        train = find_images([str(root / "train" / "good")]).paths
        detector = HyperFSAD(BACKBONE, recipe="paper-offline", layers=DEPTH)
        self.detector = detector.fit(train[: max(SHOTS)])
        self.bank = self.detector.memory_
        self.normal_cls = [numbers(image.cls) for _, image in self._encoded(train)]
        self.normal_names = list(train)
        self.tokens: dict[str, list[Named]] = {"good": [], "bad": []}
        self.discrepancies: dict[int, dict[str, list[Discrepancies]]] = {
            shots: {"good": [], "bad": []} for shots in SHOTS
        }
        matchers = {shots: LayerwiseMatcher(self.bank.first(shots)) for shots in SHOTS}
        for path in find_images([str(root / "test")]).paths:
            kind = "good" if Path(path).parent.name == "good" else "bad"
            for name, image in self._encoded([path]):
                self.tokens[kind].append((name, cut(image)))
                for shots, matcher in matchers.items():
                    self.discrepancies[shots][kind].append(matcher.discrepancies(name, image))
                if kind == "good":
                    self.normal_cls.append(numbers(image.cls))
                    self.normal_names.append(path)

    def _encoded(self, paths: list[str]) -> Iterator[Named]:
        return encode_images(self.detector, paths)


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def coverage_rows(product: Product) -> list[str]:
    cls = np.stack(product.normal_cls)[:, list(PLACES)]
    radii = np.sqrt(2 * held_out_scores(token_distances(cls)).max(axis=1)) + 1e-9
    report = cover_tokens(cls, radii=radii, names=product.normal_names, blocks=DEFAULT)
    rows = [
        row(
            product.name,
            layer.layer,
            f"{layer.radius:.4f}",
            f"{layer.alpha:.2f}",
            f"{layer.alpha_interval[0]:.2f} to {layer.alpha_interval[1]:.2f}",
            f"{layer.shares.min():.2f}",
            *(
                f"{100 * layer.missed[shots - 1]:.0f} / {100 * (1 - layer.alpha) ** shots:.0f}"
                for shots in SHOTS
            ),
        )
        for layer in report.layers
    ]
    joint = [
        f"{100 * report.missed[shots - 1]:.0f} / {100 * report.union_bound[shots - 1]:.0f}"
        for shots in SHOTS
    ]
    rows.append(row(product.name, "some", "", "", "", "", *joint))
    return [*rows, "", report.answer(), f"by formula: {report.needed_by_formula}"]


def certificate_row(product: Product, shots: int, report: Certificates) -> str:
    counts = report.reasons
    level, near, far = report.epsilon**2 / 2, report.r**2 / 2, report.delta**2 / 2
    map_margin = report.gamma.mean(axis=1)[None] - level.mean(axis=1)[:, None]
    cls_margin = far.mean(axis=1)[None] - near.mean(axis=1)[:, None]
    return row(
        product.name,
        shots,
        f"{np.median(level.mean(axis=1)):.3f}",
        f"{np.median(report.gamma.mean(axis=1)):.3f}",
        f"{np.median(map_margin):+.3f}",
        f"{np.median(cls_margin):+.4f}",
        f"{np.median(report.margin):+.3f}",
        f"{report.margin.max():+.3f}",
        f"{np.median(report.gap):+.3f}",
        f"{100 * report.share:.1f}",
        *(
            counts[reason]
            for reason in ("misranked", "premise (i)", "premise (ii)", "either", "both")
        ),
        f"{report.gamma_gap.max():.0e}",
    )


def ranking_row(name: str, shots: int, report: LayerReport) -> str:
    off = report.eta_correlation[~np.eye(len(report.layers), dtype=bool)]
    return row(
        name,
        shots,
        *(
            f"{mean:+.3f} ± {deviation:.3f}"
            for mean, deviation in zip(report.eta_mean, report.eta_deviation, strict=True)
        ),
        f"{off.min():.2f} to {off.max():.2f}",
        f"{100 * report.together.bound:.0f}",
        f"{100 * report.uniform_bound:.0f}",
        f"{100 * report.together.misranked:.1f}",
        ", ".join(map(str, report.keep)) or "none",
    )


def depth_row(name: str, shots: int, report: LayerReport) -> str:
    return row(
        name,
        shots,
        *(f"{100 * alone.bound:.0f} / {100 * alone.misranked:.0f}" for alone in report.alone),
    )


def set_row(product: Product, shots: int) -> str:
    """What sets of layers misrank, with their bounds."""
    good, bad = product.discrepancies[shots]["good"], product.discrepancies[shots]["bad"]
    cells = []
    for chosen in SETS:
        places = [layer - 1 for layer in chosen]
        normal, anomalous = ([image.of_layers(places) for image in some] for some in (good, bad))
        average = layer_margins(normal, anomalous, LAM).mean(axis=2)
        bound = cantelli(float(average.mean()), float(average.var()))
        misranked = (score_gaps(normal, anomalous, LAM) <= 0).mean()
        cells.append(f"{100 * bound:.0f} / {100 * misranked:.1f}")
    return row(product.name, shots, *cells)


def stability_rows(product: Product, shots: int) -> list[str]:
    images = product.tokens["good"][:CHECKED] + product.tokens["bad"][:CHECKED]
    report = check_tokens(cut_bank(product.bank, shots), images, DEFAULT)
    assert report.holds
    return [
        row(
            product.name,
            shots,
            layer.layer,
            f"{layer.largest.weights:.2f}",
            f"{layer.largest.rebuilt:.2f}",
            f"{layer.reconstruction_bound:.0f}",
            f"{layer.local_gain['median']:.2f}",
            f"{layer.local_gain['max']:.1f}",
            f"{layer.active['median']:.0f}",
            f"{layer.largest.cls:.2f}",
            " / ".join(f"{100 * mass:.0f}" for mass in layer.softmax_mass),
        )
        for layer in report.layers
    ]


def extension_row(product: Product, other: Product) -> str:
    """Patches that a second image of the product, or one of another, cannot change."""
    cells = []
    for new in (product, other):
        first = cut_bank(product.bank, 1)
        grown = [layer[-1024:] for layer in cut_bank(new.bank, 2).patches]
        queries = product.tokens["good"][:4] + product.tokens["bad"][:4]
        quiet = np.array(
            [
                [
                    unaffected_patches(query, old, more)
                    for query, old, more in zip(image.patches, first.patches, grown, strict=True)
                ]
                for _, image in queries
            ]
        )
        shares = [f"{100 * share:.1f}" for share in quiet.mean(axis=(0, 2))]
        cells.append(f"{' / '.join(shares)} ({100 * quiet.all(axis=1).mean():.1f})")
    return row(product.name, cells[0], other.name, cells[1])


def drift_lines(root: Path, product: Product) -> list[str]:
    """Half of the good images calibrate; the others come twice, the second time darker."""
    train = find_images([str(root / "train" / "good")]).paths
    rest = train[2:] + find_images([str(root / "test" / "good")]).paths
    detector = HyperFSAD(BACKBONE, recipe="paper-offline", layers=DEFAULT).fit(train[:2])
    with tempfile.TemporaryDirectory() as folder:
        darker = []
        for place, path in enumerate(rest[1::2]):
            darker.append(f"{folder}/darker-{place:02}.png")
            with Image.open(path) as picture:
                ImageEnhance.Brightness(picture.convert("RGB")).enhance(0.8).save(darker[-1])
        report = monitor_drift(detector, rest[::2], [*rest[1::2], *darker])
    return [
        row(
            product.name,
            len(rest[::2]),
            len(rest[1::2]),
            len(darker),
            "none" if report.alarm_at is None else report.alarm_at + 1,
            "" if report.moved_at is None else report.moved_at + 1,
            f"{100 * report.covered_since(len(rest[1::2])):.0f}",
            len(report.add),
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--products", default="mvtec/bottle,mvtec/tile,mpdd/bracket_black")
    options = parser.parse_args()
    names = (
        "coverage",
        "certificates",
        "ranking",
        "depth",
        "sets",
        "stability",
        "extension",
        "drift",
    )
    tables: dict[str, list[str]] = {name: [] for name in names}
    products = []
    for path in options.products.split(","):
        root = options.data / path
        product = Product(root)
        products.append(product)
        tables["coverage"] += coverage_rows(product)
        for shots in SHOTS:
            good, bad = product.tokens["good"], product.tokens["bad"]
            report = certify_tokens(cut_bank(product.bank, shots), good, bad, LAM)
            assert (report.margin <= report.gap).all()
            tables["certificates"].append(certificate_row(product, shots, report))
            found = product.discrepancies[shots]
            layers = rank_layers(
                [cut_discrepancies(image) for image in found["good"]],
                [cut_discrepancies(image) for image in found["bad"]],
                LAM,
                DEFAULT,
            )
            tables["ranking"].append(ranking_row(product.name, shots, layers))
            deep = rank_layers(found["good"], found["bad"], LAM, DEPTH)
            tables["depth"].append(depth_row(product.name, shots, deep))
            tables["sets"].append(set_row(product, shots))
            tables["stability"] += stability_rows(product, shots)
        tables["drift"] += drift_lines(root, product)
    for place, product in enumerate(products):
        tables["extension"].append(extension_row(product, products[place - 1]))
    for name, lines in tables.items():
        print(f"\n## {name}\n")
        print("\n".join(lines))
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "theory.json").write_text(json.dumps(tables, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
