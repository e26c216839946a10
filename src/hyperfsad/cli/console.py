"""The console: runs a command, turns errors into one sentence, and prints what a person reads.

Help imports nothing heavy.
"""

import argparse
import contextlib
import difflib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ..errors import HyperfsadError, HyperfsadWarning
from ..messages import Notice
from ..version import __version__
from ..wording import COMMAND_LINE, percent, speak_as, visible

DONE, NOTHING, SOME_FAILED, INTERRUPTED = 0, 1, 3, 130

LOGGED_FROM = 50
"""The number of images from which on a log says that work on them begins."""

VERDICTS = {True: "anomalous", False: "good", None: "–"}

Item = TypeVar("Item")

GROUPS = {
    "everyday": {
        "fit": ("fit", "learn from images of good parts and save a detector"),
        "detect": ("detectors", "score images and draw heat maps"),
        "explain": (
            "more",
            "show why a place in an image is anomalous",
        ),
        "extend": ("fit", "add good parts to a saved detector"),
        "calibrate": ("fit", "set a new threshold for a saved detector"),
        "adapt": ("fit", "learn from unlabelled parts of the line: for a right verdict"),
        "teach": ("fit", "name defects, from one to four examples of each"),
    },
    "decide": {
        "advise": ("quality", "find out which settings suit your parts"),
        "evaluate": ("quality", "measure verdicts on parts that you know to be good or bad"),
        "coverage": ("quality", "estimate how many good images are needed, and choose them"),
        "drift": ("quality", "test whether good parts change over a stream of inspections"),
    },
    "plant": {
        "watch": ("plant", "inspect images as a camera writes them"),
        "serve": ("plant", "run the inspection station: a page and an API with a history"),
        "export": ("plant", "write a detector as a model for ONNX Runtime or OpenVINO"),
    },
    "more": {
        "info": ("more", "print what a detector file holds, or what this machine computes with"),
        "encoders": ("more", "list the encoders, or fetch one"),
        "demo": ("more", "draw example parts, inspect them and compare the verdicts"),
        "lab": ("lab", "reproduce the paper: benchmark, reproduce, speed, certify, stability"),
    },
}
"""The commands as the help shows them, each with its module and its help.

In its module, `add_NAME` adds the options, and the function of the command's own name runs it.
"""

COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    try:
        _fill_streams()
        speak_as(COMMAND_LINE)
        options = parse(sys.argv[1:] if arguments is None else arguments)
        with warnings.catch_warnings(), _quiet_finalizers():
            say_warnings()
            code: int = options.run(options)
        sys.stdout.flush()
        return code
    except HyperfsadError as error:
        say(f"hyperfsad: {error}")
        return NOTHING
    except KeyboardInterrupt:
        say("hyperfsad: stopped.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        _drop_output()
        return DONE
    except OSError as error:
        _drop_output()
        place = f"{error.filename}: " if error.filename else ""
        say(f"hyperfsad: {place}{error.strerror or error}.")
        return NOTHING
    except ImportError as error:  # some libraries turn Ctrl-C into it while they are loaded
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        return INTERRUPTED
    except (MemoryError, RuntimeError) as error:
        torch_words = ("allocate memory", "out of memory")
        if not isinstance(error, MemoryError) and not any(w in str(error) for w in torch_words):
            raise
        say(f"hyperfsad: {Notice('memory-short')}")
        return NOTHING


@contextlib.contextmanager
def _quiet_finalizers() -> Iterator[None]:
    """Ctrl-C that hits a finalizer stops nothing, and would print a traceback; whoever pressed it
    presses it again."""
    before = sys.unraisablehook

    def hook(found: "sys.UnraisableHookArgs") -> None:
        if not isinstance(found.exc_value, KeyboardInterrupt):
            before(found)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command; files may also come after an option, which argparse forgets."""
    command = next((word for word in arguments if not word.startswith("-")), None)
    parser = make_parser(command)
    if problem := _unknown_option(arguments, sorted(_flags(parser))):
        parser.chosen.error(problem)
    options, left = parser.parse_known_args(arguments)
    if any(word.startswith("-") or "files" not in options for word in left):
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    if left:
        getattr(options, options.files).extend(left)
    return options


def make_parser(command: str | None) -> "_Parser":
    """The parser of all commands; only the module of the one that runs is imported."""
    listed = [
        "\n".join([f"{title}:", *(f"  {name:11} {text}" for name, (_, text) in group.items())])
        for title, group in GROUPS.items()
    ]
    parser = _Parser(
        prog="hyperfsad",
        usage="hyperfsad [-h] [--version] COMMAND ...",
        description="\n\n".join(["Find defects from one to four images of good parts.", *listed]),
        epilog="Exit codes: 0 done; 1 nothing could be done; 3 done, but some images failed;"
        " 130 stopped with Ctrl-C.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hyperfsad {__version__}")
    group = parser.add_subparsers(
        required=True, prog="hyperfsad", dest="COMMAND", help=argparse.SUPPRESS
    )
    for name, (module, text) in COMMANDS.items():
        added = group.add_parser(name, description=f"{text[0].upper()}{text[1:]}.")
        if name == command:
            parser.chosen = added
            found = import_module(f".{module}", __package__)
            added.set_defaults(run=getattr(found, name))
            getattr(found, f"add_{name}")(added)
    return parser


class _Parser(argparse.ArgumentParser):
    """Takes no abbreviations: a mistyped option must never be taken for another."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self.chosen = self
        """The parser of the command that runs, or this one."""

    def error(self, message: str) -> NoReturn:
        self.exit(NOTHING, f"{printable(f'hyperfsad: {message}')}; see {self.prog} --help\n")


def _flags(parser: argparse.ArgumentParser) -> set[str]:
    """All options of a command, and of the commands below it."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(*map(_flags, action.choices.values()))
    return found


def _unknown_option(words: Sequence[str], flags: Sequence[str]) -> str | None:
    """The first unknown option of a command line, with the known one that was probably meant.

    argparse complains of what is missing before it names what it does not know: a mistyped
    `--detectr` would be answered with "--detector is required".
    """
    for word in takewhile("--".__ne__, words):  # all that follows are files
        name = word.split("=", 1)[0]
        # as argparse sees it: what has a space in it is a file, what begins with -5 a number
        is_option = word.startswith("-") and " " not in word and word.lstrip("-")[:1].isalpha()
        # -oFILE is -o with its value, but -output is a mistyped --output
        valued = not name.startswith("--") and name[:2] in flags and f"-{name}" not in flags
        if is_option and name not in flags and not valued:
            typed = name.lstrip("-").lower().replace("_", "-")
            known = [flag[2:] for flag in flags if flag.startswith("--")]
            begun = [flag for flag in known if flag.startswith(typed) and len(typed) > 1]
            near = begun or difflib.get_close_matches(typed, known, n=1)
            return f"unknown option {name}" + (f" (did you mean --{near[0]}?)" if near else "")
    return None


def _fill_streams() -> None:
    """Opens those of the three standard streams that were closed, as `>&-` does, on nothing.

    Else the next file that is opened would take their place, and libraries print into it.
    """
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:
            file = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: the stream's
            os.set_inheritable(file, True)
            setattr(sys, name, os.fdopen(file, mode, encoding="utf-8"))


def _drop_output() -> None:
    """Nothing more can be written to standard output; the interpreter must not try at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_code(complete: bool, done: int = 1) -> int:
    """The exit code of a command: how much it has done, and whether that was all."""
    return NOTHING if not done else DONE if complete else SOME_FAILED


def say(text: str) -> None:
    """A sentence to standard error, so that standard output holds nothing but results."""
    from tqdm import tqdm

    tqdm.write(printable(text), file=sys.stderr)  # above a progress bar
    sys.stderr.flush()


def say_all(notes: Iterable[object]) -> None:
    """Errors and notices, one row each."""
    for note in notes:
        say(f"hyperfsad: {note}")


def reach(level: float | None, score: float) -> str:
    """How far an image reaches in a table, or its score where there is no limit."""
    return f"{score:.3f}" if level is None else percent(level)


def printable(text: str) -> str:
    """One row; names that are not valid Unicode, or that the terminal cannot show, must not crash,
    and none may steer the terminal."""
    encoding = sys.stdout.encoding or "utf-8"
    return visible(text).encode(encoding, errors="backslashreplace").decode(encoding)


def printable_rows(text: str) -> str:
    """As `printable`, of a text whose rows were made by `as_rows` or hold no names."""
    return "\n".join(map(printable, text.split("\n")))


def progress(items: Iterable[Item], label: str, total: int | None = None) -> Iterable[Item]:
    """A bar on a terminal; elsewhere one sentence if there is much to do.

    `total` is given if the items do not know their number.
    """
    from tqdm import tqdm

    number = total or (len(items) if isinstance(items, Sized) else 0)
    if number >= LOGGED_FROM and not sys.stderr.isatty():
        say(f"{label}: {number:,} images")
    bar: Iterable[Item] = tqdm(
        items, desc=printable(label), unit="image", disable=None, total=total
    )
    return bar


@contextlib.contextmanager
def later_bar() -> Iterator[Callable[[int], Callable[[int], None]]]:
    """Starts a progress bar once the number of images is known; returns what moves it on."""
    from tqdm import tqdm

    shape = {"desc": "images", "unit": "image", "disable": None, "smoothing": 0.05}
    with contextlib.ExitStack() as open_bars:
        yield lambda total: open_bars.enter_context(tqdm(total=total, **shape)).update


def show_status(text: str) -> None:
    """Overwrites one row of a terminal; does nothing elsewhere."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{printable(text)}")
        sys.stderr.flush()


def write_json(options: argparse.Namespace, content: Any) -> None:
    """Writes figures to the file that --json names."""
    from ..disk.files import encoded, write_file

    if options.json:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        write_file(Path(options.json), encoded(text + "\n"))


def say_warnings() -> None:
    """Our own warnings become sentences; those of other libraries stay as they are."""
    ordinary = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, HyperfsadWarning):
            say(f"hyperfsad: {message}")
        else:
            ordinary(message, category, *where, **more)

    warnings.showwarning = show
    warnings.simplefilter("always", HyperfsadWarning)
