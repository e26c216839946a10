"""The command evaluate: verdicts against the truth."""

import argparse
from pathlib import Path

from ..disk.locks import locked_folder
from ..errors import UsageError
from . import arguments
from .arguments import chosen, option
from .console import exit_code, printable, printable_rows, progress, say
from .detectors import saved_detector


def add_evaluate(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Measure how good the verdicts of a detector are on parts whose truth you know, and what"
        " other thresholds would do."
    )
    text = "folder with test/good and test/<defect>, and perhaps ground_truth, as MVTec AD has it"
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
        raise UsageError(
            f"Give one TREE, not {len(options.tree)}; name parts with --good and --bad."
        )
    if bool(options.tree) == bool(options.good or options.bad):
        raise UsageError("Give either TREE, or --good and --bad.")
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
            **chosen(options, "output"),
        )
        if (Path(options.output) / EVALUATION_PAGE).exists():
            say(f"{options.output} holds an evaluation already; it is replaced.")
        page = save_evaluation(found, options.output)
    for image in found.failed:
        say(f"hyperfsad: {image.error}")
    print(printable_rows(evaluation_text(found)))
    print(printable(f"See {page}"))
    return exit_code(found.complete and not found.failed, len(found.scored))
