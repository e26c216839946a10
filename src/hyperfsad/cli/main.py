"""The command line: parses, calls, tells what went wrong. Asking for help imports nothing heavy."""

import os
import sys
import warnings
from collections.abc import Sequence

from ..errors import HyperfsadError
from .console import DONE, INTERRUPTED, NOTHING, say, tell_warnings
from .parsers import parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    options = parse(arguments)
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
        told = ("allocate memory", "out of memory")  # how torch says it
        if not isinstance(error, MemoryError) and not any(t in str(error) for t in told):
            raise
        say("hyperfsad: There is not enough memory; try a smaller --resolution or --batch-size.")
        return NOTHING


def _stopped() -> int:
    say("hyperfsad: stopped.")
    return INTERRUPTED


def _drop_output() -> None:
    """Nothing more can be written to standard output; the interpreter must not try at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
