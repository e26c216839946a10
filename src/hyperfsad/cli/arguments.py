"""What an option may hold, and groups of options that several commands share.

The options of a detector are made from `detector.settings`: its help, kinds and choices.
"""

import argparse
import math
import os
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from ..decisions.thresholds import FALSE_ALARM_RATE, MIN_RATE
from ..detector.settings import DEFAULT_RECIPE, SETTINGS
from ..wording import COMMAND_LINE

Parser: TypeAlias = argparse.ArgumentParser
Group: TypeAlias = argparse._ActionsContainer
"""A parser, or a group of its options."""

Value = TypeVar("Value")

PYTHON_ONLY = ("sharpness", "smooth", "last_norm")
"""Settings that belong to a recipe; whoever experiments with them does so in Python."""


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
whole = _kind(lambda text: text if text == "auto" else int(text), "a number such as 16, or auto")
tile = _kind(
    lambda text: False if text == "no" else int(text),
    "a tile's side in pixels such as 640, or no; without a number, put --tiles last or another"
    " option after it",
    lambda side: side is False or side >= 1,
)
new_file = _kind(
    str,
    "a file in an existing folder",
    lambda path: os.path.isdir(os.path.dirname(path) or os.curdir),
)
times = _kind(float, "a number of at least 1 such as 4", lambda number: 1 <= number < math.inf)

KINDS: dict[str, Callable[[str], Any]] = {
    "text": str,
    "roi": str,
    "number": float,
    "wholes": integers,
    "tiles": tile,
}
"""How the text of an option becomes the value of a setting; `Settings` checks its range."""


def add_setting(group: Group, name: str, text: str | None = None, **more: Any) -> None:
    """The option of a setting; `text` replaces its help."""
    setting = SETTINGS[name]
    kind = whole if setting.kind == "whole" and setting.choices else KINDS.get(setting.kind, int)
    if setting.kind == "tiles":
        more |= {"nargs": "?", "const": True}
    if setting.choices and setting.metavar is None:
        more["choices"] = setting.choices
    shown = (text or setting.help).replace("%", "%%")
    usage = f"{COMMAND_LINE[name]} {setting.metavar or ''}"
    option(group, usage, shown, kind, dest=name, **more)


def add_files(command: Parser, name: str, metavar: str, text: str) -> None:
    """Files, which may stand before or after the options; none is possible."""
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
    """All choices for a new detector: memory, threshold, recipe and machine."""
    memory = command.add_argument_group("good parts", "how the detector remembers them")
    for name, setting in SETTINGS.items():
        if setting.group == "memory":
            add_setting(memory, name)
    text = (
        "also learn the good parts in 8 bits: images that are clearly good or clearly bad are"
        " judged by this pre-screening alone, in 0.6 to 0.7 of the time on a CPU (needs"
        " hyperfsad[int8])"
    )
    memory.add_argument("--fast", action="store_const", const="int8", help=text)
    threshold = command.add_argument_group("threshold", "images above it are anomalous")
    option(
        threshold,
        "--calibrate GOOD",
        "set the threshold from these other good parts; 19 or more bound a false-alarm rate of"
        " 0.05, fewer give an estimate (default: estimate it from the good parts that were learnt)",
        nargs="+",
    )
    add_calibration(threshold)
    add_recipe(command)
    add_machine(command)


def add_calibration(group: Group) -> None:
    """How good parts set the threshold."""
    text = "share of good parts that may be called anomalous, between 0 and 1"
    option(group, "--false-alarm-rate SHARE", f"{text} (default: {FALSE_ALARM_RATE})", share)
    text = "let good parts that stand far apart from all others set the threshold as well"
    flag(group, "--keep-outliers", text)


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
    for name, setting in SETTINGS.items():
        if setting.group == "recipe" and name not in ("recipe", "backbone", *PYTHON_ONLY):
            add_setting(recipe, name)


def add_encoder(command: Parser, group: Group, default: str = DEFAULT_RECIPE) -> None:
    """The recipe and its encoder, and nothing else of it."""
    command.set_defaults(default_recipe=default)
    add_setting(group, "recipe", f"{SETTINGS['recipe'].help} (default: {default})")
    add_setting(group, "backbone")


def add_machine(command: Parser) -> None:
    """Where and how the encoder runs."""
    machine = command.add_argument_group("machine")
    add_device(machine, "auto", "which is openvino on a CPU where it is installed, otherwise torch")
    add_setting(machine, "batch_size")


def add_device(group: Group, engine: str, reason: str) -> None:
    """Device, engine and threads; `reason` explains the default engine."""
    add_setting(group, "device", default="auto")
    text = f"{SETTINGS['engine'].help} (default: {engine}, {reason})"
    add_setting(group, "engine", text)
    group.set_defaults(engine=engine)
    option(group, "--threads N", "CPU cores to use (default: all)", int)
