"""Where messages of a command go: standard error, and perhaps a file."""

import argparse
import contextlib
import logging
from collections.abc import Callable, Iterator

from ..errors import UsageError, reason
from ..messages import LOGGER
from ..wording import visible


class _Said(logging.Handler):
    """Messages as sentences; when they came is of interest to whoever asked for all."""

    def __init__(self, write: Callable[[str], None], level: int) -> None:
        super().__init__(level)
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            text = f"hyperfsad: {text}"
        if self.level <= logging.DEBUG:
            text = f"{record.relativeCreated / 1000:8.2f} s  {text}"
        self._write(text)


class _Rows(logging.Formatter):
    """A row for each message; no name in it can add one."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def is_quiet() -> bool:
    """Whether nothing but warnings and errors is said."""
    return any(each.level >= logging.WARNING for each in _said())


def is_heard() -> bool:
    """Whether a command runs, so that its messages are said."""
    return bool(_said())


def _said() -> list[_Said]:
    return [each for each in logging.getLogger(LOGGER).handlers if isinstance(each, _Said)]


@contextlib.contextmanager
def logged(options: argparse.Namespace, write: Callable[[str], None]) -> Iterator[None]:
    """Hears what is logged while a command runs."""
    quiet, verbose = (getattr(options, name, False) for name in ("quiet", "verbose"))
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    handlers: list[logging.Handler] = [_Said(write, level)]
    if (path := getattr(options, "log_file", None)) is not None:
        try:
            file = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise UsageError("log-file", path=path, reason=reason(error).lower()) from error
        file.setFormatter(_Rows("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        handlers.append(file)
    logger = logging.getLogger(LOGGER)
    before = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False  # nobody else prints it again
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()
        logger.setLevel(before[0])
        logger.propagate = before[1]
