"""Detectors as the options describe them: new, saved or fitted; and the images that they take."""

import argparse
import gc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..decisions.thresholds import FALSE_ALARM_RATE
from ..detector.settings import SETTINGS, Settings
from ..errors import UsageError
from ..messages import silent
from ..wording import COMMAND_LINE
from .arguments import chosen
from .console import progress, say, say_all

if TYPE_CHECKING:
    from ..detector.cascade import CascadeDetector
    from ..detector.detector import HyperFSAD
    from ..detector.products import ProductDetector
    from ..detector.protocols import Detector, Inspecting
    from ..images.reading import FoundImages


def given_settings(options: argparse.Namespace, use: str = "") -> dict[str, Any]:
    """The settings that the options name; refused before anything heavy is imported."""
    given = {name: getattr(options, name, None) for name in SETTINGS}
    given["recipe"] = options.recipe or options.default_recipe
    settings = {name: value for name, value in given.items() if value is not None}
    Settings(**settings).check(use)
    return settings


def new_detector(options: argparse.Namespace) -> "HyperFSAD":
    """A detector that has learnt nothing yet."""
    settings = given_settings(options)
    _prepare(options)
    from ..detector.detector import HyperFSAD

    return HyperFSAD(**settings, notify=say)


def new_settings(options: argparse.Namespace) -> "tuple[dict[str, Any], dict[str, Any]]":
    """What new detectors of a station are made with, and how saved ones are loaded."""
    settings = given_settings(options)
    _prepare(options)
    machine = {**chosen(options, "device", "engine", "batch_size"), "notify": silent}
    return {name: value for name, value in settings.items() if name not in machine}, machine


def maker(options: argparse.Namespace) -> "Callable[..., HyperFSAD]":
    """What makes detectors of the options' recipe and encoder; all else is given anew each time."""
    settings = {**given_settings(options), "notify": silent}
    _prepare(options)
    from ..detector.detector import HyperFSAD

    return lambda **changed: HyperFSAD(**(settings | changed))


def new_products(options: argparse.Namespace) -> "ProductDetector":
    """A detector of several products that has learnt nothing yet."""
    settings = given_settings(options, "products")
    _prepare(options)
    from ..detector.products import ProductDetector

    return ProductDetector(**settings, notify=say)


def new_cascade(options: argparse.Namespace) -> "CascadeDetector":
    """A detector with 8-bit pre-screening that has learnt nothing yet."""
    settings = given_settings(options, "cascade")
    _prepare(options)
    from ..detector.cascade import CascadeDetector

    return CascadeDetector(**settings, notify=say)


def saved_detector(options: argparse.Namespace) -> "Detector":
    """A saved detector, whatever it holds."""
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
    from ..export.card import is_exported

    if not is_exported(options.detector):
        return saved_detector(options)
    _refuse_fixed(options)
    if options.backbone or options.engine != "auto" or options.device not in ("auto", "cpu"):
        raise UsageError("exported-machine-fixed", path=options.detector)
    from ..export.exported import ExportedDetector

    return ExportedDetector(options.detector, **chosen(options, "threads", "batch_size"))


def saved_single(options: argparse.Namespace) -> "HyperFSAD":
    """A saved detector of one product; one of several is refused."""
    _refuse_fixed(options)
    _prepare(options)
    from ..detector.detector import HyperFSAD

    return HyperFSAD.load(options.detector, **_machine(options))


def single_detector(options: argparse.Namespace) -> "HyperFSAD":
    """The saved detector, or a new one fitted on the given good parts."""
    if options.detector:
        return saved_single(options)
    if not options.normal:
        raise UsageError("detector-or-normal")
    normal = found_images(options.normal)
    return new_detector(options).fit(progress(normal.paths, "learning"))


def fitted_detector(options: argparse.Namespace) -> "tuple[Detector, bool]":
    """A new detector fitted and calibrated on good parts; and whether all could be read."""
    detector: Detector = (new_cascade if options.fast else new_detector)(options)
    detector.progress = progress
    found = found_images(options.normal)
    rate = false_alarm_rate(options)
    good = found_images(options.calibrate) if options.calibrate else None
    detector.fit(progress(found.paths, "learning"), threshold=good is None, false_alarm_rate=rate)
    complete = not detector.skipped_ and not found.failed
    if good is not None:
        images = progress(good.paths, "calibrating")
        detector.calibrate(images, false_alarm_rate=rate, keep_outliers=options.keep_outliers)
        complete &= not detector.skipped_ and not good.failed
    return detector, complete


def false_alarm_rate(options: argparse.Namespace) -> float:
    """The share of good parts that may be called anomalous."""
    return float(options.false_alarm_rate or FALSE_ALARM_RATE)


def found_images(sources: Sequence[str]) -> "FoundImages":
    """The images behind files, globs and folders; says what was passed over."""
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


def _refuse_fixed(options: argparse.Namespace) -> None:
    """Settings are fixed in a saved detector, apart from where it runs."""
    open_choices = ("backbone", "device", "engine", "batch_size")
    for name in (*SETTINGS, "fast"):
        if name not in open_choices and getattr(options, name, None) is not None:
            raise UsageError("setting-fixed", name=COMMAND_LINE[name])
