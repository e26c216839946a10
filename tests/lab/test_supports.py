"""Supports in and out: the written file replays, any other draws too, and mistakes are told."""

import json
from pathlib import Path
from typing import Any

import pytest

from hyperfsad.errors import UsageError
from hyperfsad.lab.datasets import Category, load_dataset
from hyperfsad.lab.supports import draw, file_name, read_draws, support_order, write_draws
from hyperfsad.lab.token_cache import ContentHashes
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
    draws = draw(categories, (1, 3), 2, 7, ContentHashes())
    write_draws(draws, tmp_path / "supports.json")
    assert read_draws(tmp_path / "supports.json", categories) == draws
    assert (draws.seed, draws.shots, draws.runs) == (7, (1, 3), (0, 1))
    only = read_draws(tmp_path / "supports.json", categories[:1])
    assert list(only.supports) == [("mvtec", "bolt")]


def test_names_that_are_not_unicode_are_read_back(tmp_path: Path) -> None:
    names = ("a/good/\udcff.png", "a/good/ä.png")
    category = Category("mvtec", "bolt", names, ())
    draws = draw([category], (2,), 1, 0, lambda path: path)
    write_draws(draws, tmp_path / "supports.json")
    assert read_draws(tmp_path / "supports.json", [category]) == draws


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
    draws = read_draws(written(tmp_path, entries), categories)
    assert draws.seed is None
    assert (draws.shots, draws.runs) == ((1, 2), (111,))
    sets = draws.of(categories[0])
    assert [file_name(path) for path in sets[111, 2]] == ["000.png", "001.png"]
    assert [file_name(path) for path in draws.of(categories[1])[111, 2]] == ["003.png", "002.png"]


NUT = entry("nut")


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([entry(images=["999.png"]), NUT], "entry 1: mvtec/bolt has no good image named 999.png"),
        ([entry(images=["0.png"]), NUT], "has no good image named 0.png"),
        ([entry(), entry(), NUT], "entry 2: mvtec/bolt has another list for run 0 and 1 shots"),
        ([entry()], "names no supports of mvtec/nut for run 0 and 1 shots"),
        ([entry(run=0), entry(run=1), NUT], "names no supports of mvtec/nut for run 1"),
        ([], "names no supports of mvtec/bolt"),
        ([entry(shots=2), NUT], "2 shots need so many names of images"),
        ([entry("bolt", "000.png", "000.png"), NUT], "each of them once"),
        ([entry(run="0"), NUT], "entry 1: run is '0'"),
        ([entry(shots=True), NUT], "shots is True"),
        ([3], "dataset is None"),
        ({}, "supports is no list"),
    ],
)
def test_a_mistake_is_one_sentence(
    categories: list[Category], tmp_path: Path, entries: Any, told: str
) -> None:
    with pytest.raises(UsageError, match=r"supports\.json") as error:
        read_draws(written(tmp_path, entries), categories)
    assert told in str(error.value)


def test_a_name_that_two_images_have_is_one_sentence(tmp_path: Path) -> None:
    category = Category("mvtec", "bolt", ("a/000.png", "b/000.png"), ())
    with pytest.raises(UsageError, match=r"has 2 good images named 000\.png"):
        read_draws(written(tmp_path, [entry()]), [category])


@pytest.mark.parametrize("content", ["", "[]", "{", '{"supports": [], "seed": "x"}'])
def test_a_file_of_another_kind_is_one_sentence(
    categories: list[Category], tmp_path: Path, content: str
) -> None:
    path = tmp_path / "supports.json"
    path.write_text(content)
    with pytest.raises(UsageError, match="should be JSON such as"):
        read_draws(path, categories)
    with pytest.raises(UsageError, match=r"nowhere\.json should be JSON"):
        read_draws(tmp_path / "nowhere.json", categories)
