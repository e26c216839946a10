"""Runs a command and turns errors into one sentence. Help imports nothing heavy."""

import argparse
import difflib
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from .. import wording
from ..errors import HyperfsadError
from ..messages import Notice
from ..version import __version__
from .console import DONE, INTERRUPTED, NOTHING, printable, say, say_warnings

GROUPS = {
    "everyday": {
        "fit": ("fit", "learn from images of good parts and save a detector"),
        "detect": ("detect", "score images and draw heat maps"),
        "explain": ("detect", "show why a place in an image is anomalous"),
        "extend": ("fit", "add good parts to a saved detector"),
        "calibrate": ("fit", "set a new threshold for a saved detector"),
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
        "info": ("more", "print what a detector file holds"),
        "encoders": ("more", "list the encoders, or fetch one"),
        "demo": ("more", "draw example parts and inspect them"),
        "lab": ("lab", "reproduce the paper: benchmark, reproduce, speed, certify, stability"),
    },
}
"""The commands as the help shows them, each with its module and its help.

In its module, `add_NAME` adds the options, and the function of the command's own name runs it.
"""

COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    wording.speak_as(wording.COMMAND_LINE)
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        with warnings.catch_warnings():
            say_warnings()
            code: int = options.run(options)
        sys.stdout.flush()
        return code
    except HyperfsadError as error:
        say(f"hyperfsad: {error}")
        return NOTHING
    except KeyboardInterrupt:
        return _stopped()
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        _drop_output()
        return DONE
    except OSError as error:
        _drop_output()
        place = f"{error.filename}: " if error.filename else ""
        say(f"hyperfsad: {place}{error.strerror or error}.")
        return NOTHING
    except ImportError as error:  # some libraries turn Ctrl-C into it while they are loaded
        if isinstance(error.__context__, KeyboardInterrupt):
            return _stopped()
        raise
    except (MemoryError, RuntimeError) as error:
        torch_words = ("allocate memory", "out of memory")
        if not isinstance(error, MemoryError) and not any(w in str(error) for w in torch_words):
            raise
        say(f"hyperfsad: {Notice('memory-short')}")
        return NOTHING


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
    for word in words:
        if word == "--":  # all that follows are files
            return None
        name = word.split("=", 1)[0]
        # as argparse sees it: what has a space in it is a file, what begins with -5 a number
        is_option = word.startswith("-") and " " not in word and word.lstrip("-")[:1].isalpha()
        # -oFILE is -o with its value, but -output is a mistyped --output
        valued = not name.startswith("--") and name[:2] in flags and f"-{name}" not in flags
        if is_option and name not in flags and not valued:
            near = _nearest(name, flags)
            return f"unknown option {name}" + (f" (did you mean {near}?)" if near else "")
    return None


def _nearest(name: str, flags: Sequence[str]) -> str | None:
    """The option that was meant: one that begins with it, or else the most similar one."""
    bare = {flag.lstrip("-"): flag for flag in flags if flag.startswith("--")}
    typed = name.lstrip("-").lower().replace("_", "-")
    begun = [text for text in bare if text.startswith(typed) and len(typed) > 1]
    near = begun or difflib.get_close_matches(typed, bare, n=1)
    return bare[near[0]] if near else None


def _stopped() -> int:
    say("hyperfsad: stopped.")
    return INTERRUPTED


def _drop_output() -> None:
    """Nothing more can be written to standard output; the interpreter must not try at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
