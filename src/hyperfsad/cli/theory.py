"""Commands of the theory: coverage, certify, stability and drift."""

import argparse
from typing import TYPE_CHECKING

from ..detector.recipes import DEFAULT_RECIPE, PAPER_OFFLINE
from ..errors import UsageError
from .arguments import add_figures, add_machine, add_recipe, add_source, option
from .console import DONE, SOME_FAILED, printable, printable_rows, progress, write_figures
from .detectors import found_images, new_detector, saved_single

if TYPE_CHECKING:
    from ..detector.hyperfsad import HyperFSAD


def add_coverage(command: argparse.ArgumentParser) -> None:
    option(command, "--normal GOOD", "images of good parts", nargs="+", required=True)
    option(command, "--detector FILE", "take recipe and threshold from this detector file")
    radius = command.add_mutually_exclusive_group()
    text = "threshold to compute the radius from (default: the detector's threshold)"
    option(radius, "--threshold SCORE", text, float)
    text = (
        "largest distance at which one image covers another, the same for all layers (default:"
        " computed from the threshold, or from the good parts if there is none)"
    )
    option(radius, "--radius DISTANCE", text, float)
    text = "wanted probability that a new good part is covered"
    option(command, "--chance P", text, float, 0.95)
    option(command, "--confidence P", "confidence level of the intervals", float, 0.95)
    _add_rest(command, DEFAULT_RECIPE)


def coverage(options: argparse.Namespace) -> int:
    """Prints how many good images cover a new good part, and which to take."""
    from ..quality.coverage import cover_normal
    from ..quality.plots import coverage_figure

    found = found_images(options.normal)
    detector = (saved_single if options.detector else new_detector)(options)
    report = cover_normal(
        detector,
        progress(found.paths, "encoding"),
        threshold=options.threshold,
        radius=options.radius,
        chance=options.chance,
        confidence=options.confidence,
    )
    print(printable_rows(report.to_text()))
    write_figures(options, report.to_json(), lambda: coverage_figure(report))
    return SOME_FAILED if detector.skipped_ or found.failed else DONE


def add_certify(command: argparse.ArgumentParser) -> None:
    add_source(command)
    text = "images of good parts that the detector has not learnt"
    option(command, "--good IMAGE", text, nargs="+", required=True)
    option(command, "--bad IMAGE", "images of bad parts", nargs="+", required=True)
    text = "folder of the bad parts' masks, which say which patches are defective"
    option(command, "--masks DIR", text)
    _add_rest(command, PAPER_OFFLINE)


def certify(options: argparse.Namespace) -> int:
    """Prints the certificates of Theorem 1 and the ranking bound of Theorem 2."""
    from ..lab import theorems as theory
    from ..lab.theorems import plots, text

    good, bad = found_images(options.good), found_images(options.bad)
    detector = _detector(options)
    report = theory.certify(detector, progress(good.paths, "good"), progress(bad.paths, "bad"))
    blocks = detector.settings.layers
    layers = theory.rank_layers(report.good, report.bad, report.lam, blocks)
    masks = None
    if options.masks:
        masks = theory.read_masks(report.bad, options.masks, detector.settings.grid)
    patches = theory.rank_patches(report.good, report.bad, blocks, masks)
    print(printable_rows(text.certificate_text(report, blocks)))
    print()
    print(printable_rows(text.ranking_text(layers)))
    print()
    print(printable_rows(text.patches_text(patches)))
    write_figures(
        options,
        {
            "theorem_1": report.to_json(),
            "theorem_2": layers.to_json(),
            "theorem_2_patches": patches.to_json(),
        },
        lambda: plots.certificate_figure(report, layers),
    )
    return SOME_FAILED if detector.skipped_ or good.failed or bad.failed else DONE


def add_stability(command: argparse.ArgumentParser) -> None:
    text = "images to check: files, globs or folders"
    command.add_argument("images", nargs="+", metavar="IMAGE", help=text)
    add_source(command)
    text = "length of the random step added to each token, whose own length is 1"
    option(command, "--noise LENGTH", text, float, 0.05)
    _add_rest(command, PAPER_OFFLINE)


def stability(options: argparse.Namespace) -> int:
    """Prints how far noise and more memory can change scores."""
    from ..lab.theorems import check_stability, plots, text

    found = found_images(options.images)
    detector = _detector(options)
    report = check_stability(detector, progress(found.paths, "checking"), options.noise)
    print(printable_rows(text.stability_text(report)))
    write_figures(options, report.to_json(), lambda: plots.stability_figure(report))
    return SOME_FAILED if detector.skipped_ or found.failed else DONE


def add_drift(command: argparse.ArgumentParser) -> None:
    text = "images in the order of inspection; or results of detect: results.jsonl or its folder"
    command.add_argument("stream", nargs="+", metavar="STREAM", help=text)
    text = "images of good parts that the detector has not learnt; or their results"
    option(command, "--calibration GOOD", text, nargs="+", required=True)
    add_source(command)
    text = "highest probability of ever raising a false alarm"
    option(command, "--false-alarms P", text, float, 0.01)
    text = "share of bad parts to expect in the stream, from 0 to below 1"
    option(command, "--defects SHARE", text, float, 0)
    _add_rest(command, DEFAULT_RECIPE)


def drift(options: argparse.Namespace) -> int:
    """Prints whether good parts have changed over a stream of inspections."""
    from ..quality.drift import is_results, monitor_drift, monitor_scores, read_stream
    from ..quality.plots import drift_figure

    settings = {"false_alarms": options.false_alarms, "defects": options.defects}
    are_results = [is_results(source) for source in [*options.calibration, *options.stream]]
    failed = False
    if all(are_results):
        before, stream = read_stream(options.calibration), read_stream(options.stream)
        report = monitor_scores([score for _, score in before], stream, **settings)
    elif any(are_results):
        raise UsageError(
            "Give results of earlier runs for both the stream and the calibration, or images for"
            " both."
        )
    else:
        good, inspected = found_images(options.calibration), found_images(options.stream)
        detector = _detector(options)
        report = monitor_drift(
            detector,
            progress(good.paths, "calibration"),
            progress(inspected.paths, "stream"),
            **settings,
        )
        failed = bool(detector.skipped_ or good.failed or inspected.failed)
    print(printable(report.answer()))
    if report.add:
        print("Look at these images; if they show good parts, add them with hyperfsad extend:")
        for name in report.add:
            print(f"  {printable(name)}")
    write_figures(options, report.to_json(), lambda: drift_figure(report))
    return SOME_FAILED if failed else DONE


def _add_rest(command: argparse.ArgumentParser, recipe: str) -> None:
    add_figures(command)
    add_recipe(command, recipe)
    add_machine(command)


def _detector(options: argparse.Namespace) -> "HyperFSAD":
    """The saved detector, or a new one on the given good parts."""
    if options.detector:
        return saved_single(options)
    if not options.normal:
        raise UsageError("Give --detector with a saved detector, or --normal with good parts.")
    normal = found_images(options.normal)
    return new_detector(options).fit(progress(normal.paths, "learning"))
