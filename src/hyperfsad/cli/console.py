"""How commands speak to a person: exit codes, sentences, progress bars, tables, figures."""

import argparse
import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import HyperfsadWarning
from ..wording import count, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DONE, NOTHING, SOME_FAILED, INTERRUPTED = 0, 1, 3, 130

LOGGED_FROM = 50
"""The number of images from which on a log says that work on them begins."""

VERDICTS = {True: "anomalous", False: "good", None: "–"}

Item = TypeVar("Item")


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


def print_worst(records: list[dict[str, Any]], scored: int, where: str) -> None:
    """Prints a row for each of the most anomalous images, and where the others are."""
    print("  score  threshold  verdict    most anomalous images")
    for record in records:
        name = printable(record["image"] + _remark(record))
        limit = "–" if record["threshold"] is None else f"{record['threshold']:.3f}"
        verdict = VERDICTS[record["anomalous"]]
        print(f"{record['score']:7.3f}  {limit:>9}  {verdict:9}  {name}")
    if scored > len(records):
        print(printable(f"         and {scored - len(records)} more: {where}"))


def print_unknown(images: int) -> None:
    """Says how many images fit none of the products: their scores mean little."""
    if images:
        fit, their = ("fits", "its score means") if images == 1 else ("fit", "their scores mean")
        print(f"{count(images, 'image')} {fit} no product, so {their} little; see unknown_product")


def _remark(record: dict[str, Any]) -> str:
    """The product of an image, and why it is anomalous if its score is not."""
    text = "  (looks like another product)" if record.get("foreign") else ""
    if (nearest := record.get("nearest_product")) is not None:
        unknown = record["unknown_product"]
        text = f"  (fits no product, nearest {nearest})" if unknown else f"  ({nearest})"
    by_score = record["anomalous"] is not True or record["score"] > record["threshold"]
    return text if by_score else f"{text} (by a region of its map)"


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
