"""How commands speak to a person: exit codes, sentences, progress bars."""

import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..errors import HyperfsadWarning

DONE, NOTHING, SOME_FAILED, INTERRUPTED = 0, 1, 3, 130

Item = TypeVar("Item")


def say(text: str) -> None:
    """A sentence to standard error, so that standard output holds nothing but results."""
    from tqdm import tqdm

    tqdm.write(printable(text), file=sys.stderr)  # above a progress bar, if there is one
    sys.stderr.flush()


def printable(text: str) -> str:
    """Names that are no valid Unicode, or that the terminal cannot show, must not crash."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, errors="backslashreplace").decode(encoding)


def count(number: int, what: str) -> str:
    """A number of things, as in "1 image" or "2 images"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def progress(items: Iterable[Item], label: str, total: int | None = None) -> Iterable[Item]:
    """A bar on a terminal, nothing elsewhere; `total` where the items do not know their number."""
    from tqdm import tqdm

    bar: Iterable[Item] = tqdm(items, desc=label, unit="image", disable=None, total=total)
    return bar


class Bar:
    """A progress bar with the remaining time, whose length is known only later."""

    def __enter__(self) -> "Bar":
        self._bar: Any = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def start(self, total: int) -> Callable[[int], None]:
        from tqdm import tqdm

        self._bar = tqdm(total=total, desc="images", unit="image", disable=None, smoothing=0.05)
        advance: Callable[[int], None] = self._bar.update
        return advance


def status_line() -> Callable[[str], None]:
    """Shows one line, each time over the last, on a terminal; nothing elsewhere."""

    def show(text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    return show


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
