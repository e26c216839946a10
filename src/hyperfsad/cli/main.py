"""Runs a command and turns errors into one sentence. Help imports nothing heavy."""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from ..errors import HyperfsadError
from ..version import __version__
from ..wording import COMMAND_LINE, speak_as
from .console import DONE, INTERRUPTED, NOTHING, printable, say, tell_warnings
from .mistyped import mistyped, options_of

COMMANDS = {
    "fit": ("fit", "learn from images of good parts and save a detector"),
    "detect": ("detect", "score images and draw heat maps"),
    "watch": ("watch", "inspect images as a camera writes them"),
    "serve": ("serve", "run the inspection station: an API with a history"),
    "explain": ("detect", "show why a place of an image is anomalous"),
    "extend": ("fit", "add good parts to a saved detector"),
    "calibrate": ("fit", "set a new threshold for a saved detector"),
    "advise": ("advise", "find out which settings suit your parts"),
    "evaluate": ("evaluate", "measure verdicts on parts whose truth you know"),
    "export": ("export", "write a detector as a model for ONNX Runtime or OpenVINO"),
    "demo": ("tools", "draw example parts and inspect them"),
    "benchmark": ("benchmark", "measure accuracy on data sets, in tables like the paper's"),
    "reproduce": ("reproduce", "run all tables and figures of the paper, into one page"),
    "speed": ("tools", "measure the time and memory of an inspection on this machine"),
    "coverage": ("theory", "estimate how many good images are needed, and choose them"),
    "certify": ("theory", "prove score margins between good and bad parts (Theorems 1 and 2)"),
    "stability": ("theory", "check how much noise and more memory change scores (Proposition 1)"),
    "drift": ("theory", "test whether good parts have changed over a stream of inspections"),
    "encoders": ("tools", "list the encoders, or fetch one"),
    "info": ("tools", "print what a detector file holds"),
}
"""The module and the help of each command.

In its module, `add_NAME` adds the options, and the function of the command's own name runs it.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    speak_as(COMMAND_LINE)
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        with warnings.catch_warnings():
            tell_warnings()
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
    except ImportError as error:  # what some libraries make of Ctrl-C while they are loaded
        if isinstance(error.__context__, KeyboardInterrupt):
            return _stopped()
        raise
    except (MemoryError, RuntimeError) as error:
        torch_words = ("allocate memory", "out of memory")
        if not isinstance(error, MemoryError) and not any(w in str(error) for w in torch_words):
            raise
        say("hyperfsad: There is not enough memory; try a smaller --resolution or --batch-size.")
        return NOTHING


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command; files may also come after an option, which argparse forgets."""
    command = next((word for word in arguments if not word.startswith("-")), None)
    parser = make_parser(command)
    if problem := mistyped(arguments, options_of(parser)):
        parser.chosen.error(problem)
    options, left = parser.parse_known_args(arguments)
    if any(word.startswith("-") or "files" not in options for word in left):
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    if left:
        getattr(options, options.files).extend(left)
    return options


def make_parser(command: str | None) -> "_Parser":
    """The parser of all commands; only the module of the one that runs is imported."""
    parser = _Parser(
        prog="hyperfsad",
        description="Finds defects from one to four images of good parts.",
        epilog="Exit codes: 0 done; 1 nothing could be done; 3 done, but some images failed;"
        " 130 stopped with Ctrl-C.",
    )
    parser.add_argument("--version", action="version", version=f"hyperfsad {__version__}")
    group = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, (module, text) in COMMANDS.items():
        added = group.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
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
        """The parser of the command that runs; this one while there is none."""

    def error(self, message: str) -> NoReturn:
        self.exit(NOTHING, f"{printable(f'hyperfsad: {message}')}; see {self.prog} --help\n")


def _stopped() -> int:
    say("hyperfsad: stopped.")
    return INTERRUPTED


def _drop_output() -> None:
    """Nothing more can be written to standard output; the interpreter must not try at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
