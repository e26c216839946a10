"""What an option may hold, and groups of options that several commands share.

Options of a command are a table that reads like its help. The options of a detector are made from
`detector.settings`: its kinds, choices and help.
"""

import argparse
import math
import os
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from ..decisions.thresholds import FALSE_ALARM_RATE, MIN_RATE
from ..detector.settings import DEFAULT_RECIPE, SETTINGS
from ..errors import UsageError
from ..wording import COMMAND_LINE

Parser: TypeAlias = argparse.ArgumentParser
Group: TypeAlias = argparse._ActionsContainer
"""A parser, or a group of its options."""

PYTHON_ONLY = ("sharpness", "smooth", "last_norm")
"""Settings that belong to a recipe; whoever experiments with them does so in Python."""


def _kind(
    convert: Callable[[str], Any], expected: str, allowed: Callable[[Any], bool] = lambda _: True
) -> Callable[[str], Any]:
    """Reads the value of an option, or refuses it with what was expected."""

    def read(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not allowed(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
        return value

    return read


_WHOLES = _kind(lambda text: tuple(map(int, text.split(","))), "a list such as 3,6,9,12")
_FILE = _kind(
    str,
    "a file in an existing folder",
    lambda path: os.path.isdir(os.path.dirname(path) or os.curdir),
)
_SECONDS = {"s": 1, "min": 60, "h": 3600}


def _per_second(text: str) -> float:
    """10/s, 600/min or 36000/h."""
    count, _, unit = text.partition("/")
    return float(count) / _SECONDS[unit or "s"]


KINDS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("N", "PX", "whole"), int),
    **dict.fromkeys(("NUMBER", "P", "S", "GB", "SHARE", "DISTANCE", "LENGTH", "number"), float),
    **dict.fromkeys(("1,2,4", "wholes"), _WHOLES),
    **dict.fromkeys(("FILE.npz", "FILE.png"), _FILE),
    "A,B": _kind(lambda text: tuple(filter(None, text.split(","))), "a list such as bottle,tile"),
    "NAME=DIR": _kind(
        lambda text: tuple(text.split("=", 1)),
        "a name and a folder such as PatchCore=scores/",
        lambda pair: len(pair) == 2 and all(pair),
    ),
    "X,Y": _kind(
        lambda text: tuple(map(float, text.split(","))),
        "a place such as 120,45",
        lambda pair: len(pair) == 2,
    ),
    "PIXELS": _kind(float, "a number of pixels such as 50", lambda area: 0 <= area < math.inf),
    "SCORE": _kind(float, "a score such as 0.25", math.isfinite),
    "SPEED": _kind(_per_second, "parts per second, minute or hour such as 10/s or 600/min"),
    "RATE": _kind(
        float,
        f"a share between 0 and 1 such as 0.01, and not below {MIN_RATE:f}",
        lambda part: MIN_RATE <= part < 1,
    ),
    "SYSTEM": _kind(str, "ray", "ray".__eq__),
    "TIMES": _kind(float, "a number of at least 1 such as 4", lambda n: 1 <= n < math.inf),
    "auto": _kind(
        lambda text: text if text == "auto" else int(text), "a number such as 16, or auto"
    ),
    "tiles": _kind(
        lambda text: False if text == "no" else int(text),
        "a tile's side in pixels such as 640, or no; without a number, put --tiles last or another"
        " option after it",
        lambda side: side is False or side >= 1,
    ),
}
"""Values by the placeholder of an option or the kind of a setting; others are texts."""

_TITLE = re.compile(r"([a-z ]+):(.*)")
_ROW = re.compile(
    r"(?P<flags>-[\w -]*?)(?: (?P<metavar>[A-Z1][\w.,:=]*?)(?P<many>\.\.\.)?)?  +(?P<text>.+?)"
    r"(?: \[(?P<default>[^]]*)\])?(?P<required> \(required\))?"
)


def add_options(command: Group, table: str) -> None:
    """Adds options from a table that reads like their help, indented rows continue the one above:

    -o --output DIR  folder for results [out]
    --good GOOD...   good parts, one or more (required)
    --header NAME    header to send; may be repeated
    --once           inspect all images, then end
    limits: a title  begins a group of options

    The default stands in brackets; the placeholder says the kind (`KINDS`).
    """
    rows, group = re.sub(r"\n {5,}", " ", table).splitlines(), command
    for row in filter(None, map(str.strip, rows)):
        if title := _TITLE.fullmatch(row):
            group = command.add_argument_group(title[1], title[2].strip() or None)
            continue
        found = _ROW.fullmatch(row)
        assert found, row
        flags, metavar, default = found["flags"].split(), found["metavar"], found["default"]
        more: dict[str, Any] = {"help": found["text"].replace("%", "%%")}
        if metavar is None:
            group.add_argument(*flags, action="store_true", **more)
            continue
        if default is not None:  # read as a user's text
            more |= {"help": f"{more['help']} (default: {default})", "default": default}
        if found["many"]:
            more["nargs"] = "+"
        if found["required"]:
            more["required"] = True
        if found["text"].endswith("may be repeated"):
            more["action"] = "append"
        group.add_argument(*flags, metavar=metavar, type=KINDS.get(metavar, str), **more)


def chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """What the options of these names hold, to be passed on under the same names."""
    return {name: getattr(options, name) for name in names}


def one_of(first: dict[str, Any], second: dict[str, Any], needed: bool = True) -> None:
    """Refuses both of two alternatives at once, each a few arguments by name, and, where one is
    `needed`, neither."""
    given = [any(value not in (None, []) for value in each.values()) for each in (first, second)]
    if all(given) or (needed and not any(given)):
        names = [" and ".join(each) for each in (first, second)]
        raise UsageError("either-or", first=names[0], second=names[1])


def add_setting(group: Group, name: str, text: str | None = None, default: Any = None) -> None:
    """The option of a setting; `text` replaces its help."""
    setting = SETTINGS[name]
    more: dict[str, Any] = {"type": KINDS.get(setting.kind, str), "metavar": setting.metavar}
    if setting.kind == "whole" and setting.choices:
        more["type"] = KINDS["auto"]
    elif setting.choices and setting.metavar is None:
        more["choices"] = setting.choices
    if setting.kind == "tiles":
        more |= {"nargs": "?", "const": True}
    shown = (text or setting.help).replace("%", "%%")
    group.add_argument(COMMAND_LINE[name], help=shown, dest=name, default=default, **more)


def add_files(command: Parser, name: str, metavar: str, text: str) -> None:
    """Files, which may stand before or after the options; none is possible."""
    command.add_argument(name, nargs="*", metavar=metavar, help=f"{text}: files, globs or folders")
    command.set_defaults(files=name)


MOVED_ENCODER = """
    --backbone FOLDER  folder of the detector's encoder, if it has moved
"""
WAIT = """
    --wait  if another process is writing there, wait until it is done instead of stopping
"""
JSON = """
    --json  print what is found as JSON
"""
CHANGED_FILE = f"""
    -o --output FILE   detector file to write (default: DETECTOR itself)
    {WAIT.strip()}
    {MOVED_ENCODER.strip()}
    {JSON.strip()}
"""
CALIBRATION = f"""
    --false-alarm-rate RATE  share of good parts that may be called anomalous, between 0 and 1
        (default: {FALSE_ALARM_RATE})
    --keep-outliers  let good parts that stand far apart from all others set the threshold as well
"""
RESULTS = f"""
    -o --output DIR    folder for results [out]
    {WAIT.strip()}
    --no-heatmaps      draw no heat maps
    --save-maps        write anomaly maps to maps/*.npy as well
    --min-area PIXELS  leave out regions smaller than this number of pixels [0]
"""
CLUSTER = """
    cluster: inspect on many machines (docs/scale.md)
    --on SYSTEM    what spreads the work: ray (needs hyperfsad[ray])
    --address HOST:PORT  address of a Ray cluster (default: RAY_ADDRESS, otherwise a Ray on this
        machine)
    --workers N    processes with a detector each (default: as many as the cluster has room for)
    --gpus NUMBER  GPUs of each worker, or a fraction of one such as 0.25 [0]
    --part-size N  images in a file of results, about [256]
"""
THRESHOLD_OPTIONS = f"""
    threshold: images above it are anomalous
    --calibrate GOOD...  set the threshold from these other good parts; 19 or more bound a
        false-alarm rate of 0.05, fewer give an estimate (default: estimate it from the good parts
        that were learnt)
    --line PART...  learn from these unlabelled parts of the line too, of which nearly all are
        good: the threshold comes from them
    {CALIBRATION.strip()}
"""


def add_source(command: Parser, required: bool = False, exported: bool = False) -> None:
    """A saved detector, or good parts to fit a new one on; perhaps an `exported` model."""
    folder = ", or a folder that `hyperfsad export` wrote" if exported else ""
    table = f"""
    --detector FILE   detector file to use{folder}
    --normal GOOD...  fit a detector on these good parts instead
    """
    add_options(command.add_mutually_exclusive_group(required=required), table)


def add_fitting(command: Parser) -> None:
    """All choices for a new detector: memory, threshold, recipe and machine."""
    memory = command.add_argument_group("good parts", "how the detector remembers them")
    for name, setting in SETTINGS.items():
        if setting.group == "memory":
            add_setting(memory, name)
    add_options(command, THRESHOLD_OPTIONS)
    add_recipe(command)
    add_machine(command)


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


def add_machine(command: Parser, precision: str | None = None) -> None:
    """Where and how the encoder runs."""
    machine = command.add_argument_group("machine")
    add_device(machine, precision)
    add_setting(machine, "batch_size")


def add_device(group: Group, precision: str | None = None) -> None:
    """Device, engine, precision and threads."""
    add_setting(group, "device", f"{SETTINGS['device'].help} (default: auto)", "auto")
    usual = "auto, which is openvino, and torch on cuda and mps"
    add_setting(group, "engine", f"{SETTINGS['engine'].help} (default: {usual})", "auto")
    usual = precision or (
        "that of a saved detector; otherwise auto with the recipe default, which takes bf16 or int8"
        " where the CPU has it, and float32 with the paper's"
    )
    text = f"{SETTINGS['precision'].help} (default: {usual})"
    add_setting(group, "precision", text, precision)
    add_options(group, "--threads N  CPU cores to use (default: all)")
