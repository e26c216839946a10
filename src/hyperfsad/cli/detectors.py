"""Detectors as the options describe them: new, saved or fitted; and the images that they take."""

import argparse
import gc
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..decisions.thresholds import FALSE_ALARM_RATE
from ..detector.settings import MACHINE, SETTINGS, Settings
from ..errors import UsageError
from ..wording import COMMAND_LINE
from .arguments import chosen
from .console import progress, say, say_all

if TYPE_CHECKING:
    from ..detector.detector import HyperFSAD
    from ..detector.protocols import Detector, Inspecting
    from ..images.reading import FoundImages


def given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that the options name; refused before anything heavy is imported."""
    given: dict[str, Any] = {name: getattr(options, name, None) for name in SETTINGS}
    given["recipe"] = options.recipe or options.default_recipe
    Settings(**given)
    return given


def new_detector(options: argparse.Namespace, **changed: Any) -> "HyperFSAD":
    """A detector that has learnt nothing yet."""
    settings = {**given_settings(options), "notify": say, **changed}
    _prepare(options)
    from ..detector.detector import HyperFSAD

    return HyperFSAD(**settings)


def saved_detector(options: argparse.Namespace) -> "Detector":
    """A saved detector, whatever it holds; its encoder loads while torch is imported."""
    from ..detector.file import open_file

    _refuse_fixed(options)
    opened = open_file(options.detector)
    opened.begin_encoder(**chosen(options, "device", "engine", "threads"))
    _prepare(options)
    from ..detector.products import load_detector

    detector = load_detector(opened, **_machine(options))
    detector.progress = progress
    return detector


def inspecting_detector(options: argparse.Namespace) -> "Inspecting":
    """A saved detector, or the folder of an exported one; torch is not imported for the latter."""
    if not os.path.isdir(options.detector):
        return saved_detector(options)
    _refuse_fixed(options, "backbone")
    Settings(**chosen(options, "device", "engine")).check("exported")
    from ..export.exported import ExportedDetector

    return ExportedDetector(options.detector, **chosen(options, "threads", "batch_size"))


def single_detector(options: argparse.Namespace) -> "HyperFSAD":
    """A saved detector of one product, or a new one fitted on the given good parts."""
    if options.detector:
        _refuse_fixed(options)
        _prepare(options)
        from ..detector.detector import HyperFSAD

        return HyperFSAD.load(options.detector, **_machine(options))
    if not options.normal:
        raise UsageError("detector-or-normal")
    normal = found_images(options.normal)
    return new_detector(options).fit(progress(normal.paths, "learning"))


def fitted_detector(options: argparse.Namespace) -> "tuple[Detector, bool]":
    """A new detector fitted and calibrated on good parts; and whether all could be read."""
    detector: Detector
    if getattr(options, "categories", None):
        detector, found, good = _new_products(options)
    else:
        found = {"": found_images(options.normal)}
        good = {"": found_images(options.calibrate)} if options.calibrate else {}
        detector = new_detector(options)
        if options.fast:
            from ..detector.cascade import CascadeDetector

            detector = CascadeDetector(settings=detector.settings, notify=say)
    detector.progress = progress
    limit = false_alarm_rate(options)
    parts = {name: progress(each.paths, name or "learning") for name, each in found.items()}
    first = {"threshold": not good} if "" in parts else {}
    detector.fit(parts.get("", parts), false_alarm_rate=limit, **first)
    complete = not detector.skipped_
    for name, each in good.items():
        product = detector.products_[name]
        images = progress(each.paths, f"calibrating {name}".rstrip())
        product.calibrate(images, false_alarm_rate=limit, keep_outliers=options.keep_outliers)
        complete &= not product.skipped_
    unread = any(each.failed for each in [*found.values(), *good.values()])
    return detector, complete and not unread


def _new_products(
    options: argparse.Namespace,
) -> "tuple[Detector, dict[str, FoundImages], dict[str, FoundImages]]":
    """A detector of several products, the good parts of each, and those that calibrate it."""
    from ..images.reading import product_folders

    if options.calibrate and len(options.calibrate) > 1:
        raise UsageError("categories-calibrate-one-folder")
    found = product_folders(options.categories)
    settings = Settings(**given_settings(options))
    settings.check("products", fast=options.fast)
    _prepare(options)
    from ..detector.products import ProductDetector

    for each in found.values():
        say_all(each.notes)
    good = product_folders(*options.calibrate) if options.calibrate else {}
    if unknown := sorted(set(good) - set(found)):
        raise UsageError(
            "categories-differ",
            folder=options.calibrate[0],
            products=", ".join(unknown),
            categories=options.categories,
        )
    return ProductDetector(settings=settings, notify=say), found, good


def false_alarm_rate(options: argparse.Namespace) -> float:
    """The share of good parts that may be called anomalous."""
    return float(options.false_alarm_rate or FALSE_ALARM_RATE)


def found_images(sources: Sequence[str]) -> "FoundImages":
    """The images behind files, globs and folders; says what was ignored."""
    from ..images.reading import find_images

    found = find_images(sources)
    say_all(found.notes)
    return found


def _prepare(options: argparse.Namespace) -> None:
    """Imports torch without the garbage collector: all that the import makes stays to the end, and
    searching it again and again, then and at the exit, took half a second."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        from ..detector import detector  # noqa: F401
        from ..encoders.encoder import use_threads
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
    use_threads(options.threads)


def _machine(options: argparse.Namespace) -> dict[str, Any]:
    return {"notify": say, **chosen(options, "backbone", "device", "engine", "batch_size")}


def _refuse_fixed(options: argparse.Namespace, *more: str) -> None:
    """All settings are fixed in a saved detector, apart from where it runs."""
    fixed = [name for name, one in SETTINGS.items() if one.group != MACHINE and name != "backbone"]
    for name in (*fixed, "fast", *more):
        if getattr(options, name, None) not in (None, False):
            raise UsageError("setting-fixed", name=COMMAND_LINE[name])
