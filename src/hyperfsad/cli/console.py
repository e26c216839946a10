"""How commands speak to a person: exit codes, sentences, progress bars, files of figures."""

import argparse
import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import HyperfsadWarning
from ..messages import count as count
from ..messages import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DONE, NOTHING, SOME_FAILED, INTERRUPTED = 0, 1, 3, 130

LONG = 50
"""Images from which on a log says that work on them begins."""

VERDICTS = {True: "anomalous", False: "good", None: "–"}

Item = TypeVar("Item")


def exit_code(complete: bool, done: int = 1) -> int:
    """The exit code of a command that has `done` so many things, and whether that was all."""
    return NOTHING if not done else DONE if complete else SOME_FAILED


def say(text: str) -> None:
    """A sentence to standard error, so that standard output holds nothing but results."""
    from tqdm import tqdm

    tqdm.write(printable(text), file=sys.stderr)  # above a progress bar, if there is one
    sys.stderr.flush()


def printable(text: str) -> str:
    """One row; names that are no valid Unicode, or that the terminal cannot show, must not crash,
    and none may steer the terminal."""
    encoding = sys.stdout.encoding or "utf-8"
    return visible(text).encode(encoding, errors="backslashreplace").decode(encoding)


def printable_rows(text: str) -> str:
    """As `printable`, of a text whose rows were made by `as_rows` or hold no names."""
    return "\n".join(map(printable, text.split("\n")))


def progress(items: Iterable[Item], label: str, total: int | None = None) -> Iterable[Item]:
    """A bar on a terminal; elsewhere one sentence where there is much to do.

    `total` is given where the items do not know their number.
    """
    from tqdm import tqdm

    number = total or (len(items) if isinstance(items, Sized) else 0)
    if number >= LONG and not sys.stderr.isatty():
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


def write_figures(options: argparse.Namespace, content: Any, draw: "Callable[[], Figure]") -> None:
    """Writes figures to the files that --json and --plot name."""
    from ..disk.files import encoded, write_file
    from ..report.canvas import save_figure

    if options.json:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        write_file(Path(options.json), encoded(text + "\n"))
    if options.plot:
        path = Path(options.plot)
        save_figure(draw(), path.parent, path.stem, parents=False)


def tell_warnings() -> None:
    """Our own warnings become sentences; those of other libraries stay as they are."""
    ordinary = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, HyperfsadWarning):
            say(f"hyperfsad: {message}")
        else:
            ordinary(message, category, *where, **more)

    warnings.showwarning = show
    warnings.simplefilter("always", HyperfsadWarning)
