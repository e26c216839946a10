"""Commands that make and change detectors: fit, extend, calibrate, adapt and teach."""

import argparse
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..decisions.line import PLENTY
from ..disk.files import check_target, locked_file
from ..errors import DetectorFileError, UsageError
from ..messages import Notice
from ..wording import as_rows, count
from . import arguments
from .arguments import add_options, one_of
from .console import exit_code, print_facts, progress, say_all
from .detectors import (
    false_alarm_rate,
    fitted_detector,
    found_images,
    given_settings,
    learn_line,
    prepare,
    saved_detector,
)

if TYPE_CHECKING:
    from ..detector.protocols import Detector
    from ..images.reading import Images


def add_fit(command: argparse.ArgumentParser) -> None:
    arguments.add_files(command, "normal", "GOOD", "images of good parts")
    table = """
    --categories DIR  learn several products instead: DIR holds one folder of good parts for each
    --rate SPEED      keep up with this many parts, such as 10/s or 600/min: takes the highest
                      resolution that this machine can, and says what that costs in accuracy
    -o --output FILE  detector file to write, such as part.hfsad (required)
    """
    add_options(command, table + arguments.WAIT + arguments.JSON)
    arguments.add_fitting(command)


def fit(options: argparse.Namespace) -> int:
    """Learns from good parts and saves a detector."""
    one_of({"GOOD": options.normal}, {"--categories": options.categories})
    one_of({"--rate": options.rate}, {"--categories": options.categories}, needed=False)
    with _locked(options.output, options):
        if options.rate is not None:
            _keep_up(options)
        detector, complete = fitted_detector(options)
        _save(options, detector, options.output)
    return exit_code(complete)


def _keep_up(options: argparse.Namespace) -> None:
    """Sets the resolution to the highest one that keeps up with the rate."""
    from ..detector.rate import resolution_for_rate

    prepare(options)
    good, choices = found_images(options.normal).paths, given_settings(options)
    options.resolution = resolution_for_rate(good, options.rate, **choices)


def _locked(path: str, options: argparse.Namespace) -> AbstractContextManager[None]:
    """Locks a file from before it is read: or what another process adds meanwhile would be lost.

    A detector never replaces an image or any other file; said before the work begins.
    """
    if options.output:
        check_target(Path(options.output))
    if options.output and os.path.isfile(options.output):
        from ..detector.file import open_file

        try:
            open_file(options.output)
        except DetectorFileError as error:
            raise UsageError("output-other-file", path=options.output) from error
    return locked_file(Path(path), wait=options.wait)


def add_extend(command: argparse.ArgumentParser) -> None:
    command.add_argument("detector", metavar="DETECTOR", help="detector file to change")
    text = "images of good parts: files, globs or folders"
    command.add_argument("normal", nargs="+", metavar="GOOD", help=text)
    table = """
    --product NAME  product that the good parts show, known or new, if the detector knows several
    """
    add_options(command, arguments.CHANGED_FILE + table)
    arguments.add_machine(command)


def extend(options: argparse.Namespace) -> int:
    """Adds good parts to a saved detector."""
    target = options.output or options.detector
    with _locked(target, options):
        detector = saved_detector(options)
        product = _chosen_product(options, detector)
        before = len(detector.support_)
        known = detector.products_.get(product)
        threshold = None if known is None else known.threshold_
        found = found_images(options.normal)
        detector.extend(progress(found.paths, "learning"), product=product or None)
        if len(detector.support_) == before:
            raise UsageError("nothing-new-learnt")
        _save(options, detector, target, threshold)
    return exit_code(not detector.skipped_ and not found.failed)


def add_calibrate(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Set a new threshold for a saved detector. With GOOD: from these parts. With --threshold:"
        " to this score. With neither: an estimate from the parts that it was fitted on."
    )
    command.add_argument("detector", metavar="DETECTOR", help="detector file to change")
    arguments.add_files(command, "good", "GOOD", "images of good parts that it has not learnt")
    table = """
    --product NAME     product to calibrate, if the detector knows several
    --threshold SCORE  set the threshold to this score; that of the map moves by the same factor
    """
    add_options(command, arguments.CHANGED_FILE + table + arguments.CALIBRATION)
    arguments.add_machine(command)


def calibrate(options: argparse.Namespace) -> int:
    """Sets a new threshold for a saved detector."""
    good = {"GOOD": options.good, "--false-alarm-rate": options.false_alarm_rate}
    one_of({"--threshold": options.threshold}, good, needed=False)
    target, complete = options.output or options.detector, True
    with _locked(target, options):
        detector = saved_detector(options)
        one = detector.products_[known_product(options, detector)]
        before, limit = one.threshold_, false_alarm_rate(options)
        if options.threshold is not None:
            one.move_threshold(options.threshold)
        elif options.good:
            found = found_images(options.good)
            images = progress(found.paths, "calibrating")
            one.calibrate(images, false_alarm_rate=limit, keep_outliers=options.keep_outliers)
            complete = not one.skipped_ and not found.failed
        else:
            one.calibrate(false_alarm_rate=limit)
        _save(options, detector, target, before)
    return exit_code(complete)


def add_adapt(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Learn from unlabelled parts of the line, of which nearly all are good: up to a fifth may"
        " be bad. What several of them have is normal, and the threshold comes from how far they"
        " reach. 24 parts are plenty, 12 the least for a verdict to trust."
    )
    command.add_argument("detector", metavar="DETECTOR", help="detector file to change")
    text = "images of unlabelled parts: files, globs or folders"
    command.add_argument("line", nargs="+", metavar="PART", help=text)
    table = """
    --product NAME  product that the parts show, if the detector knows several
    """
    add_options(command, arguments.CHANGED_FILE + table)
    arguments.add_machine(command)


def adapt(options: argparse.Namespace) -> int:
    """Learns from unlabelled parts of the line."""
    target = options.output or options.detector
    with _locked(target, options):
        detector = saved_detector(options)
        one = detector.products_[known_product(options, detector)]
        before, found = one.threshold_, found_images(options.line)
        learn_line(one, found.paths)
        _save(options, detector, target, before)
    return exit_code(not one.skipped_ and not found.failed)


def add_teach(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Name defects, from one to four examples of each: results then say which defect an"
        " anomalous part has, or unknown where none is near. Verdicts stay as they are."
    )
    command.add_argument("detector", metavar="DETECTOR", help="detector file to change")
    arguments.add_files(command, "bad", "BAD", "images of bad parts that have the defect")
    table = """
    --defect NAME   what the defect is called
    --at X,Y        where it is, in pixels of a single image (default: its strongest place)
    --forget NAME   forget the examples of this defect instead
    --product NAME  product that the parts show, if the detector knows several
    """
    add_options(command, table + arguments.CHANGED_FILE)
    arguments.add_machine(command)


def teach(options: argparse.Namespace) -> int:
    """Learns examples of a defect, or forgets them."""
    examples = {"--defect": options.defect, "BAD": options.bad}
    one_of(examples, {"--forget": options.forget})
    target, complete = options.output or options.detector, True
    with _locked(target, options):
        detector = saved_detector(options)
        one = detector.products_[known_product(options, detector)]
        if options.forget is not None:
            one.forget_defect(options.forget)
        else:
            if not (options.defect and options.bad):
                raise UsageError("teach-incomplete")
            found = found_images(options.bad)
            several: Images = found.paths if len(found.paths) > 1 else found.paths[0]
            one.teach(several, options.defect, at=options.at)
            complete = not one.skipped_ and not found.failed
        detector.save(target)
        content = {"detector": target, "described": detector.described}
        print_facts(options, _held(detector, target), content)
    return exit_code(complete)


def known_product(options: argparse.Namespace, detector: "Detector") -> str:
    """The product that the options name, which the detector knows; its encoder is loaded."""
    product = _chosen_product(options, detector)
    if product not in detector.products_:
        raise UsageError("product-unknown", product=product, products=[*detector.products_])
    if product:
        detector.encoder_  # noqa: B018 (loads it for all products)
    return product


def _chosen_product(options: argparse.Namespace, detector: "Detector") -> str:
    """The product that the options name; "" for a detector of one product."""
    products, product = [name for name in detector.products_ if name], options.product
    if products and product is None:
        raise UsageError("product-unnamed", products=products)
    if product is not None:
        detector.check("product")
    return product or ""


def _held(detector: "Detector", path: str) -> str:
    """What a saved detector holds, in a line."""
    held = [count(len(detector.support_), "normal image"), *detector.described]
    return f"{path}: {', '.join(held)}, {os.path.getsize(path) / 1e6:.1f} MB"


def _save(
    options: argparse.Namespace, detector: "Detector", path: str, before: float | None = None
) -> None:
    """Saves a detector and prints what it holds, and each threshold with its origin."""
    detector.save(path)
    from ..detector.file import open_file
    from ..detector.sizes import memory_sizes

    rows, products, sizes = [_held(detector, path)], [], memory_sizes(open_file(path))
    for (name, one), size in zip(detector.products_.items(), sizes, strict=True):
        lead = f"{name}: " if name else ""
        rows.append(f"{lead}memory: {size.words}")
        facts: dict[str, Any] = {"threshold": one.threshold_, "map_threshold": one.map_threshold_}
        facts |= {"threshold_from": one.threshold_from_, "size": vars(size)}
        products.append({"product": name or None, **facts})
        if one.threshold_ is None:
            rows.append(f"{lead}no threshold, so no verdicts")
        else:
            of_map = "" if one.map_threshold_ is None else f" (map {one.map_threshold_:.3f})"
            rows.append(f"{lead}threshold {one.threshold_:.3f}{of_map}, {one.threshold_from_}")
    found = [one.calibration_ for one in detector.products_.values()]
    if any(each is not None and each.method == "support" for each in found):
        say_all([Notice("threshold-preliminary", parts=PLENTY)])
    if before is not None:
        rows.append(f"before: threshold {before:.3f}")
    content = {
        "detector": path,
        "bytes": os.path.getsize(path),
        "normal_images": len(detector.support_),
        "described": detector.described,
        "products": products,
        "threshold_before": before,
    }
    print_facts(options, as_rows(rows), content)
