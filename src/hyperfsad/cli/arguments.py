"""What an option may hold, and groups of options that several commands share."""

import argparse
import math
import os
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from ..decisions.thresholds import FALSE_ALARM_RATE, MIN_RATE
from ..detector.recipes import DEFAULT_RECIPE, RECIPES
from ..encoders import ENGINES

Parser: TypeAlias = argparse.ArgumentParser
Group: TypeAlias = argparse._ActionsContainer
"""A parser, or a group of its options."""

Value = TypeVar("Value")

RECIPE_NAMES = tuple(RECIPES)
RECIPE_HELP = (
    "default is ours; paper is the paper's configuration (DINOv3 ViT-B/16, needs weights from the"
    " model hub); paper-offline is the paper's algorithm on an encoder that needs no hub, so its"
    " figures are not the paper's; clip is what was the default before"
)


def option(
    group: Group,
    usage: str,
    text: str,
    kind: Callable[[str], Any] = str,
    default: str | float | None = None,
    **more: Any,
) -> None:
    """Adds an option; `usage` is as "-o --output DIR". The help ends with the default."""
    words = usage.split()
    flags = [word for word in words if word.startswith("-")]
    if default is not None:
        text = f"{text} (default: {default})"
        more["default"] = str(default)  # which argparse converts, as a user's text
    metavar = words[-1] if len(words) > len(flags) else None
    group.add_argument(*flags, type=kind, metavar=metavar, help=text, **more)


def flag(group: Group, name: str, text: str) -> None:
    """Adds an option without a value."""
    group.add_argument(name, action="store_true", help=text)


def chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """What the options of these names hold, to be passed on under the same names."""
    return {name: getattr(options, name) for name in names}


def _kind(
    convert: Callable[[str], Value],
    expected: str,
    allowed: Callable[[Value], bool] = lambda _: True,
) -> Callable[[str], Value]:
    """Reads the value of an option, or refuses it with what was expected."""

    def read(text: str) -> Value:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not allowed(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
        return value

    return read


integers = _kind(lambda text: tuple(map(int, text.split(","))), "a list such as 3,6,9,12")
named_folder = _kind(
    lambda text: tuple(text.split("=", 1)),
    "a name and a folder such as PatchCore=scores/",
    lambda pair: len(pair) == 2 and all(pair),
)
names = _kind(lambda text: tuple(filter(None, text.split(","))), "a list such as bottle,tile")
place = _kind(
    lambda text: tuple(map(float, text.split(","))),
    "a place such as 120,45",
    lambda pair: len(pair) == 2,
)
area = _kind(float, "a number of pixels such as 50", lambda pixels: 0 <= pixels < math.inf)
score = _kind(float, "a score such as 0.25", math.isfinite)
share = _kind(
    float,
    f"a share between 0 and 1 such as 0.01, and not below {MIN_RATE:f}",
    lambda part: MIN_RATE <= part < 1,
)
rotations = _kind(
    lambda text: text if text == "auto" else int(text), "a number such as 16, or auto"
)
tile = _kind(
    lambda text: False if text == "no" else int(text),
    "a tile's side in pixels such as 640, or no; without a number, put --tiles last or another"
    " option after it",
    lambda side: side is False or side >= 1,
)
new_file = _kind(
    str,
    "a file in a folder that is there",
    lambda path: os.path.isdir(os.path.dirname(path) or os.curdir),
)
times = _kind(float, "a number of at least 1 such as 4", lambda number: 1 <= number < math.inf)


def add_files(command: Parser, name: str, metavar: str, text: str) -> None:
    """Files, which may stand before or after the options; there may be none."""
    command.add_argument(name, nargs="*", metavar=metavar, help=f"{text}: files, globs or folders")
    command.set_defaults(files=name)


def add_moved_encoder(command: Parser) -> None:
    """Where to find the encoder of a saved detector."""
    option(command, "--backbone FOLDER", "folder of the detector's encoder, if it has moved")


def add_changed_detector(command: Parser) -> None:
    """A saved detector to change."""
    command.add_argument("detector", metavar="DETECTOR", help="detector file to change")
    option(command, "-o --output FILE", "detector file to write (default: DETECTOR itself)")
    add_wait(command)
    add_moved_encoder(command)


def add_wait(command: Parser) -> None:
    """What to do while another process writes to the same place."""
    text = "if another process is writing there, wait until it is done instead of stopping"
    flag(command, "--wait", text)


def add_source(command: Parser, required: bool = False, exported: bool = False) -> None:
    """A saved detector, or good parts to fit a new one on; perhaps an `exported` model."""
    source = command.add_mutually_exclusive_group(required=required)
    folder = ", or a folder that `hyperfsad export` wrote" if exported else ""
    option(source, "--detector FILE", f"detector file to use{folder}")
    option(source, "--normal GOOD", "fit a detector on these good parts instead", nargs="+")


def add_fitting(command: Parser) -> None:
    """All that a new detector may be told: memory, threshold, recipe and machine."""
    memory = command.add_argument_group("good parts", "how the detector remembers them")
    option(
        memory,
        "--rotations N",
        "remember each good part in N orientations (1 to 72), for parts that lie at any angle;"
        " auto: choose N from the good parts (default: auto with the recipe default and without"
        " tiles, otherwise 1)",
        rotations,
    )
    option(
        memory,
        "--roi MASK",
        "region of interest: a mask image (bright: inspect), a polygon 'x,y x,y x,y' in pixels of"
        " the first good part, or auto (find the part in each image) (default: the whole image)",
    )
    option(
        memory,
        "--tiles PX",
        "cut images into tiles with sides of PX pixels, to find small defects in large images;"
        " without PX: the encoder's resolution; no: never (default: no tiles, unless --budget"
        " allows them)",
        tile,
        nargs="?",
        const=True,
    )
    option(
        memory,
        "--budget TIMES",
        "what an image may cost, as a multiple of the plain cost: the closest look that it allows"
        " is chosen from the good parts, tiles or a higher resolution (default: 2, for turned"
        " copies alone)",
        times,
    )
    text = (
        "exact: compare with every patch of the good parts; compact: of a large memory (more than"
        " about 16 good parts) with a quarter of the patches that leaves none of the others far"
        " away, for less time (default: exact)"
    )
    memory.add_argument("--memory", choices=("exact", "compact"), help=text)
    fast = memory.add_mutually_exclusive_group()
    text = (
        "also learn the good parts in 8 bits: images that are clearly good or clearly bad are"
        " judged by this fast look alone, for 0.6 to 0.7 of the time on a CPU (needs"
        " hyperfsad[int8])"
    )
    fast.add_argument("--fast", action="store_const", const="int8", help=text)
    text = "the same with half the resolution instead of 8 bits; saves less and changes more"
    fast.add_argument("--fast-half", action="store_const", const="half", dest="fast", help=text)
    threshold = command.add_argument_group("threshold", "images above it are anomalous")
    option(
        threshold,
        "--calibrate GOOD",
        "set the threshold from these other good parts; 19 or more bound a false-alarm rate of"
        " 0.05, fewer give an estimate (default: estimate it from the good parts that were learnt)",
        nargs="+",
    )
    add_false_alarm_rate(threshold)
    add_keep_odd(threshold)
    add_recipe(command)
    add_machine(command)


def add_false_alarm_rate(group: Group) -> None:
    """How many good parts may be called anomalous."""
    text = "share of good parts that may be called anomalous, between 0 and 1"
    option(group, "--false-alarm-rate SHARE", f"{text} (default: {FALSE_ALARM_RATE})", share)


def add_keep_odd(group: Group) -> None:
    """What becomes of a good part that stands far apart from the others."""
    text = "let a good part set the threshold even if it stands far apart from all others"
    flag(group, "--keep-odd", text)


def add_results(command: Parser) -> None:
    """What goes to the results folder."""
    option(command, "-o --output DIR", "folder for results", default="out")
    add_wait(command)
    flag(command, "--no-heatmaps", "draw no heat maps")
    flag(command, "--save-maps", "write anomaly maps to maps/*.npy as well")
    option(command, "--min-area PX", "leave out regions smaller than PX pixels", area, 0)


def add_figures(command: Parser) -> None:
    """Where figures go besides standard output."""
    option(command, "--json FILE", "write all figures to this JSON file", new_file)
    text = "plot the figures to this file (needs hyperfsad[bench])"
    option(command, "--plot FILE.png", text, new_file)


def add_recipe(command: Parser, default: str = DEFAULT_RECIPE) -> None:
    """Which encoder, and how patches are compared."""
    recipe = command.add_argument_group(
        "recipe", "the encoder and the method; each option below changes one choice of --recipe"
    )
    add_encoder(command, recipe, default)
    option(recipe, "--layers 3,6,9", "transformer blocks to compare, counted from 1", integers)
    text = "side of the encoder's square input in pixels, a multiple of its patch size"
    option(recipe, "--resolution PX", text, int)
    text = "how to weight normal patches: sparsemax, softmax, top-1, top-p or entmax-1.5"
    option(recipe, "--lookup RULE", text)
    text = "how the map becomes a score: max, or the mean of its highest patches: top-10, top-1%%"
    option(recipe, "--pooling RULE", text)
    text = "weight of the map in the image score, 0 to 1; the CLS token has the rest"
    option(recipe, "--lambda WEIGHT", text, float, dest="lam")
    text = "weight of pieces that good parts have and an image lacks; 0: do not look for them"
    option(recipe, "--missing WEIGHT", text, float)


def add_encoder(command: Parser, group: Group, default: str = DEFAULT_RECIPE) -> None:
    """The recipe and its encoder, and nothing else of it."""
    command.set_defaults(default_recipe=default)
    option(group, "--recipe", f"{RECIPE_HELP} (default: {default})", choices=RECIPE_NAMES)
    option(group, "--backbone NAME", "encoder, as `hyperfsad encoders` lists them, or a folder")


def add_machine(command: Parser) -> None:
    """Where and how the encoder runs."""
    machine = command.add_argument_group("machine")
    add_device(machine, "auto", "which is openvino on a CPU where it is installed, otherwise torch")
    text = "images to encode at once (default: 1 on a CPU, otherwise 8)"
    option(machine, "--batch-size N", text, int)


def add_device(group: Group, engine: str, reason: str) -> None:
    """Device, engine and threads; `reason` explains the default engine."""
    option(group, "--device", "auto, cpu, cuda or mps", default="auto")
    text = f"library that runs the encoder (default: {engine}, {reason})"
    group.add_argument("--engine", choices=ENGINES, default=engine, help=text)
    option(group, "--threads N", "CPU cores to use (default: all)", int)
