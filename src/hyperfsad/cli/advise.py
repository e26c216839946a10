"""The command that finds out which settings suit a user's parts: advise."""

import argparse
from pathlib import Path

from ..disk.locks import locked_folder
from ..errors import UsageError
from . import arguments
from .arguments import option
from .console import exit_code, printable, printable_rows, progress, say
from .detectors import found_images, maker


def add_advise(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Compare settings on your own parts and advise a command line: as the parts lie or in"
        " turned copies, the part alone, a higher resolution, tiles. Without bad parts it draws"
        " defects on the good ones and tells which sizes each setting finds."
    )
    arguments.add_files(command, "good", "GOOD", "images of good parts, four or more")
    option(command, "--bad BAD", "images of bad parts to find, instead of drawn defects", nargs="+")
    option(command, "-o --output DIR", "folder for the page and the figures", default="advice")
    arguments.add_wait(command)
    text = "what an image may cost, as a multiple of the plain cost; costlier settings are left out"
    option(command, "--budget TIMES", text, arguments.times, 6)
    arguments.add_encoder(command, command)
    arguments.add_machine(command)


def advise(options: argparse.Namespace) -> int:
    """Compares settings, prints what to do and writes a page."""
    if not options.good:
        raise UsageError("No good part was named; put the good parts before --bad.")
    good = found_images(options.good)
    bad = found_images(options.bad) if options.bad else None
    make = maker(options)
    from ..quality import advice

    words = [*options.good]
    for name in ("recipe", "backbone"):
        if (given := getattr(options, name)) is not None:
            words += [f"--{name}", given]
    with locked_folder(Path(options.output), wait=options.wait, notify=say):
        found = advice.advise(
            good.paths,
            bad.paths if bad else (),
            budget=options.budget,
            make=make,
            progress=progress,
        )
        page = advice.save_advice(found, Path(options.output), words)
    print(printable_rows(advice.advice_text(found, words)))
    print(printable(f"See {page}"))
    return exit_code(found.complete and not good.failed and not (bad and bad.failed))
