"""Every code that is raised or reported has one sentence on every surface, made of its facts."""

import ast
import pickle
import string
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import pytest

import hyperfsad
from hyperfsad import wording
from hyperfsad.errors import ImageError
from hyperfsad.messages import Notice
from hyperfsad.wording import COMMAND_LINE, PYTHON, STATION, Options, sentences, worded

SOURCE = Path(hyperfsad.__file__).parent
TREES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in SOURCE.rglob("*.py")}


def error_kinds() -> set[str]:
    """All classes of errors, and whatever else takes a code first."""
    found = {"HyperfsadError", "Notice", "Conflict"}
    classes = [node for tree in TREES.values() for node in tree.body]
    made = [node for node in classes if isinstance(node, ast.Assign)]  # by the status of a refusal
    found |= {
        ast.unparse(node.targets[0]) for node in made if "_refused_with(" in ast.unparse(node)
    }
    while more := {
        node.name
        for node in classes
        if isinstance(node, ast.ClassDef)
        and node.name not in found
        and any(ast.unparse(base) in found for base in node.bases)
    }:
        found |= more
    return found


def uses() -> Iterator[tuple[str, str, set[str] | None]]:
    """Places in the source with a code and the names of its facts; None where they are not known
    here (`**facts`, and a `Conflict` gets its settings)."""
    kinds = error_kinds()
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            code = getattr(node.args[0], "value", None)
            if name in kinds and isinstance(code, str) and " " not in code:
                facts = {keyword.arg for keyword in node.keywords if keyword.arg}
                known = len(facts) == len(node.keywords) and name != "Conflict"
                yield f"{file.relative_to(SOURCE)}:{node.lineno}", code, facts if known else None


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


def test_codes_and_sentences_fit_together() -> None:
    used = list(uses())
    unworded = [(place, code) for place, code, _ in used if code not in sentences()]
    assert not unworded
    short = [
        (place, code, lacking)
        for place, code, facts in used
        if facts is not None and (lacking := needed(code) - facts)
    ]
    assert not short
    assert not set(sentences()) - {code for _, code, _ in used}


@pytest.mark.parametrize("options", [PYTHON, COMMAND_LINE, STATION], ids=["python", "cli", "page"])
def test_each_surface_spells_options_its_own_way(options: Options) -> None:
    ends = (".", "?", "!", ": ⟨cause⟩")  # a cause is a sentence of its own
    for code, sentence in sentences().items():
        if callable(sentence):
            continue  # tested beside the code that reports it
        facts = {name: f"⟨{name}⟩" for name in needed(code)}
        try:
            text = worded(code, facts, options)
        except ValueError:  # a number's format
            text = worded(code, dict.fromkeys(facts, 2), options)
        assert text[0] == text[0].upper(), code
        assert text.rstrip(")").endswith(ends), f"{code}: {text}"
        assert "\n" not in text, code
        assert options is COMMAND_LINE or " --" not in text, f"{code}: {text}"


def test_a_surface_is_chosen_once() -> None:
    try:
        wording.speak_as(COMMAND_LINE)
        assert wording._surface is COMMAND_LINE
    finally:
        wording.speak_as(PYTHON)


def test_errors_and_notices_travel_between_processes() -> None:
    for sent in (Notice("image-missing", name="a.png"), ImageError("image-missing", name="a.png")):
        found = pickle.loads(pickle.dumps(sent))
        assert (type(found), str(found)) == (type(sent), str(sent))
        assert (found.code, found.facts) == (sent.code, sent.facts)
