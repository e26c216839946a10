"""What the commands take on the command line."""

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

from ..detector.recipes import PAPER_OFFLINE, RECIPES
from ..encoders import ENGINES
from ..version import __version__
from . import commands, options, values
from .commands.benchmark import benchmark
from .commands.watching import add_arguments as add_watch_arguments
from .console import NOTHING
from .theory_parsers import add_parsers


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(NOTHING, f"hyperfsad: {message}; see {self.prog} --help\n")


Group: TypeAlias = "argparse._SubParsersAction[_Parser]"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of a command; files may also come after an option, which argparse forgets."""
    parser = make_parser()
    found, left = parser.parse_known_args(arguments)
    files: str = getattr(found, "files", "")
    if left and (not files or any(word.startswith("-") for word in left)):
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    if left:
        getattr(found, files).extend(left)
    return found


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(
        prog="hyperfsad",
        description="Finds defects from one to four pictures of good parts.",
        epilog="Exit codes: 0 done; 1 nothing could be done; 3 done, but some images failed.",
    )
    parser.add_argument("--version", action="version", version=f"hyperfsad {__version__}")
    group = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (
        _add_fit,
        _add_detect,
        _add_watch,
        _add_explain,
        _add_extend,
        _add_calibrate,
        _add_demo,
        _add_benchmark,
        _add_speed,
        _add_theory,
        _add_encoders,
        _add_info,
    ):
        add(group)
    return parser


def _add_fit(group: Group) -> None:
    command = _command(group, "fit", commands.fit, "learn from good parts and save a detector")
    command.add_argument("normal", nargs="*", metavar="GOOD", help="files, globs or folders")
    command.set_defaults(files="normal")
    command.add_argument(
        "--categories",
        metavar="DIR",
        help="several products: a folder that holds a folder of good parts for each",
    )
    command.add_argument("-o", "--output", required=True, metavar="FILE", help="as part.hfsad")
    options.add_support(command)
    options.add_lines(command)
    options.add_recipe(command)
    options.add_machine(command)


def _add_detect(group: Group) -> None:
    command = _command(group, "detect", commands.detect, "score images and draw heat maps")
    command.add_argument("images", nargs="*", metavar="IMAGE", help="files, globs or folders")
    command.set_defaults(files="images")
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--detector", metavar="FILE", help="a saved detector")
    source.add_argument(
        "--normal", nargs="+", metavar="GOOD", help="good parts to learn from first"
    )
    command.add_argument("-o", "--output", default="out", metavar="DIR", help="default: out")
    command.add_argument("--save-maps", action="store_true", help="write maps/*.npy as well")
    command.add_argument("--no-heatmaps", action="store_true", help="draw no pictures")
    command.add_argument(
        "--min-area", type=values.area, default=0.0, metavar="PX", help="leave smaller regions out"
    )
    command.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    options.add_support(command)
    options.add_lines(command)
    options.add_recipe(command)
    options.add_machine(command)


def _add_watch(group: Group) -> None:
    command = _command(group, "watch", commands.watch, "judge images as a camera writes them")
    command.epilog = (
        "Ctrl-C (exit code 130) and SIGTERM (0) finish the image in hand; a second Ctrl-C does not"
        " wait. The next start goes on: no image is judged twice, none is lost."
    )
    add_watch_arguments(command)
    command.add_argument(
        "--min-area", type=values.area, default=0.0, metavar="PX", help="leave smaller regions out"
    )
    options.add_machine(command)


def _add_explain(group: Group) -> None:
    command = _command(group, "explain", commands.explain, "why a place of an image is anomalous")
    command.add_argument("image", metavar="IMAGE")
    command.add_argument("--detector", required=True, metavar="FILE", help="a saved detector")
    command.add_argument(
        "--at",
        type=values.place,
        metavar="X,Y",
        help="a pixel of the image (default: the map's peak)",
    )
    command.add_argument("-o", "--output", metavar="FILE.png", help="draw it there")
    command.add_argument(
        "--normal", nargs="+", metavar="GOOD", help="where the good parts lie now, if they moved"
    )
    command.add_argument("--json", action="store_true", help="print all of it as JSON")
    command.add_argument("--backbone", metavar="FOLDER", help="where its encoder's folder lies now")
    options.add_machine(command)


def _add_extend(group: Group) -> None:
    command = _command(group, "extend", commands.extend, "add good parts to a saved detector")
    command.add_argument("detector", metavar="DETECTOR")
    command.add_argument("normal", nargs="+", metavar="GOOD", help="files, globs or folders")
    command.add_argument("-o", "--output", metavar="FILE", help="default: the detector itself")
    command.add_argument(
        "--product", metavar="NAME", help="which of several products they show, or a new one"
    )
    command.add_argument(
        "--check",
        nargs="+",
        metavar="QUERY",
        help="images; tells at how many patches their maps provably stay the same",
    )
    command.add_argument("--backbone", metavar="FOLDER", help="where its encoder's folder lies now")
    options.add_machine(command)


def _add_calibrate(group: Group) -> None:
    command = _command(
        group, "calibrate", commands.calibrate, "draw the line of a saved detector anew"
    )
    command.add_argument("detector", metavar="DETECTOR")
    command.add_argument(
        "good",
        nargs="*",
        metavar="GOOD",
        help="good parts that it has not learnt; without any, the normal images tell",
    )
    command.set_defaults(files="good")
    command.add_argument("--product", metavar="NAME", help="in a file of several products")
    command.add_argument(
        "--threshold", type=values.score, metavar="SCORE", help="take this one, whatever it does"
    )
    options.add_rate(command)
    command.add_argument("-o", "--output", metavar="FILE", help="default: the detector itself")
    command.add_argument("--backbone", metavar="FOLDER", help="where its encoder's folder lies now")
    options.add_machine(command)


def _add_demo(group: Group) -> None:
    command = _command(group, "demo", commands.demo, "the main job, on parts that it draws itself")
    command.add_argument("-o", "--output", default="hyperfsad-demo", metavar="DIR")
    options.add_recipe(command)
    options.add_machine(command)


def _add_benchmark(group: Group) -> None:
    command = _command(group, "benchmark", benchmark, "the paper's tables, on data sets")
    command.add_argument(
        "--dataset", metavar="NAME", help="mvtec, visa, mpdd, btad, resc, brats, folder"
    )
    command.add_argument("--root", metavar="DIR", help="where the data set lies")
    command.add_argument("--suite", metavar="FILE", help="JSON: several data sets and encoders")
    command.add_argument("--categories", type=values.names, metavar="A,B", help="default: all")
    command.add_argument(
        "--preset",
        default="main",
        help="main (default), peers, lookup, layers, resolution, lambda, pooling, efficiency",
    )
    command.add_argument(
        "--figures", action="store_true", help="draw the paper's figures (needs hyperfsad[bench])"
    )
    command.add_argument("--shots", type=values.numbers, default=(1, 2, 4), metavar="1,2,4")
    command.add_argument("--runs", type=int, default=5, metavar="N")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="of the support sets")
    command.add_argument("--eval-size", type=int, default=256, metavar="PX")
    command.add_argument(
        "--recipe",
        choices=tuple(RECIPES),
        default=PAPER_OFFLINE,
        help=f"of our own rows (default: {PAPER_OFFLINE})",
    )
    command.add_argument("--backbone", action="append", metavar="NAME", help="may be repeated")
    command.add_argument("--resolution", type=int, metavar="PX")
    command.add_argument(
        "--rotations",
        type=int,
        default=1,
        metavar="8",
        help="peers that know turned support also run with it",
    )
    command.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    command.add_argument(
        "--engine",
        choices=ENGINES,
        default="torch",
        help="default: torch, so that figures do not depend on what is installed",
    )
    command.add_argument("--threads", type=int, metavar="N", help="CPU cores (default: all)")
    command.add_argument("--cache-limit", type=float, default=20.0, metavar="GB")
    command.add_argument("-o", "--output", default="benchmark", metavar="DIR")


def _add_speed(group: Group) -> None:
    command = _command(group, "speed", commands.speed, "what an inspection costs on this machine")
    command.add_argument("--shots", type=values.numbers, default=(1, 4), metavar="1,4")
    command.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5")
    command.add_argument("--json", metavar="FILE", help="write all figures there as well")
    command.add_argument(
        "--plot", metavar="FILE.png", help="draw cost against shots (needs hyperfsad[bench])"
    )
    options.add_recipe(command, PAPER_OFFLINE)
    options.add_machine(command)


def _add_theory(group: Group) -> None:
    def new(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        return _command(group, name, run, text)

    add_parsers(new, options.add_recipe, options.add_machine)


def _add_encoders(group: Group) -> None:
    command = _command(group, "encoders", commands.encoders, "list encoders, or fetch one")
    command.set_defaults(action="list")
    actions = command.add_subparsers(metavar="ACTION")
    listing = actions.add_parser("list", help="name, source, licence, cached or not")
    listing.set_defaults(action="list")
    fetching = actions.add_parser("fetch", help="prepare this machine to work offline")
    fetching.set_defaults(action="fetch")
    fetching.add_argument("name", metavar="NAME")
    fetching.add_argument(
        "--from", dest="origin", metavar="PATH", help="a wheel or a folder brought along"
    )


def _add_info(group: Group) -> None:
    command = _command(group, "info", commands.info, "what is in a detector file")
    command.add_argument("detector", metavar="DETECTOR")
    command.add_argument("--json", action="store_true")


def _command(
    group: Group, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    command = group.add_parser(name, help=text, description=text)
    command.set_defaults(run=run)
    return command
