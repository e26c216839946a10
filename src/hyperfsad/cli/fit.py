"""Commands that make and change detectors: fit, extend and calibrate."""

import argparse
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from ..disk.files import check_target
from ..disk.locks import locked_file
from ..errors import DetectorFileError, UsageError
from ..messages import count
from . import arguments
from .arguments import option
from .console import exit_code, printable, progress, say, say_all
from .detectors import (
    false_alarm_rate,
    fitted_detector,
    found_images,
    new_products,
    saved_detector,
)

if TYPE_CHECKING:
    from ..detector.products import ProductDetector
    from ..detector.protocols import Detector


def add_fit(command: argparse.ArgumentParser) -> None:
    arguments.add_files(command, "normal", "GOOD", "images of good parts")
    text = "learn several products instead: DIR holds one folder of good parts for each"
    option(command, "--categories DIR", text)
    text = "detector file to write, such as part.hfsad"
    option(command, "-o --output FILE", text, required=True)
    arguments.add_wait(command)
    arguments.add_fitting(command)


def fit(options: argparse.Namespace) -> int:
    """Learns from good parts and saves a detector."""
    if bool(options.categories) == bool(options.normal):
        raise UsageError("good-parts-or-categories")
    with locked_file(Path(options.output), wait=options.wait, notify=say):
        _refuse_other_file(options.output)
        detector, complete = (_fitted_products if options.categories else fitted_detector)(options)
        _save(detector, options.output)
    return exit_code(complete)


def _fitted_products(options: argparse.Namespace) -> "tuple[ProductDetector, bool]":
    from ..images.reading import product_folders

    if options.calibrate and len(options.calibrate) > 1:
        raise UsageError("categories-calibrate-one-folder")
    folders = product_folders(options.categories)
    detector = new_products(options)
    detector.settings.check("products", fast=bool(options.fast))
    for found in folders.values():
        say_all(found.notes)
    good = product_folders(*options.calibrate) if options.calibrate else {}
    unknown = sorted(set(good) - set(folders))
    if unknown:
        raise UsageError(
            "categories-differ",
            folder=options.calibrate[0],
            products=", ".join(unknown),
            categories=options.categories,
        )
    rate = false_alarm_rate(options)
    products = {name: progress(found.paths, name) for name, found in folders.items()}
    detector.fit(products, false_alarm_rate=rate)
    complete = not detector.skipped_
    for name, found in good.items():
        product = detector.products_[name]
        images = progress(found.paths, f"calibrating {name}")
        product.calibrate(images, false_alarm_rate=rate, keep_outliers=options.keep_outliers)
        complete &= not product.skipped_
    complete &= not any(found.failed for found in [*folders.values(), *good.values()])
    return detector, complete


def add_extend(command: argparse.ArgumentParser) -> None:
    arguments.add_changed_detector(command)
    text = "images of good parts: files, globs or folders"
    command.add_argument("normal", nargs="+", metavar="GOOD", help=text)
    text = "product that the good parts show, known or new, if the detector knows several"
    option(command, "--product NAME", text)
    arguments.add_machine(command)


def extend(options: argparse.Namespace) -> int:
    """Adds good parts to a saved detector."""
    with _changing_target(options):
        return _extend(options)


def _changing_target(options: argparse.Namespace) -> AbstractContextManager[None]:
    """From before the detector is read: or what another process adds meanwhile would be lost."""
    target = Path(options.output or options.detector)
    return locked_file(target, wait=options.wait, notify=say)


def _extend(options: argparse.Namespace) -> int:
    _refuse_other_file(options.output)
    detector = saved_detector(options)
    product = _chosen_product(options, detector)
    before = len(detector.support_)
    known = detector.products_.get(product)
    threshold = None if known is None else known.threshold_
    found = found_images(options.normal)
    images = progress(found.paths, "learning")
    detector.extend(images, product=product or None)
    if len(detector.support_) == before:
        raise UsageError("nothing-new-learnt")
    _save(detector, options.output or options.detector)
    if threshold is not None:
        print(f"before: threshold {threshold:.3f}")
    return exit_code(not detector.skipped_ and not found.failed)


def add_calibrate(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Set a new threshold for a saved detector. With GOOD: from these parts. With --threshold:"
        " to this score. With neither: an estimate from the parts that it was fitted on."
    )
    arguments.add_changed_detector(command)
    arguments.add_files(command, "good", "GOOD", "images of good parts that it has not learnt")
    option(command, "--product NAME", "product to calibrate, if the detector knows several")
    text = "set the threshold to this score; that of the map moves by the same factor"
    option(command, "--threshold SCORE", text, arguments.score)
    arguments.add_calibration(command)
    arguments.add_machine(command)


def calibrate(options: argparse.Namespace) -> int:
    """Sets a new threshold for a saved detector."""
    with _changing_target(options):
        return _calibrate(options)


def _calibrate(options: argparse.Namespace) -> int:
    _refuse_other_file(options.output)
    detector = saved_detector(options)
    product = _chosen_product(options, detector)
    if product not in detector.products_:
        products = ", ".join(detector.products_)
        raise UsageError("product-unknown", product=product, products=products)
    if product:
        detector.encoder_  # noqa: B018 (loads it for all products)
    one = detector.products_[product]
    before, rate, complete = one.threshold_, false_alarm_rate(options), True
    if options.threshold is not None:
        if options.good or options.false_alarm_rate is not None:
            raise UsageError("threshold-or-good-parts")
        one.move_threshold(options.threshold)
    elif options.good:
        good = found_images(options.good)
        images = progress(good.paths, "calibrating")
        one.calibrate(images, false_alarm_rate=rate, keep_outliers=options.keep_outliers)
        complete = not one.skipped_ and not good.failed
    else:
        one.calibrate(false_alarm_rate=rate)
    _save(detector, options.output or options.detector)
    if before is not None:
        print(f"before: threshold {before:.3f}")
    return exit_code(complete)


def _refuse_other_file(path: str | None) -> None:
    """A detector never replaces an image or any other file; said before the work begins."""
    if not path:
        return
    check_target(Path(path))
    if os.path.isfile(path):
        from ..detector.file import open_file

        try:
            open_file(path)
        except DetectorFileError as error:
            raise UsageError("output-other-file", path=path) from error


def _chosen_product(options: argparse.Namespace, detector: "Detector") -> str:
    """The product that the options name; "" for a detector of one product."""
    products, product = [name for name in detector.products_ if name], options.product
    if products and product is None:
        raise UsageError("product-needed", path=options.detector, products=", ".join(products))
    if not products and product is not None:
        raise UsageError("product-single", path=options.detector)
    return product or ""


def _save(detector: "Detector", path: str) -> None:
    """Saves a detector and prints what it holds, and each threshold with its origin."""
    detector.save(path)
    size = os.path.getsize(path) / 1e6
    text = f"{path}: {count(len(detector.support_), 'normal image')}"
    for words in detector.described:
        text += f", {words}"
    print(printable(f"{text}, {size:.1f} MB"))
    for name, one in detector.products_.items():
        lead = f"{name}: " if name else ""
        if one.threshold_ is None:
            print(printable(f"{lead}no threshold, so no verdicts"))
        else:
            of_map = "" if one.map_threshold_ is None else f" (map {one.map_threshold_:.3f})"
            origin = one.threshold_from_
            print(printable(f"{lead}threshold {one.threshold_:.3f}{of_map}, {origin}"))
