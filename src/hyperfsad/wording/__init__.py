"""The sentence for each error and notice: a code and facts in, words for one kind of reader out.

Code raises codes and facts; it never writes a sentence itself. One file here holds the sentences of
one package. A template names facts in braces and settings as `{option[rotations]}`, which each
surface spells its own way. What a template cannot say is a function of the facts.
"""

import itertools
import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeAlias

Sentence: TypeAlias = "str | Callable[..., str]"
Sentences: TypeAlias = Mapping[str, Sentence]


class Options:
    """How a surface spells the name of a setting: `option[rotations]` in a template."""

    def __init__(self, spell: Callable[[str], str]) -> None:
        self._spell = spell

    def __getitem__(self, name: str) -> str:
        return self._spell(name)


PYTHON = Options(lambda name: f"`{name}`")
COMMAND_LINE = Options(lambda name: f"--{'lambda' if name == 'lam' else name.replace('_', '-')}")
STATION = Options(lambda name: f"“{name.replace('_', ' ')}”")

_surface = PYTHON


def speak_as(options: Options) -> None:
    """Sets how `str` of an error spells settings in this process; the command line calls it."""
    global _surface
    _surface = options


@cache
def sentences() -> dict[str, Sentence]:
    """Every sentence by its code."""
    found: dict[str, Sentence] = {}
    for module in iter_modules(__path__):
        source = import_module(f".{module.name}", __name__)
        own: Sentences = getattr(source, f"{module.name.upper()}_SENTENCES")
        assert not found.keys() & own.keys(), f"{module.name} repeats a code"
        found.update(own)
    return found


class Worded:
    """Something with a code and facts: an error or a notice."""

    code: str
    facts: Mapping[str, Any]

    def worded(self, options: Options) -> str:
        """The sentence for another surface than that of this process."""
        return worded(self.code, self.facts, options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process makes it again from its code and facts."""
        return _restored, (type(self), self.code, dict(self.facts))


def _restored(kind: Callable[..., Worded], code: str, facts: dict[str, Any]) -> Worded:
    return kind(code, **facts)


def worded(code: str, facts: Mapping[str, Any], options: Options | None = None) -> str:
    """The sentence of a code with its facts, for the surface of this process or another one.

    An error or a notice among the facts is worded for the same surface; a template joins lists.
    """
    sentence = sentences()[code]
    surface = options or _surface
    spelled: dict[str, Any] = {"option": surface}
    for name, fact in facts.items():
        spelled[name] = fact.worded(surface) if isinstance(fact, Worded) else fact
    if callable(sentence):
        return sentence(**spelled)
    for name, fact in spelled.items():
        if isinstance(fact, list):
            spelled[name] = ", ".join(map(str, fact))
    return sentence.format_map(spelled)


_CONTROL = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's classes of characters that steer a terminal, turn the direction of text or end rows."""

_JOINERS = "\u200c\u200d"
"""Invisible as well, but harmless, and part of words in some scripts and of emoji."""


def visible(text: str) -> str:
    """Text for one row of a terminal: a file's name must not move the cursor or forge a row.

    Control characters become what JSON writes for them, so that JSON stays the same.
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def as_rows(rows: Iterable[str]) -> str:
    """Several rows for a terminal; no name in them can add a row."""
    return "\n".join(map(visible, rows))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _CONTROL or character in _JOINERS:
        return character
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def percent(level: float) -> str:
    """A level for people, as in "88 %": only the limit itself reads as 100 %."""
    if math.isinf(level):
        return "∞ %"
    texts = (f"{100 * level:.{digits}f}" for digits in itertools.count())
    return next(f"{text} %" for text in texts if level == 1 or float(text) != 100)


def of_limit(level: float) -> str:
    """How far an image or a place reaches, as in "88 % of the limit"."""
    return f"{percent(level)} of the limit"


def count(number: int, what: str) -> str:
    """A number of things, as in "1 image" or "2 images"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
