"""Every code that is raised or told has one sentence on every surface, made of the facts given."""

import ast
import string
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path

import pytest

import hyperfsad
from hyperfsad import wording
from hyperfsad.wording import COMMAND_LINE, PYTHON, STATION, Options, sentences, worded

SOURCE = Path(hyperfsad.__file__).parent


def error_kinds() -> set[str]:
    """All classes of errors, and whatever else takes a code first."""
    found = {"HyperfsadError", "Notice", "Conflict"}
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in SOURCE.rglob("*.py")]
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    while more := {
        node.name
        for node in classes
        if node.name not in found and any(ast.unparse(base) in found for base in node.bases)
    }:
        found |= more
    return found


KINDS = error_kinds()


@dataclass(frozen=True)
class Use:
    """A place in the source that raises or tells a code."""

    place: str
    code: str
    facts: frozenset[str]
    open: bool
    """Whether it hands on facts that cannot be read here (`**facts`)."""


def uses() -> Iterator[Use]:
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            first = node.args[0]
            if name in KINDS and isinstance(first, ast.Constant) and isinstance(first.value, str):
                given = [keyword.arg for keyword in node.keywords]
                yield Use(
                    f"{file.relative_to(SOURCE)}:{node.lineno}",
                    first.value,
                    frozenset(name for name in given if name is not None),
                    None in given or name == "Conflict",  # which is told its settings
                )


def needed(code: str) -> set[str]:
    """The facts that a sentence speaks of."""
    sentence = sentences()[code]
    if callable(sentence):
        return {
            name
            for name, parameter in signature(sentence).parameters.items()
            if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        } - {"option"}
    fields = [field for _, field, _, _ in string.Formatter().parse(sentence) if field]
    return {field.split(".")[0].split("[")[0] for field in fields} - {"option"}


USES = [use for use in uses() if " " not in use.code]


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use.code} {use.place}")
def test_a_code_has_a_sentence_and_its_facts(use: Use) -> None:
    assert use.code in sentences(), use.place
    assert use.open or needed(use.code) <= use.facts, use.place


def test_every_sentence_is_used() -> None:
    told = {use.code for use in USES}
    assert set(sentences()) <= told


@pytest.mark.parametrize("options", [PYTHON, COMMAND_LINE, STATION], ids=["python", "cli", "page"])
@pytest.mark.parametrize("code", sorted(sentences()))
def test_each_surface_spells_options_its_own_way(code: str, options: Options) -> None:
    sentence = sentences()[code]
    if callable(sentence):
        return  # tested beside the code that tells it
    facts = {name: f"⟨{name}⟩" for name in needed(code)}
    try:
        text = worded(code, facts, options)
    except ValueError:  # a number's format
        text = worded(code, dict.fromkeys(facts, 2), options)
    assert text[0] == text[0].upper()
    ends = (".", "?", "!", ": ⟨cause⟩")  # a cause is a sentence of its own
    assert text.rstrip(")").endswith(ends), text
    assert "\n" not in text
    if options is not COMMAND_LINE:
        assert " --" not in text, text


def test_a_surface_is_chosen_once() -> None:
    try:
        wording.speak_as(COMMAND_LINE)
        assert wording._surface is COMMAND_LINE
    finally:
        wording.speak_as(PYTHON)
