"""The command `reproduce`: all tables and figures of the paper."""

import argparse
from pathlib import Path

from ..detector.recipes import PAPER_OFFLINE, find_recipe
from ..disk.locks import locked_folder
from .arguments import add_device, add_wait, chosen, names, option
from .benchmark import add_protocol
from .console import exit_code, later_bar, printable, say


def add_reproduce(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Run all tables and figures of the paper on the data sets and encoders of a suite, and put"
        " them into one page and one LaTeX file. A killed run goes on where it stopped."
    )
    text = "JSON file that names data sets and encoders, as for benchmark"
    option(command, "--suite FILE", text, required=True)
    add_protocol(command)
    text = "tables to make (default: all of the paper: main, peers, lookup, layers, resolution,"
    option(command, "--presets A,B", f"{text} efficiency, lambda, pooling)", names)
    add_device(command, "torch", "so that figures do not depend on what is installed")
    option(command, "--cache-limit GB", "disk space for encoded images, in GB", float, 20)
    option(command, "-o --output DIR", "folder for everything", default="reproduction")
    add_wait(command)


def reproduce(options: argparse.Namespace) -> int:
    """Runs everything that can be run, and says what cannot."""
    from ..encoders.encoder import use_threads
    from ..lab.reproduce.plan import PAPER_PRESETS, Request
    from ..lab.reproduce.run import reproduce as run
    from ..lab.run import Suite

    use_threads(options.threads)
    out = Path(options.output)
    suite = Suite.read(Path(options.suite), [find_recipe(PAPER_OFFLINE).backbone])
    request = Request(
        supports=Path(options.supports) if options.supports else None,
        presets=PAPER_PRESETS if options.presets is None else options.presets,
        imports=tuple((name, Path(folder)) for name, folder in options.imports or ()),
        cache_limit=round(options.cache_limit * (1 << 30)),
        **chosen(options, "shots", "runs", "seed", "device", "engine"),
    )
    with locked_folder(out, wait=options.wait, notify=say), later_bar() as progress:
        found = run(suite, out, request, file=options.suite, progress=progress, notify=say)
    print(printable(f"See {found.page}; for LaTeX {found.latex}"))
    return exit_code(not found.absent)
