"""What commands share: detectors made or opened, images found."""

import argparse
import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...decisions.thresholds import FALSE_ALARM_RATE
from ...errors import DetectorFileError, UsageError
from ..console import count, printable, progress, say

if TYPE_CHECKING:
    from ...detector.hyperfsad import HyperFSAD
    from ...detector.products import ProductDetector
    from ...images.finding import FoundImages


def new_detector(options: argparse.Namespace) -> "HyperFSAD":
    return detector_class(options)(**_settings(options))


def new_products(options: argparse.Namespace) -> "ProductDetector":
    detector_class(options)
    from ...detector.products import ProductDetector

    return ProductDetector(**_settings(options))


def _settings(options: argparse.Namespace) -> "dict[str, Any]":
    return {
        "recipe": options.recipe or options.usual_recipe,
        "layers": options.layers,
        "resolution": options.resolution,
        "lookup": options.lookup,
        "pooling": options.pooling,
        "lam": options.lam,
        "rotations": 1 if (turns := getattr(options, "rotations", None)) is None else turns,
        "roi": getattr(options, "roi", None),
        "tiles": getattr(options, "tiles", None),
        **_machine(options),
    }


def loaded_detector(options: argparse.Namespace) -> "HyperFSAD":
    """A saved detector of one product."""
    _refuse_fixed(options)
    return detector_class(options).load(options.detector, **_machine(options))


def any_detector(options: argparse.Namespace) -> "HyperFSAD | ProductDetector":
    """A saved detector, whether of one product or of several."""
    _refuse_fixed(options)
    detector_class(options)
    from ...detector.products import load_detector

    detector = load_detector(options.detector, **_machine(options))
    for one in by_product(detector).values():
        one.progress = progress
    return detector


def by_product(detector: "HyperFSAD | ProductDetector") -> "dict[str, HyperFSAD]":
    """The detector of each product; a lone one has no name."""
    products: dict[str, HyperFSAD] = getattr(detector, "products_", {"": detector})
    return products


def _refuse_fixed(options: argparse.Namespace) -> None:
    fixed = ["recipe", "layers", "resolution", "lookup", "pooling", "lam"]
    fixed += ["rotations", "roi", "tiles"]
    given = [name for name in fixed if getattr(options, name, None) is not None]
    if given:
        name = "lambda" if given[0] == "lam" else given[0]
        raise UsageError(f"--{name} is fixed in a saved detector; fit a new one to change it.")


def _machine(options: argparse.Namespace) -> "dict[str, Any]":
    return {
        "backbone": options.backbone,
        "device": options.device,
        "engine": options.engine,
        "batch_size": options.batch_size,
        "notify": say,
    }


def detector_class(options: argparse.Namespace) -> "type[HyperFSAD]":
    """Imported without the garbage collector: all that torch's import makes stays to the end, and
    looking through it again and again, then and at the exit, took half a second."""
    resting = not gc.isenabled()
    gc.disable()
    try:
        from ...detector.hyperfsad import HyperFSAD
        from ...encoders.engines import use_threads
    finally:
        gc.freeze()
        if not resting:
            gc.enable()
    use_threads(options.threads)
    return HyperFSAD


def asked_rate(options: argparse.Namespace) -> float:
    """The share of good parts that may be called anomalous."""
    given: float | None = options.false_alarm_rate
    return FALSE_ALARM_RATE if given is None else given


def found_images(sources: Sequence[str]) -> "FoundImages":
    from ...images.finding import find_images

    found = find_images(sources)
    for note in found.notes:
        say(f"hyperfsad: {note}")
    return found


def require_free(path: str) -> None:
    """A detector never takes the place of a picture or of any other file."""
    if os.path.isfile(path):
        from ...detector.storage import read_header

        try:
            read_header(Path(path))
        except DetectorFileError as error:
            raise UsageError(
                f"{path} exists and is no detector file; choose another name."
            ) from error


def is_below(path: str, folder: Path) -> bool:
    return folder.resolve() in Path(path).resolve().parents


def say_saved(detector: "HyperFSAD | ProductDetector", path: str) -> None:
    size = os.path.getsize(path) / 1e6
    normal = count(len(detector.support_), "normal image")
    products = getattr(detector, "products_", None)
    of = f" of {count(len(products), 'product')}" if products else ""
    turns = getattr(detector, "rotations_", 1)
    turned = f", each in {turns} orientations" if turns > 1 else ""
    print(printable(f"{path}: {normal}{of}{turned}{_where(detector)}, {size:.1f} MB"))


def _where(detector: "HyperFSAD | ProductDetector") -> str:
    """Of a region of interest, what it covers: a wrong mask shows here first."""
    region = getattr(detector, "roi_", None)
    return f", looked at in {100 * region.share:.0f} % of the picture" if region else ""


def say_lines(detector: "HyperFSAD | ProductDetector") -> None:
    """The threshold of each product, and how it came about."""
    for name, one in by_product(detector).items():
        lead = f"{name}: " if name else ""
        if one.threshold_ is None:
            print(printable(f"{lead}no threshold, so no verdicts"))
        else:
            print(printable(f"{lead}threshold {one.threshold_:.3f}, {one.threshold_from_}"))
