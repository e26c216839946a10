"""Commands that help to decide: advise, evaluate, coverage and drift."""

import argparse
from functools import partial
from pathlib import Path

from ..disk.files import locked_folder
from ..errors import UsageError
from ..messages import silent
from ..wording import as_rows, visible
from . import arguments
from .arguments import add_options, chosen
from .console import (
    exit_code,
    print_facts,
    progress,
    say_all,
    tell,
)
from .detectors import (
    found_images,
    new_detector,
    saved_detector,
    single_detector,
)


def add_advise(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Compare settings on your own parts and recommend a command line: parts as they lie or"
        " in rotated copies, the part alone, a higher resolution, tiles. Without bad parts it draws"
        " defects on the good ones and says which sizes each setting finds."
    )
    arguments.add_files(command, "good", "GOOD", "images of good parts, four or more")
    table = """
    --bad BAD...      images of bad parts to find, instead of drawn defects
    --json            print all figures as JSON
    --max-cost TIMES  what an image may cost, as a multiple of the plain cost; costlier settings
        are left out [6]
    """
    add_options(command, table)
    arguments.add_encoder(command, command)
    arguments.add_machine(command)


def advise(options: argparse.Namespace) -> int:
    """Compares settings and prints what to do."""
    if not options.good:
        raise UsageError("good-before-bad")
    good = found_images(options.good)
    bad = found_images(options.bad) if options.bad else None
    limit, options.max_cost = options.max_cost, None  # of the comparison, not of each detector
    from ..quality.advise import advise as run

    words = [*options.good]
    for name in ("recipe", "backbone"):
        if (given := getattr(options, name)) is not None:
            words += [f"--{name}", given]
    found = run(
        good.paths,
        bad.paths if bad else (),
        max_cost=limit,
        make=partial(new_detector, options, notify=silent),
        progress=progress,
    )
    print_facts(options, found.to_text(words), found.to_json(words))
    return exit_code(found.complete and not good.failed and not (bad and bad.failed))


def add_evaluate(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Measure how good the verdicts of a detector are on parts that you know to be good or bad,"
        " and what other thresholds would do."
    )
    text = "folder with test/good and test/<defect>, and perhaps ground_truth, as in MVTec AD"
    command.add_argument("tree", nargs="*", metavar="TREE", help=text)
    command.set_defaults(files="tree")
    table = """
    --detector FILE  detector file to evaluate (required)
    -o --output DIR  folder for the page and the tables [evaluation]
    """
    add_options(command, table + arguments.WAIT + arguments.MOVED_ENCODER + arguments.JSON)
    parts = command.add_argument_group("parts", "instead of TREE: files, globs or folders")
    table = """
    --good GOOD...  good parts that it has not learnt
    --bad BAD...    parts with defects; subfolders name the kinds of defect
    --labels FILE   labels from another program: COCO, CVAT, FiftyOne, Label Studio, or a folder of
        YOLO
    --images DIR    folder of the labelled images, where they lie elsewhere than the labels say
    """
    add_options(parts, table)
    arguments.add_machine(command)


def evaluate(options: argparse.Namespace) -> int:
    """Judges known parts, prints the figures and writes the page."""
    if len(options.tree) > 1:
        raise UsageError("one-tree", given=len(options.tree))
    detector = saved_detector(options)
    from ..quality.evaluate import evaluate as run
    from ..quality.evaluation_page import EVALUATION_PAGE, evaluation_text, save_evaluation
    from ..quality.test_set import TestSet

    if options.images and not options.labels:
        raise UsageError("images-without-labels")
    labelled = options.labels and TestSet.from_labels(options.labels, options.images)
    with locked_folder(Path(options.output), wait=options.wait):
        found = run(
            detector,
            options.tree[0] if options.tree else None,
            good=options.good or (),
            bad=options.bad or (),
            test_set=labelled,
            file=options.detector,
            progress=progress,
            output=options.output,
        )
        if (Path(options.output) / EVALUATION_PAGE).exists():
            tell(f"{options.output} holds an evaluation already; it is replaced.")
        page = save_evaluation(found, options.output)
    say_all(image.error for image in found.failed)
    print_facts(options, f"{evaluation_text(found)}\nSee {visible(str(page))}", found.to_dict())
    return exit_code(found.complete and not found.failed, len(found.scored))


def add_coverage(command: argparse.ArgumentParser) -> None:
    table = """
    --normal GOOD...  images of good parts (required)
    --detector FILE   take recipe and threshold from this detector file
    --chance P        probability with which a new good part shall be covered [0.95]
    """
    add_options(command, table)
    table = """
    --threshold SCORE  threshold to compute the radius from (default: the detector's threshold)
    --radius DISTANCE  largest distance at which one image covers another, the same for all layers
        (default: computed from the threshold, or from the good parts without one)
    """
    add_options(command.add_mutually_exclusive_group(), table)
    _add_rest(command)


def coverage(options: argparse.Namespace) -> int:
    """Prints how many good images cover a new good part, and which to take."""
    from ..quality.coverage import cover_normal

    found = found_images(options.normal)
    detector = (single_detector if options.detector else new_detector)(options)
    report = cover_normal(
        detector,
        progress(found.paths, "encoding"),
        **chosen(options, "threshold", "radius", "chance"),
    )
    print_facts(options, report.to_text(), report.to_json())
    return exit_code(not detector.skipped_ and not found.failed)


def add_drift(command: argparse.ArgumentParser) -> None:
    text = "images in the order of inspection; or results of detect: results.jsonl or its folder"
    command.add_argument("stream", nargs="+", metavar="STREAM", help=text)
    table = """
    --calibration GOOD...  images of good parts that the detector has not learnt; or their results
        (required)
    --false-alarms P       highest probability of ever raising a false alarm [0.01]
    --defects SHARE        share of bad parts to expect in the stream, from 0 to below 1 [0]
    """
    add_options(command, table)
    arguments.add_source(command)
    _add_rest(command)


def drift(options: argparse.Namespace) -> int:
    """Prints whether good parts have changed over a stream of inspections."""
    from ..quality.drift import is_results, monitor_drift, monitor_scores, read_stream

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
    rows = [report.answer()]
    if report.add:
        rows += ["Look at these images; if they show good parts, add them with hyperfsad extend:"]
        rows += [f"  {name}" for name in report.add]
    print_facts(options, as_rows(rows), report.to_json())
    return exit_code(complete)


def _add_rest(command: argparse.ArgumentParser) -> None:
    add_options(command, arguments.JSON)
    arguments.add_recipe(command)
    arguments.add_machine(command)
