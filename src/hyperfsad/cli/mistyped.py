"""Options that there are not, named with the nearest one that there is.

argparse complains of what is missing before it names what it does not know: a mistyped
`--detectr` would be answered with "--detector is required".
"""

import argparse
import difflib
from collections.abc import Iterable, Sequence


def mistyped(words: Sequence[str], known: Iterable[str]) -> str | None:
    """The first option of a command line that there is not, as a few words; None: all are known."""
    flags = sorted(known)
    for word in words:
        if word == "--":  # all that follows are files
            return None
        name = word.split("=", 1)[0]
        if _looks_like_option(word) and not _is_known(name, flags):
            near = _nearest(name, flags)
            return f"unknown option {name}" + (f" (did you mean {near}?)" if near else "")
    return None


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """All options of a command, and of the actions below it."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(*map(options_of, action.choices.values()))
    return found


def _looks_like_option(word: str) -> bool:
    """As argparse sees it: what has a space in it is a file, what begins with -5 a number."""
    return word.startswith("-") and " " not in word and word.lstrip("-")[:1].isalpha()


def _is_known(name: str, flags: Sequence[str]) -> bool:
    if name in flags:
        return True
    # -oFILE is -o with its value, but -output is a mistyped --output
    return not name.startswith("--") and name[:2] in flags and f"-{name}" not in flags


def _nearest(name: str, flags: Sequence[str]) -> str | None:
    """The option that was meant: one that begins with it, or else the most similar one."""
    bare = {flag.lstrip("-"): flag for flag in flags if flag.startswith("--")}
    typed = name.lstrip("-").lower().replace("_", "-")
    begun = [flag for text, flag in bare.items() if text.startswith(typed)]
    if begun:
        return begun[0] if len(begun) == 1 or len(typed) > 1 else None
    near = difflib.get_close_matches(typed, bare, n=1)
    return bare[near[0]] if near else None
