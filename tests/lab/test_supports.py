"""Supports in and out: the written file replays, any other draws too, and mistakes are told."""

import json
from pathlib import Path
from typing import Any

import pytest

from hyperfsad.errors import UsageError
from hyperfsad.lab.datasets import Category, load_dataset
from hyperfsad.lab.supports import (
    draw_supports,
    file_name,
    read_supports,
    support_order,
    write_supports,
)
from hyperfsad.lab.tokens import content_hashes
from tests.codes import raises
from tests.lab.trees import mvtec_tree


@pytest.fixture
def categories(tmp_path: Path) -> list[Category]:
    mvtec_tree(tmp_path / "data", ["bolt", "nut"], normal=5, test=1)
    return load_dataset("mvtec", tmp_path / "data")


def written(folder: Path, entries: Any, **more: Any) -> Path:
    path = folder / "supports.json"
    path.write_text(json.dumps({"supports": entries, **more}))
    return path


def entry(category: str = "bolt", *images: str, **changes: Any) -> dict[str, Any]:
    names = list(images) or ["000.png"]
    values = {"dataset": "mvtec", "category": category, "run": 0, "shots": len(names)}
    return {**values, "images": names, **changes}


def test_what_is_written_is_read_back(categories: list[Category], tmp_path: Path) -> None:
    sets = draw_supports(categories, (1, 3), 2, 7, content_hashes())
    write_supports(sets, tmp_path / "supports.json")
    assert read_supports(tmp_path / "supports.json", categories) == sets
    assert (sets.seed, sets.shots, sets.runs) == (7, (1, 3), (0, 1))
    only = read_supports(tmp_path / "supports.json", categories[:1])
    assert list(only.supports) == [("mvtec", "bolt")]


def test_names_that_are_not_unicode_are_read_back(tmp_path: Path) -> None:
    names = ("a/good/\udcff.png", "a/good/ä.png")
    category = Category("mvtec", "bolt", names, ())
    sets = draw_supports([category], (2,), 1, 0, lambda path: path)
    write_supports(sets, tmp_path / "supports.json")
    assert read_supports(tmp_path / "supports.json", [category]) == sets


def test_no_more_images_are_hashed_than_needed(categories: list[Category]) -> None:
    asked: list[str] = []

    def content_hash(path: str) -> str:
        asked.append(path)
        return path

    assert len(support_order(categories[0], 0, 0, content_hash, 2)) == 2
    assert len(asked) == 2


def test_draws_of_others_need_not_be_nested_and_runs_have_any_number(
    categories: list[Category], tmp_path: Path
) -> None:
    entries = [
        entry("bolt", "004.png", run=111),
        entry("bolt", "good/000.png", "001.png", run=111),
        entry("nut", "002.png", run=111),
        entry("nut", "003.png", "002.png", run=111),
        entry("gone", "000.png"),
    ]
    sets = read_supports(written(tmp_path, entries), categories)
    assert sets.seed is None
    assert (sets.shots, sets.runs) == ((1, 2), (111,))
    assert [file_name(path) for path in sets.of(categories[0])[111, 2]] == ["000.png", "001.png"]
    assert [file_name(path) for path in sets.of(categories[1])[111, 2]] == ["003.png", "002.png"]


NUT = entry("nut")


@pytest.mark.parametrize(
    ("entries", "code", "facts"),
    [
        ([entry(images=["999.png"]), NUT], "supports-name", {"entry": 1, "name": "999.png"}),
        ([entry(images=["0.png"]), NUT], "supports-name", {"found": 0}),
        ([entry(), entry(), NUT], "supports-twice", {"entry": 2, "run": 0, "shots": 1}),
        ([entry()], "supports-missing", {"category": "nut", "run": 0, "shots": 1}),
        ([entry(run=0), entry(run=1), NUT], "supports-missing", {"category": "nut", "run": 1}),
        ([], "supports-missing", {"category": "bolt"}),
        ([entry(shots=2), NUT], "supports-images", {"shots": 2}),
        ([entry("bolt", "000.png", "000.png"), NUT], "supports-images", {}),
        ([entry(images=[["a"]]), NUT], "supports-images", {}),
        ([entry(run="0"), NUT], "supports-field", {"entry": 1, "name": "run", "given": "'0'"}),
        ([entry(shots=True), NUT], "supports-field", {"name": "shots", "given": "True"}),
        ([3], "supports-field", {"name": "dataset"}),
        ({}, "supports-file", {}),
    ],
)
def test_a_mistake_is_named(
    categories: list[Category], tmp_path: Path, entries: Any, code: str, facts: dict[str, Any]
) -> None:
    path = written(tmp_path, entries)
    with raises(UsageError, code, path=path, **facts):
        read_supports(path, categories)


def test_a_name_that_two_images_have_is_refused(tmp_path: Path) -> None:
    category = Category("mvtec", "bolt", ("a/000.png", "b/000.png"), ())
    with raises(UsageError, "supports-name", found=2):
        read_supports(written(tmp_path, [entry()]), [category])


@pytest.mark.parametrize("content", ["", "[]", "{", '{"supports": [], "seed": "x"}', None])
def test_a_file_of_another_kind_is_refused(
    categories: list[Category], tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "supports.json"
    if content is not None:
        path.write_text(content)
    with raises(UsageError, "supports-file", path=path):
        read_supports(path, categories)
