"""Commands that make detectors."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..console import DONE, SOME_FAILED, progress, say
from ..errors import UsageError
from .opening import (
    any_detector,
    found_images,
    new_detector,
    new_products,
    require_free,
    say_saved,
)

if TYPE_CHECKING:
    from ..detector import HyperFSAD
    from ..products import ProductDetector


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
    detector = new_detector(options)
    found = found_images(options.normal)
    detector.fit(progress(found.paths, "learning"))
    detector.save(options.output)
    say_saved(detector, options.output)
    return SOME_FAILED if detector.skipped_ or found.failed else DONE


def _fit_products(options: argparse.Namespace) -> int:
    from ..products import product_folders

    folders = product_folders(options.categories)
    detector = new_products(options)
    for found in folders.values():
        for note in found.notes:
            say(f"hyperfsad: {note}")
    detector.fit({name: progress(found.paths, name) for name, found in folders.items()})
    detector.save(options.output)
    say_saved(detector, options.output)
    failed = any(found.failed for found in folders.values())
    return SOME_FAILED if detector.skipped_ or failed else DONE


def extend(options: argparse.Namespace) -> int:
    """Adds good parts to a saved detector."""
    target = options.output or options.detector
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
    if options.check:
        from ..theory.command import check_extension

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
    if options.check and products and product not in products:
        raise UsageError(f"{product} is a new product; --check needs one that is known.")
    return product


def _extended(
    detector: "HyperFSAD | ProductDetector", product: str | None, images: Iterable[str]
) -> "HyperFSAD":
    """Adds good parts; returns the detector that has learnt from them."""
    from ..products import ProductDetector

    if not isinstance(detector, ProductDetector):
        return detector.extend(images)
    assert product is not None
    return detector.extend(product, images).products_[product]
