"""Commands of the lab, all behind one word: the paper's tables, figures, theorems and timings."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..detector.settings import PAPER_OFFLINE, SETTINGS, find_recipe
from ..disk.files import locked_folder
from ..errors import UsageError
from ..lab import PRECISION
from . import arguments
from .arguments import add_options, add_setting, chosen
from .console import (
    DONE,
    exit_code,
    later_bar,
    print_facts,
    printable,
    printable_rows,
    progress,
    show_status,
)
from .detectors import (
    found_images,
    new_detector,
    single_detector,
)

if TYPE_CHECKING:
    from ..lab.run import Suite


def add_lab(command: argparse.ArgumentParser) -> None:
    command.description = "Reproduce the paper and test its theorems on your parts."
    group = command.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, text in LAB.items():
        added = group.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        added.set_defaults(run_lab=globals()[f"_{name}"])
        globals()[f"_add_{name}"](added)


def lab(options: argparse.Namespace) -> int:
    """Runs a command of the lab."""
    code: int = options.run_lab(options)
    return code


def _add_protocol(command: argparse.ArgumentParser) -> None:
    """Which support images, and which other systems are measured on the same test images."""
    table = """
    --shots 1,2,4      numbers of support images [1,2,4]
    --runs N           random support sets for each number of shots [5]
    --seed N           seed that draws the support sets [0]
    --supports FILE    JSON file of support images, instead of --shots, --runs and --seed
    --import NAME=DIR  folder with scores.csv of another system, measured beside ours; may be
        repeated
    --cache-limit GB   disk space for encoded images, in GB [20]
    """
    add_options(command, table + arguments.WAIT)
    arguments.add_device(command, PRECISION)


def _protocol(options: argparse.Namespace) -> dict[str, Any]:
    return {
        **chosen(options, "shots", "runs", "seed", "device", "engine", "precision"),
        "supports": Path(options.supports) if options.supports else None,
        "imports": tuple((name, Path(folder)) for name, folder in getattr(options, "import") or ()),
        "cache_limit": round(options.cache_limit * (1 << 30)),
    }


def _add_benchmark(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Measure accuracy on data sets, in tables like the paper's. The figures depend on the"
        " encoder: only --recipe paper measures the paper's configuration."
    )
    table = """
    --dataset NAME  layout of the data set: mvtec, visa, mpdd, btad, resc, brats or folder
    --suite FILE    JSON file that names several data sets and encoders, instead of --dataset
    """
    add_options(command.add_mutually_exclusive_group(required=True), table)
    table = """
    --root DIR        folder of the data set
    --categories A,B  categories to measure (default: all)
    --preset NAME     tables to make: main, peers, authors, lookup, layers, resolution, lambda,
        pooling or efficiency [main]
    --figures         draw figures like the paper's (needs hyperfsad[bench])
    --eval-size PX    side in pixels at which maps and masks are compared [256]
    --backbone NAME   encoder (default: the recipe's); may be repeated
    -o --output DIR   folder for tables and records [benchmark]
    """
    add_options(command, table)
    _add_protocol(command)
    text = f"recipe of the Hyper-FSAD rows: {SETTINGS['recipe'].help} (default: {PAPER_OFFLINE})"
    add_setting(command, "recipe", text, PAPER_OFFLINE)
    text = "side of the encoder's square input in pixels (default: the encoder's)"
    add_setting(command, "resolution", text)


def _benchmark(options: argparse.Namespace) -> int:
    """Runs a preset on one data set, or on those of a suite, and prints its tables."""
    from ..encoders.encoder import use_threads
    from ..lab.run import Source, Suite

    use_threads(options.threads)
    encoders = tuple(options.backbone or [find_recipe(options.recipe).backbone])
    out = Path(options.output)
    if options.suite:
        suite = Suite.read(Path(options.suite), encoders)
    elif options.root:
        source = Source(options.dataset, options.root)
        suite = Suite({options.dataset: source}, encoders, options.categories)
    else:
        raise UsageError("dataset-without-root")
    with locked_folder(out, wait=options.wait):
        return _run_benchmark(options, suite, out)


def _run_benchmark(options: argparse.Namespace, suite: "Suite", out: Path) -> int:
    from ..lab.drawing.figures import ALL_FIGURES
    from ..lab.run import Request, run_benchmark
    from ..lab.tables import to_markdown, write_table
    from ..lab.timing import efficiency_table

    if options.preset == "efficiency":
        settings = chosen(options, "shots", "resolution", "recipe")
        settings |= chosen(options, "device", "engine", "precision")
        table = efficiency_table(suite.load(), suite.encoders, **settings)
        write_table(table, out, "efficiency")
        print(printable_rows(to_markdown(table)))
        print(printable(f"Tables: {out}"))
        return DONE
    more = chosen(options, "resolution", "recipe", "eval_size")
    request = Request(**_protocol(options), **more)
    figures = ALL_FIGURES if options.figures else None
    with later_bar() as bar:
        outcome = run_benchmark(suite, options.preset, out, request, progress=bar, figures=figures)
    for table in outcome.tables.values():
        print(printable_rows(to_markdown(table)))
    if "differences" in outcome.details:
        print(printable(f"Which system leads, and how sure that is: {out / 'differences.md'}"))
    print(printable(f"Tables and records: {out}"))
    return DONE


def _add_reproduce(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Run all tables and figures of the paper on the data sets and encoders of a suite, and put"
        " them into one page. A killed run continues where it stopped."
    )
    table = """
    --suite FILE     JSON file that names data sets and encoders, as for benchmark (required)
    --presets A,B    tables to make (default: all of the paper: main, peers, lookup, layers,
        resolution, efficiency, lambda, pooling)
    -o --output DIR  folder for everything [reproduction]
    """
    add_options(command, table)
    _add_protocol(command)


def _reproduce(options: argparse.Namespace) -> int:
    """Runs everything that can be run, and says what cannot."""
    from ..encoders.encoder import use_threads
    from ..lab.reproduce.run import PAPER_PRESETS
    from ..lab.reproduce.run import reproduce as run
    from ..lab.run import Request, Suite

    use_threads(options.threads)
    out = Path(options.output)
    suite = Suite.read(Path(options.suite), [find_recipe(PAPER_OFFLINE).backbone])
    presets = PAPER_PRESETS if options.presets is None else options.presets
    request = Request(**_protocol(options))
    with locked_folder(out, wait=options.wait), later_bar() as bar:
        found = run(suite, out, request, presets, file=options.suite, progress=bar)
    print(printable(f"See {found.page}"))
    return exit_code(not found.absent)


def _add_speed(command: argparse.ArgumentParser) -> None:
    table = """
    --shots 1,2,4  numbers of good parts to remember [1,4]
    --rounds N     rounds to measure; figures are medians [5]
    --peers A,B    other methods to time on the same tokens, or none [nearest,patchcore,subspace]
    """
    _add_rest(command, table)


def _speed(options: argparse.Namespace) -> int:
    """Measures each stage and prints the table."""
    from ..lab.speed import measure_speed

    peers = [] if options.peers == ("none",) else list(options.peers)
    report = measure_speed(new_detector(options), options.shots, options.rounds, show_status, peers)
    show_status("")
    print_facts(options, report.to_text(), report.to_json())
    return DONE


def _add_certify(command: argparse.ArgumentParser) -> None:
    table = """
    --good IMAGE...  images of good parts that the detector has not learnt (required)
    --bad IMAGE...   images of bad parts (required)
    --masks DIR      folder of the bad parts' masks, which say which patches are defective
    """
    arguments.add_source(command, required=True)
    _add_rest(command, table)


def _certify(options: argparse.Namespace) -> int:
    """Prints the certificates of Theorem 1 and the ranking bound of Theorem 2."""
    from ..lab.theorems import certify

    good, bad = found_images(options.good), found_images(options.bad)
    detector = single_detector(options)
    paths = progress(good.paths, "good"), progress(bad.paths, "bad")
    report = certify(detector, *paths, options.masks)
    print_facts(options, report.to_text(), report.to_json())
    return exit_code(not (detector.skipped_ or good.failed or bad.failed))


def _add_stability(command: argparse.ArgumentParser) -> None:
    text = "images to check: files, globs or folders"
    command.add_argument("images", nargs="+", metavar="IMAGE", help=text)
    table = """
    --noise LENGTH  length of the random step added to each token, whose own length is 1 [0.05]
    """
    arguments.add_source(command, required=True)
    _add_rest(command, table)


def _stability(options: argparse.Namespace) -> int:
    """Prints how far noise and more memory can change scores."""
    from ..lab.theorems import check_stability

    found = found_images(options.images)
    detector = single_detector(options)
    report = check_stability(detector, progress(found.paths, "checking"), options.noise)
    print_facts(options, report.to_text(), report.to_json())
    return exit_code(not (detector.skipped_ or found.failed))


def _add_rest(command: argparse.ArgumentParser, table: str) -> None:
    add_options(command, table + arguments.JSON)
    arguments.add_recipe(command, PAPER_OFFLINE)
    arguments.add_machine(command, PRECISION)


LAB = {
    "benchmark": "measure accuracy on data sets, in tables like the paper's",
    "reproduce": "run all tables and figures of the paper, into one page",
    "speed": "measure the time and memory of an inspection on this machine",
    "certify": "prove score margins between good and bad parts (Theorems 1 and 2)",
    "stability": "check how much noise and more memory change scores (Proposition 1)",
}
"""The help of each command; `_add_NAME` adds its options, and `_NAME` runs it."""
