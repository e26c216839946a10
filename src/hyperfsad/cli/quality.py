"""Commands that help to decide: advise, evaluate, coverage and drift."""

import argparse
from pathlib import Path

from ..disk.locks import locked_folder
from ..errors import UsageError
from . import arguments
from .arguments import chosen, option
from .console import (
    exit_code,
    printable,
    printable_rows,
    progress,
    say,
    say_all,
    write_figures,
)
from .detectors import (
    found_images,
    maker,
    new_detector,
    saved_detector,
    saved_single,
    single_detector,
)


def add_advise(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Compare settings on your own parts and advise a command line: parts as they lie or in"
        " rotated copies, the part alone, a higher resolution, tiles. Without bad parts it draws"
        " defects on the good ones and says which sizes each setting finds."
    )
    arguments.add_files(command, "good", "GOOD", "images of good parts, four or more")
    option(command, "--bad BAD", "images of bad parts to find, instead of drawn defects", nargs="+")
    option(command, "-o --output DIR", "folder for the page and the figures", default="advice")
    arguments.add_wait(command)
    text = "what an image may cost, as a multiple of the plain cost; costlier settings are left out"
    option(command, "--max-cost TIMES", text, arguments.times, 6)
    arguments.add_encoder(command, command)
    arguments.add_machine(command)


def advise(options: argparse.Namespace) -> int:
    """Compares settings, prints what to do and writes a page."""
    if not options.good:
        raise UsageError("good-before-bad")
    good = found_images(options.good)
    bad = found_images(options.bad) if options.bad else None
    limit, options.max_cost = options.max_cost, None  # of the comparison, not of each detector
    make = maker(options)
    from ..quality.advice_page import advice_text, save_advice
    from ..quality.advise import advise as run

    words = [*options.good]
    for name in ("recipe", "backbone"):
        if (given := getattr(options, name)) is not None:
            words += [f"--{name}", given]
    with locked_folder(Path(options.output), wait=options.wait, notify=say):
        found = run(
            good.paths,
            bad.paths if bad else (),
            max_cost=limit,
            make=make,
            progress=progress,
        )
        page = save_advice(found, Path(options.output), words)
    print(printable_rows(advice_text(found, words)))
    print(printable(f"See {page}"))
    return exit_code(found.complete and not good.failed and not (bad and bad.failed))


def add_evaluate(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Measure how good the verdicts of a detector are on parts whose truth you know, and what"
        " other thresholds would do."
    )
    text = "folder with test/good and test/<defect>, and perhaps ground_truth, as in MVTec AD"
    command.add_argument("tree", nargs="*", metavar="TREE", help=text)
    command.set_defaults(files="tree")
    option(command, "--detector FILE", "detector file to evaluate", required=True)
    parts = command.add_argument_group("parts", "instead of TREE: files, globs or folders")
    option(parts, "--good GOOD", "good parts that it has not learnt", nargs="+", default=None)
    text = "parts with defects; folders below a folder name the kinds"
    option(parts, "--bad BAD", text, nargs="+", default=None)
    option(command, "-o --output DIR", "folder for the page and the tables", default="evaluation")
    arguments.add_wait(command)
    arguments.add_moved_encoder(command)
    arguments.add_machine(command)


def evaluate(options: argparse.Namespace) -> int:
    """Judges known parts, prints the figures and writes the page."""
    if len(options.tree) > 1:
        raise UsageError("one-tree", given=len(options.tree))
    if bool(options.tree) == bool(options.good or options.bad):
        raise UsageError("test-set-choice")
    detector = saved_detector(options)
    from ..quality.evaluate import evaluate as run
    from ..quality.evaluation_page import EVALUATION_PAGE, evaluation_text, save_evaluation

    with locked_folder(Path(options.output), wait=options.wait, notify=say):
        found = run(
            detector,
            options.tree[0] if options.tree else None,
            good=options.good or (),
            bad=options.bad or (),
            file=options.detector,
            progress=progress,
            output=options.output,
        )
        if (Path(options.output) / EVALUATION_PAGE).exists():
            say(f"{options.output} holds an evaluation already; it is replaced.")
        page = save_evaluation(found, options.output)
    say_all(image.error for image in found.failed)
    print(printable_rows(evaluation_text(found)))
    print(printable(f"See {page}"))
    return exit_code(found.complete and not found.failed, len(found.scored))


def add_coverage(command: argparse.ArgumentParser) -> None:
    option(command, "--normal GOOD", "images of good parts", nargs="+", required=True)
    option(command, "--detector FILE", "take recipe and threshold from this detector file")
    radius = command.add_mutually_exclusive_group()
    text = "threshold to compute the radius from (default: the detector's threshold)"
    option(radius, "--threshold SCORE", text, float)
    text = (
        "largest distance at which one image covers another, the same for all layers (default:"
        " computed from the threshold, or from the good parts without one)"
    )
    option(radius, "--radius DISTANCE", text, float)
    text = "wanted probability that a new good part is covered"
    option(command, "--chance P", text, float, 0.95)
    _add_rest(command)


def coverage(options: argparse.Namespace) -> int:
    """Prints how many good images cover a new good part, and which to take."""
    from ..quality.coverage import cover_normal
    from ..quality.plots import coverage_figure

    found = found_images(options.normal)
    detector = (saved_single if options.detector else new_detector)(options)
    report = cover_normal(
        detector,
        progress(found.paths, "encoding"),
        **chosen(options, "threshold", "radius", "chance"),
    )
    print(printable_rows(report.to_text()))
    write_figures(options, report.to_json(), lambda: coverage_figure(report))
    return exit_code(not detector.skipped_ and not found.failed)


def add_drift(command: argparse.ArgumentParser) -> None:
    text = "images in the order of inspection; or results of detect: results.jsonl or its folder"
    command.add_argument("stream", nargs="+", metavar="STREAM", help=text)
    text = "images of good parts that the detector has not learnt; or their results"
    option(command, "--calibration GOOD", text, nargs="+", required=True)
    arguments.add_source(command)
    text = "highest probability of ever raising a false alarm"
    option(command, "--false-alarms P", text, float, 0.01)
    text = "share of bad parts to expect in the stream, from 0 to below 1"
    option(command, "--defects SHARE", text, float, 0)
    _add_rest(command)


def drift(options: argparse.Namespace) -> int:
    """Prints whether good parts have changed over a stream of inspections."""
    from ..quality.drift import is_results, monitor_drift, monitor_scores, read_stream
    from ..quality.plots import drift_figure

    settings = chosen(options, "false_alarms", "defects")
    are_results = [is_results(source) for source in [*options.calibration, *options.stream]]
    complete = True
    if all(are_results):
        before, stream = read_stream(options.calibration), read_stream(options.stream)
        report = monitor_scores([score for _, score in before], stream, **settings)
    elif any(are_results):
        raise UsageError("results-or-images")
    else:
        good, inspected = found_images(options.calibration), found_images(options.stream)
        detector = single_detector(options)
        report = monitor_drift(
            detector,
            progress(good.paths, "calibration"),
            progress(inspected.paths, "stream"),
            **settings,
        )
        complete = not (detector.skipped_ or good.failed or inspected.failed)
    print(printable(report.answer()))
    if report.add:
        print("Look at these images; if they show good parts, add them with hyperfsad extend:")
        for name in report.add:
            print(f"  {printable(name)}")
    write_figures(options, report.to_json(), lambda: drift_figure(report))
    return exit_code(complete)


def _add_rest(command: argparse.ArgumentParser) -> None:
    arguments.add_figures(command)
    arguments.add_recipe(command)
    arguments.add_machine(command)
