"""What the commands of the theory take on the command line."""

import argparse
from collections.abc import Callable
from typing import Any

from ..detector.recipes import DEFAULT_RECIPE, PAPER_OFFLINE
from .commands import theory as command

RecipeAdder = Callable[[argparse.ArgumentParser, str], None]
Adder = Callable[[argparse.ArgumentParser], None]


def add_parsers(
    new: Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser],
    add_recipe: RecipeAdder,
    add_machine: Adder,
) -> None:
    """Adds the commands; `new` makes one from its name, its function and a line of help.

    Certificates and stability are statements about the paper's own recipe.
    """
    for add, usual in (
        (_coverage, DEFAULT_RECIPE),
        (_certify, PAPER_OFFLINE),
        (_stability, PAPER_OFFLINE),
        (_drift, DEFAULT_RECIPE),
    ):
        parser = add(new)
        parser.add_argument("--json", metavar="FILE", help="write all figures there as well")
        parser.add_argument("--plot", metavar="FILE.png", help="draw them (needs hyperfsad[bench])")
        add_recipe(parser, usual)
        add_machine(parser)


def _coverage(new: Callable[..., argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = new("coverage", command.coverage, "how many good pictures are needed, and which")
    parser.add_argument("--normal", nargs="+", required=True, metavar="GOOD", help="good parts")
    parser.add_argument("--detector", metavar="FILE", help="whose recipe and threshold to take")
    radius = parser.add_mutually_exclusive_group()
    radius.add_argument("--threshold", type=float, metavar="T", help="on the image score")
    radius.add_argument("--radius", type=float, metavar="R", help="the same in every layer")
    parser.add_argument(
        "--chance", type=float, default=0.95, metavar="P", help="of covering (default: 0.95)"
    )
    parser.add_argument(
        "--confidence", type=float, default=0.95, metavar="P", help="of intervals (default: 0.95)"
    )
    return parser


def _certify(new: Callable[..., argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = new("certify", command.certify, "proven margins between good and bad parts")
    _add_source(parser)
    parser.add_argument("--good", nargs="+", required=True, metavar="IMAGE", help="further good")
    parser.add_argument("--bad", nargs="+", required=True, metavar="IMAGE", help="bad parts")
    return parser


def _stability(new: Callable[..., argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = new("stability", command.stability, "what noise and more memory can change")
    parser.add_argument("images", nargs="+", metavar="IMAGE", help="files, globs or folders")
    _add_source(parser)
    parser.add_argument(
        "--noise", type=float, default=0.05, metavar="STEP", help="of unit tokens (default: 0.05)"
    )
    return parser


def _drift(new: Callable[..., argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = new("drift", command.drift, "has normal moved over a stream of inspections?")
    parser.add_argument(
        "stream",
        nargs="+",
        metavar="STREAM",
        help="images in the order of inspection, or results.jsonl or output folders of detect",
    )
    parser.add_argument(
        "--calibration",
        nargs="+",
        required=True,
        metavar="GOOD",
        help="good parts it has not learnt, or their results",
    )
    _add_source(parser)
    parser.add_argument(
        "--false-alarms",
        type=float,
        default=0.01,
        metavar="P",
        help="the chance of ever raising one (default: 0.01)",
    )
    parser.add_argument(
        "--defects",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="of bad parts that may be in the stream (default: 0)",
    )
    return parser


def _add_source(parser: Any) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--detector", metavar="FILE", help="a saved detector")
    source.add_argument("--normal", nargs="+", metavar="GOOD", help="good parts to learn from")
