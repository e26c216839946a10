"""The command `benchmark`: the paper's evaluation on data sets."""

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..detector.recipes import PAPER_OFFLINE, find_recipe
from ..disk.locks import locked_folder
from ..errors import UsageError
from .arguments import (
    RECIPE_HELP,
    RECIPE_NAMES,
    add_device,
    add_wait,
    chosen,
    flag,
    integers,
    named_folder,
    names,
    option,
)
from .cluster import add_cluster, cluster_of, refuse_cluster_options
from .console import DONE, later_bar, printable, printable_rows, say

if TYPE_CHECKING:
    from ..lab.run import Suite
    from ..lab.spread import SpreadOnRay


def add_protocol(command: argparse.ArgumentParser) -> None:
    """Which support images, and which other systems are measured on the same test images."""
    option(command, "--shots 1,2,4", "numbers of support images", integers, "1,2,4")
    option(command, "--runs N", "random support sets for each number of shots", int, 5)
    option(command, "--seed N", "seed that draws the support sets", int, 0)
    text = "JSON file of support images, instead of --shots, --runs and --seed"
    option(command, "--supports FILE", text)
    text = "folder with scores.csv of another system, measured beside ours; may be repeated"
    option(command, "--import NAME=DIR", text, named_folder, action="append", dest="imports")


def add_benchmark(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Measure accuracy on data sets, in tables like the paper's. The figures depend on the"
        " encoder: only --recipe paper measures the paper's configuration."
    )
    text = "layout of the data set: mvtec, visa, mpdd, btad, resc, brats or folder"
    option(command, "--dataset NAME", text)
    option(command, "--root DIR", "folder of the data set")
    text = "JSON file that names several data sets and encoders, instead of --dataset"
    option(command, "--suite FILE", text)
    option(command, "--categories A,B", "categories to measure (default: all)", names)
    text = "tables to make: main, peers, authors, lookup, layers, resolution, lambda, pooling or"
    text += " efficiency"
    option(command, "--preset", text, default="main")
    flag(command, "--figures", "draw figures like the paper's (needs hyperfsad[bench])")
    add_protocol(command)
    text = "side in pixels at which maps and masks are compared"
    option(command, "--eval-size PX", text, int, 256)
    text = f"recipe of the Hyper-FSAD rows: {RECIPE_HELP}"
    option(command, "--recipe", text, default=PAPER_OFFLINE, choices=RECIPE_NAMES)
    text = "encoder; may be repeated (default: the recipe's)"
    option(command, "--backbone NAME", text, action="append")
    text = "side of the encoder's square input in pixels (default: the encoder's)"
    option(command, "--resolution PX", text, int)
    text = "also run the peers that allow it with N orientations of each support image"
    option(command, "--rotations N", text, int, 1)
    add_device(command, "torch", "so that figures do not depend on what is installed")
    option(command, "--cache-limit GB", "disk space for encoded images, in GB", float, 20)
    option(command, "-o --output DIR", "folder for tables and records", default="benchmark")
    add_wait(command)
    add_cluster(command, "measure")


def benchmark(options: argparse.Namespace) -> int:
    """Runs a preset on one data set, or on those of a suite, and prints its tables."""
    from ..encoders.encoder import use_threads
    from ..lab.run import Source, Suite

    if not options.on:
        refuse_cluster_options(options)
    use_threads(options.threads)
    encoders = tuple(options.backbone or [find_recipe(options.recipe).backbone])
    out = Path(options.output)
    if options.suite:
        suite = Suite.read(Path(options.suite), encoders)
    elif options.dataset and options.root:
        source = Source(options.dataset, options.root)
        suite = Suite({options.dataset: source}, encoders, options.categories)
    else:
        raise UsageError("Give --dataset and --root, or --suite with a file that names several.")
    with locked_folder(out, wait=options.wait, notify=say):
        return _run(options, suite, out)


def _run(options: argparse.Namespace, suite: "Suite", out: Path) -> int:
    from ..lab.drawing.illustrate import Drawn
    from ..lab.efficiency import efficiency_table
    from ..lab.run import run_benchmark
    from ..lab.tables import to_markdown, write_table

    settings = chosen(options, "shots", "resolution", "recipe", "device", "engine")
    if options.preset == "efficiency":
        if options.on:
            raise UsageError("The preset efficiency times this machine; leave --on out.")
        table = efficiency_table(suite.load(), suite.encoders, notify=say, **settings)
        write_table(table, out, "efficiency")
        print(printable_rows(to_markdown(table)))
        print(printable(f"Tables: {out}"))
        return DONE
    settings |= chosen(options, "runs", "seed", "eval_size", "rotations")
    settings["figures"] = Drawn() if options.figures else None
    settings["supports"] = Path(options.supports) if options.supports else None
    settings["imports"] = [(name, Path(folder)) for name, folder in options.imports or ()]
    settings["cache_limit"] = round(options.cache_limit * (1 << 30))
    with contextlib.ExitStack() as stack:
        if options.on:
            settings["spread"] = stack.enter_context(_spread(options, settings))
        progress = stack.enter_context(later_bar())
        outcome = run_benchmark(
            suite, options.preset, out, progress=progress, notify=say, **settings
        )
    for table in outcome.tables.values():
        print(printable_rows(to_markdown(table)))
    if "differences" in outcome.details:
        print(printable(f"Who is ahead of whom, and how sure that is: {out / 'differences.md'}"))
    print(printable(f"Tables and records: {out}"))
    return DONE


def _spread(options: argparse.Namespace, settings: dict[str, Any]) -> "SpreadOnRay":
    from ..lab.spread import SpreadOnRay

    machine = {**chosen(options, "device", "engine"), "limit": settings["cache_limit"]}
    return SpreadOnRay(cluster_of(options), notify=say, **machine)
