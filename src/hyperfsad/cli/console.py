"""The console: runs a command, turns errors into one sentence, and prints what a person reads.

Help imports nothing heavy.
"""

import argparse
import contextlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from importlib import import_module
from typing import Any, TypeVar

from ..errors import HyperfsadError, HyperfsadWarning, UsageError
from ..messages import Notice, log
from ..version import __version__
from ..wording import COMMAND_LINE, percent, speak_as, visible
from .parser import USAGE, Parser, add_common, flags_last, options_of, unknown_option, with_config

DONE, NOTHING, SOME_FAILED, ANOMALOUS, INTERRUPTED = 0, 1, 3, 4, 130

WITHOUT_WORK = frozenset(
    {"all-images-in-output", "no-good-part", "no-good-parts", "no-images", "no-normal-images"}
    | {"no-product", "no-readable-bad-part", "no-test-images", "no-unlabelled-part"}
    | {"nothing-new-learnt", "only-learnt-parts", "product-not-learnt", "product-without-images"}
    | {"suite-unusable", "watch-no-folder"}
)
"""Usage errors that are none on the command line: it was typed well, but there is nothing to do."""

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
        "completion": ("completion", "print what makes a shell complete commands and options"),
        "lab": ("lab", "reproduce the paper: benchmark, reproduce, speed, certify, stability"),
    },
}
"""The commands as the help shows them, each with its module and its help.

In its module, `add_NAME` adds the options, and the function of the command's own name runs it.
"""

COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    return _ended(lambda: _run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: Sequence[str]) -> int:
    _fill_streams()
    speak_as(COMMAND_LINE)
    options = parse(arguments)
    from .logs import logged  # help needs no logging

    with logged(options, say), warnings.catch_warnings(), _quiet_finalizers():
        say_warnings()
        return _ended(lambda: options.run(options))  # here errors go to the log file, too


def _ended(work: Callable[[], int]) -> int:
    """The exit code of work; an error is one sentence."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except HyperfsadError as error:
        return _refused(error)
    except KeyboardInterrupt:
        warn("stopped.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        _drop_output()
        return DONE
    except OSError as error:
        _drop_output()
        place = f"{error.filename}: " if error.filename else ""
        warn(f"{place}{error.strerror or error}.")
        return NOTHING
    except ImportError as error:  # some libraries turn Ctrl-C into it while they are loaded
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        return INTERRUPTED
    except (MemoryError, RuntimeError) as error:
        torch_words = ("allocate memory", "out of memory")
        if not isinstance(error, MemoryError) and not any(w in str(error) for w in torch_words):
            raise
        warn(Notice("memory-short"))
        return NOTHING


def _refused(error: HyperfsadError) -> int:
    """Says what is wrong; whoever typed a command wrongly can mend it, unlike a damaged file."""
    warn(error)
    typed = isinstance(error, UsageError) and error.code not in WITHOUT_WORK
    return USAGE if typed else NOTHING


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
    arguments = flags_last(arguments)
    command = next((word for word in arguments if not word.startswith("-")), None)
    parser = make_parser(command)
    known = options_of(parser)
    if problem := unknown_option(arguments, sorted(known)):
        parser.chosen.error(problem)
    options, left = parser.parse_known_args(with_config(arguments, known))
    if any(word.startswith("-") or "files" not in options for word in left):
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    if left:
        getattr(options, options.files).extend(left)
    return options


def make_parser(command: str | None = None, *, everything: bool = False) -> Parser:
    """The parser of all commands; only the module of the one that runs is imported, unless the
    options of all are asked for."""
    listed = [
        "\n".join([f"{title}:", *(f"  {name:11} {text}" for name, (_, text) in group.items())])
        for title, group in GROUPS.items()
    ]
    parser = Parser(
        prog="hyperfsad",
        usage="hyperfsad [-h] [--version] COMMAND ...",
        description="\n\n".join(["Find defects from one to four images of good parts.", *listed]),
        epilog="Exit codes: 0 done; 1 nothing could be done; 2 typed wrongly; 3 done, but some"
        " images failed;\n4 anomalous parts (--fail-on-anomalous); 130 stopped with Ctrl-C.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hyperfsad {__version__}")
    group = parser.add_subparsers(
        required=True,
        prog="hyperfsad",
        dest="COMMAND",
        help="command" if everything else argparse.SUPPRESS,  # the groups above list them
    )
    for name, (module, text) in COMMANDS.items():
        added = group.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if everything or name == command:
            parser.chosen = added
            found = import_module(f".{module}", __package__)
            added.set_defaults(run=getattr(found, name))
            getattr(found, f"add_{name}")(added)
            add_common(added)
    return parser


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


def tell(text: object) -> None:
    """Something to know: `-q` leaves it out."""
    log(str(text))


def warn(text: object) -> None:
    """An error or a doubt, which is always said."""
    import logging

    from .logs import is_heard

    if is_heard():
        log(text if isinstance(text, str) else str(text), logging.WARNING)
    else:  # while the options are read
        say(f"hyperfsad: {text}")


def say_all(notes: Iterable[object]) -> None:
    """Errors and notices, one row each."""
    for note in notes:
        warn(note)


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
        tell(f"{label}: {number:,} images")
    bar: Iterable[Item] = tqdm(
        items, desc=printable(label), unit="image", disable=_without_bar(), total=total
    )
    return bar


def _without_bar() -> bool | None:
    """Whether there is no progress bar; None: on a terminal alone."""
    from .logs import is_quiet

    return True if is_quiet() else None


@contextlib.contextmanager
def later_bar() -> Iterator[Callable[[int], Callable[[int], None]]]:
    """Starts a progress bar once the number of images is known; returns what moves it on."""
    from tqdm import tqdm

    shape = {"desc": "images", "unit": "image", "disable": _without_bar(), "smoothing": 0.05}
    with contextlib.ExitStack() as open_bars:
        yield lambda total: open_bars.enter_context(tqdm(total=total, **shape)).update


def show_status(text: str) -> None:
    """Overwrites one row of a terminal; does nothing elsewhere."""
    if sys.stderr.isatty() and not _without_bar():
        sys.stderr.write(f"\r\x1b[K{printable(text)}")
        sys.stderr.flush()


def print_facts(options: argparse.Namespace, text: str, content: Any) -> None:
    """What a command has found: `text` for people, or with --json the content itself."""
    if options.json:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    print(printable_rows(text))


def say_warnings() -> None:
    """Our own warnings become sentences; those of other libraries stay as they are."""
    ordinary = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, HyperfsadWarning):
            warn(message)
        else:
            ordinary(message, category, *where, **more)

    warnings.showwarning = show
    warnings.simplefilter("always", HyperfsadWarning)
