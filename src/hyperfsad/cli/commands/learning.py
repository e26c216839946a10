"""Commands that make detectors."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...errors import UsageError
from ..console import DONE, SOME_FAILED, progress, say
from .opening import (
    any_detector,
    asked_rate,
    found_images,
    new_detector,
    new_products,
    require_free,
    say_lines,
    say_saved,
)

if TYPE_CHECKING:
    from ...detector.hyperfsad import HyperFSAD
    from ...detector.products import ProductDetector


def fit(options: argparse.Namespace) -> int:
    """Learns from good parts and saves a detector."""
    if bool(options.categories) == bool(options.normal):
        raise UsageError(
            "Name good parts, or give --categories with a folder that holds a folder of good parts"
            " for each product; one of the two."
        )
    require_free(options.output)
    if options.categories:
        return _fit_products(options)
    detector, complete = learnt(options)
    detector.save(options.output)
    say_saved(detector, options.output)
    say_lines(detector)
    return DONE if complete else SOME_FAILED


def learnt(options: argparse.Namespace) -> "tuple[HyperFSAD, bool]":
    """A detector of the good parts that the options name, and whether all could be read."""
    detector = new_detector(options)
    detector.progress = progress
    found = found_images(options.normal)
    rate = asked_rate(options)
    good = found_images(options.calibrate) if options.calibrate else None
    detector.fit(progress(found.paths, "learning"), threshold=good is None, false_alarm_rate=rate)
    complete = not detector.skipped_ and not found.failed
    if good is not None:
        detector.calibrate(progress(good.paths, "calibrating"), false_alarm_rate=rate)
        complete &= not detector.skipped_ and not good.failed
    return detector, complete


def _fit_products(options: argparse.Namespace) -> int:
    from ...images.finding import product_folders

    if options.calibrate and len(options.calibrate) > 1:
        raise UsageError("With --categories, --calibrate takes one folder of folders as well.")
    folders = product_folders(options.categories)
    detector = new_products(options)
    for found in folders.values():
        for note in found.notes:
            say(f"hyperfsad: {note}")
    good = product_folders(*options.calibrate) if options.calibrate else {}
    unknown = sorted(set(good) - set(folders))
    if unknown:
        raise UsageError(
            f"{options.calibrate[0]} holds good parts of {', '.join(unknown)}, and"
            f" {options.categories} does not; the folders' names must be the same."
        )
    rate = asked_rate(options)
    products = {name: progress(found.paths, name) for name, found in folders.items()}
    detector.fit(products, false_alarm_rate=rate)
    complete = not detector.skipped_
    for name, found in good.items():
        product = detector.products_[name]
        product.calibrate(progress(found.paths, f"calibrating {name}"), false_alarm_rate=rate)
        complete &= not product.skipped_
    detector.save(options.output)
    say_saved(detector, options.output)
    say_lines(detector)
    complete &= not any(found.failed for found in [*folders.values(), *good.values()])
    return DONE if complete else SOME_FAILED


def extend(options: argparse.Namespace) -> int:
    """Adds good parts to a saved detector."""
    target = options.output or options.detector
    if options.output:
        require_free(target)
    detector = any_detector(options)
    product = _chosen_product(options, list(getattr(detector, "products_", ())))
    before = len(detector.support_)
    found = found_images(options.normal)
    extended = _extended(detector, product, progress(found.paths, "learning"))
    added = len(detector.support_) - before
    if not added:
        raise UsageError("There was no new normal image; the detector is as it was.")
    detector.save(target)
    say_saved(detector, target)
    say_lines(detector)
    if options.check:
        from .theory import check_extension

        check_extension(extended, len(extended.support_) - added, options.check)
    return SOME_FAILED if detector.skipped_ or found.failed else DONE


def _chosen_product(options: argparse.Namespace, products: list[str]) -> str | None:
    product: str | None = options.product
    if products and product is None:
        raise UsageError(
            f"{options.detector} holds several products; say with --product which one these good"
            f" parts show ({', '.join(products)}), or give the name of a new one."
        )
    if not products and product is not None:
        raise UsageError(f"{options.detector} knows one product only; leave --product out.")
    if getattr(options, "check", None) and products and product not in products:
        raise UsageError(f"{product} is a new product; --check needs one that is known.")
    return product


def _extended(
    detector: "HyperFSAD | ProductDetector", product: str | None, images: Iterable[str]
) -> "HyperFSAD":
    """Adds good parts; returns the detector that has learnt from them."""
    from ...detector.products import ProductDetector

    if not isinstance(detector, ProductDetector):
        return detector.extend(images)
    assert product is not None
    return detector.extend(product, images).products_[product]


def calibrate(options: argparse.Namespace) -> int:
    """Draws the line of a saved detector anew."""
    target = options.output or options.detector
    if options.output:
        require_free(target)
    detector = any_detector(options)
    one = _one_product(options, detector)
    before, rate, complete = one.threshold_, asked_rate(options), True
    if options.threshold is not None:
        if options.good or options.false_alarm_rate is not None:
            raise UsageError("Give a --threshold, or good parts and a rate; one of the two.")
        one.threshold_ = options.threshold
    elif options.good:
        good = found_images(options.good)
        one.calibrate(progress(good.paths, "calibrating"), false_alarm_rate=rate)
        complete = not one.skipped_ and not good.failed
    else:
        one.calibrate(false_alarm_rate=rate)
        if one.calibration_ is None or one.calibration_.stale:
            raise UsageError(
                "The normal images are not where they were; name good parts to calibrate with."
            )
    detector.save(target)
    say_saved(detector, target)
    say_lines(detector)
    if before is not None:
        print(f"before: threshold {before:.3f}")
    return DONE if complete else SOME_FAILED


def _one_product(
    options: argparse.Namespace, detector: "HyperFSAD | ProductDetector"
) -> "HyperFSAD":
    """The detector itself, or that of the product which the options name."""
    from ...detector.products import ProductDetector

    products = list(getattr(detector, "products_", ()))
    chosen = _chosen_product(options, products)
    if not isinstance(detector, ProductDetector):
        return detector
    if chosen is None or chosen not in products:
        raise UsageError(f"There is no product {chosen}; there are {', '.join(products)}.")
    detector.encoder_  # noqa: B018 (shared by all products)
    return detector.products_[chosen]
