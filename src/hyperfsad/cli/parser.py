"""What all commands share on the command line: strict options, common ones, and those of a file."""

import argparse
import difflib
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, NoReturn

from ..errors import UsageError, first_line, reason
from ..wording import visible

USAGE = 2
"""The exit code of a command that was typed wrongly."""


class Parser(argparse.ArgumentParser):
    """Takes no abbreviations: a mistyped option must never be taken for another."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self.chosen = self
        """The parser of the command that runs, or this one."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{visible(f'hyperfsad: {message}')}; see {self.prog} --help\n")


FLAGS = {
    ("-q", "--quiet"): "no progress and no messages but warnings and errors",
    ("-v", "--verbose"): "also say what is loaded and done, and when",
}
"""Options of every command without a value."""


def flags_last(words: Sequence[str]) -> list[str]:
    """The words of a command line with such options after the command, if they stand before it."""
    flags = list(takewhile([each for pair in FLAGS for each in pair].__contains__, words))
    rest = list(words[len(flags) :])
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *flags, *rest[end:]] if rest else []


def add_common(command: argparse.ArgumentParser) -> None:
    """The options of every command; those of a family of commands go to each of them."""
    if below := _commands(command):
        for each in below:
            add_common(each)
        return
    group = command.add_argument_group("messages and options")
    for flags, text in FLAGS.items():
        group.add_argument(*flags, action="store_true", help=text)
    text = "add all messages to this file, with their time"
    group.add_argument("--log-file", metavar="FILE", help=text)
    text = "TOML file whose keys are options of this command; those given here go before them"
    group.add_argument("--config", metavar="FILE", help=text)


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser] | list[Any]:
    found = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return [below for action in found for below in action.choices.values()]


def options_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """All options of a command, and of the commands below it."""
    found = dict(parser._option_string_actions)
    for below in _commands(parser):
        found |= options_of(below)
    return found


def unknown_option(words: Sequence[str], flags: Sequence[str]) -> str | None:
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
            return f"unknown option {name}{_meant(name, flags)}"
    return None


def _meant(name: str, flags: Sequence[str]) -> str:
    typed = name.lstrip("-").lower().replace("_", "-")
    known = [flag[2:] for flag in flags if flag.startswith("--")]
    begun = [flag for flag in known if flag.startswith(typed) and len(typed) > 1]
    near = begun or difflib.get_close_matches(typed, known, n=1)
    return f" (did you mean --{near[0]}?)" if near else ""


def with_config(words: Sequence[str], options: dict[str, argparse.Action]) -> list[str]:
    """The words of a command line, and those that the file of `--config` adds to them.

    An option that is given on the command line goes before its key in the file.
    """
    typed = list(takewhile("--".__ne__, words))
    file = None
    for place, word in enumerate(typed):
        if word == "--config":
            file = typed[place + 1] if place + 1 < len(typed) else None
        elif word.startswith("--config="):
            file = word.split("=", 1)[1]
    if file is None:
        return list(words)
    added: list[str] = []
    for key, value in _read(file).items():
        action = options.get(f"--{key}")
        if action is None or key in ("config", "help"):
            raise UsageError("config-key", path=file, key=key, meant=_meant(key, sorted(options)))
        if not any(_is(word, flag) for word in typed for flag in action.option_strings):
            added += _words(file, key, value, action)
    return [*typed, *added, *words[len(typed) :]]


def _read(file: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(file, "rb") as content:
            found: dict[str, Any] = tomllib.load(content)
            return found
    except (OSError, ValueError) as error:
        why = first_line(error) if isinstance(error, ValueError) else reason(error).lower()
        raise UsageError("config-unreadable", path=file, reason=why) from error


def _is(word: str, flag: str) -> bool:
    """Whether a word is an option, with or without its value."""
    if flag.startswith("--"):
        return word == flag or word.startswith(f"{flag}=")
    return word.startswith(flag) and not word.startswith("--")


def _words(file: str, key: str, value: Any, action: argparse.Action) -> list[str]:
    """A key of the file as it would be typed."""
    flag = f"--{key}"
    if action.nargs == 0 or (action.nargs == "?" and value is True):
        if not isinstance(value, bool):
            raise UsageError("config-value", path=file, key=key, expected="true or false")
        return [flag] if value else []
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str | int | float) and each is not True for each in values):
        raise UsageError("config-value", path=file, key=key, expected="a text or a number")
    texts = ["no" if each is False else str(each) for each in values]
    if action.nargs == "+":
        return [flag, *texts]
    if isinstance(action, argparse._AppendAction):
        return [f"{flag}={text}" for text in texts]
    return [f"{flag}={','.join(texts)}"]
