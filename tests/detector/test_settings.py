"""Every choice is checked where it is given, and one table says what goes together."""

from typing import Any

import numpy as np
import pytest

from hyperfsad.detector.settings import (
    CONFLICTS,
    LOOKUP_NAMES,
    SETTINGS,
    Settings,
    find_recipe,
)
from hyperfsad.errors import UsageError
from hyperfsad.method.lookups import LOOKUPS
from tests.codes import raises

WRONG: dict[str, list[Any]] = {
    "recipe": ["clip", 3, ""],
    "backbone": [3, "", b"x", "a\0b"],
    "layers": [3, [1.5], ["x"], [True]],
    "resolution": [0, 1.5, "x", True],
    "lookup": ["best", 1],
    "pooling": ["mean", "top-", 3],
    "lam": [-0.1, 1.1, float("nan"), "x"],
    "sharpness": [0, 1001, True],
    "smooth": [1, "yes"],
    "last_norm": [0],
    "missing": [-1, 11],
    "rotations": [0, 73, "many", 1.5, True],
    "tiles": [0, -3, "x", 2.5],
    "max_cost": [0.5, float("inf")],
    "memory": ["small", 1],
    "device": ["tpu", 1],
    "engine": ["fast", None.__class__],
    "precision": ["f32", 32],
    "batch_size": [0, 1.5],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_refused_with_its_name(name: str, value: Any) -> None:
    with raises(UsageError, "setting-invalid", name=name):
        Settings(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("device", "tpu", "auto, cpu, gpu, npu, cuda or mps"),
        ("pooling", "mean", "max, top-10 or top-1%"),
        ("memory", "small", "one of exact, compact"),
        ("rotations", 99, "a whole number from 1 to 72 or auto"),
    ],
)
def test_the_sentence_says_what_is_allowed(name: str, value: Any, allowed: str) -> None:
    with raises(UsageError, "setting-invalid", name=name) as caught:
        Settings(**{name: value})
    assert str(caught.value) == f"`{name}` must be {allowed}, not {value!r}."


@pytest.mark.parametrize("name", ["device", "pooling"])
def test_examples_can_be_used(name: str) -> None:
    for example in SETTINGS[name].examples:
        choices: dict[str, Any] = {name: example}
        assert getattr(Settings(**choices), name) == example


def test_what_is_not_given_is_the_recipe() -> None:
    settings, recipe = Settings(recipe="paper-offline", lam=0.25), find_recipe("paper-offline")
    assert settings.lam == 0.25
    assert settings.backbone == recipe.backbone
    assert settings.layers == (3, 6, 9, 12)
    assert (settings.resolution, settings.tiles, settings.max_cost) == (None, None, None)
    assert settings.encoding.resolution == 448


def test_tiles_are_of_parts_that_lie_still() -> None:
    assert Settings().rotations == "auto"
    assert Settings(tiles=True).rotations == 1
    assert Settings(tiles=True).tile_side == 448
    with raises(UsageError, "setting-invalid", name="tiles", low=32):
        Settings(tiles=8).tile_side  # noqa: B018


CLASHES: list[tuple[str, str, dict[str, Any]]] = [
    ("", "tiles-with-rotations", {"tiles": True, "rotations": 4}),
    ("", "tiles-with-roi", {"tiles": True, "roi": "auto"}),
    ("", "compact-with-tiles", {"memory": "compact", "max_cost": 4}),
    ("", "engine-with-device", {"engine": "openvino", "device": "cuda:1"}),
    ("", "compact-with-lookup", {"memory": "compact", "lookup": "softmax"}),
    ("products", "products-with-roi", {"roi": np.ones((4, 4))}),
    ("products", "products-with-tiles", {"tiles": True}),
    ("products", "products-with-max-cost", {"max_cost": 3}),
    ("products", "products-with-compact", {"memory": "compact"}),
    ("adapt", "adapt-with-tiles", {"tiles": True}),
    ("export", "export-with-line", {"adapted": True}),
    ("saved", "precision-of-detector", {"precision": "bf16", "fitted_in": "float32"}),
    ("", "precision-unsupported", {"precision": "int8"}),
    ("", "precision-unsupported", {"precision": "bf16", "engine": "torch"}),
    ("", "precision-unsupported", {"precision": "float16", "device": "cuda"}),
    ("product", "one-product-only", {}),
    ("hypergraph", "hypergraph-with-tiles", {"tiles": True}),
    ("exported", "exported-with-machine", {"engine": "torch"}),
    ("exported", "exported-with-machine", {"device": "mps"}),
    ("exported", "exported-with-machine", {"precision": "bf16"}),
    ("export", "export-with-products", {"several": True}),
    ("export", "export-with-tiles", {"tiles": True}),
    ("export", "export-with-roi", {"roi": "auto"}),
    ("export", "export-with-compact", {"memory": "compact"}),
    ("export", "export-with-lookup", {"lookup": "top-1"}),
    ("theory", "theory-with-recipe", {}),
    ("theory", "theory-with-tiles", {"recipe": "paper-offline", "tiles": True}),
    ("theory", "theory-with-compact", {"recipe": "paper-offline", "memory": "compact"}),
    ("theory", "theory-with-roi", {"recipe": "paper-offline", "roi": "auto"}),
    ("theory of the CLS token", "theory-with-roi", {"roi": "auto"}),
]


@pytest.mark.parametrize(("use", "code", "choices"), CLASHES)
def test_one_table_says_what_goes_together(use: str, code: str, choices: dict[str, Any]) -> None:
    learnt = ("several", "fitted_in", "adapted")
    kind = {name: choices[name] for name in learnt if name in choices}
    with raises(UsageError, code):
        Settings(**{k: v for k, v in choices.items() if k not in kind}).check(use, **kind)


def test_every_row_of_the_table_is_tested() -> None:
    assert {(row.use, row.code) for row in CONFLICTS} == {(use, code) for use, code, _ in CLASHES}


def test_a_region_of_the_part_itself_goes_with_several_products() -> None:
    Settings(roi="auto").check("products")


def test_names_of_lookups_are_those_of_the_method() -> None:
    assert tuple(LOOKUPS) == LOOKUP_NAMES


def test_each_setting_explains_itself() -> None:
    for name, setting in SETTINGS.items():
        assert setting.name == name
        assert setting.help
        assert setting.group in ("recipe", "memory", "machine")


def test_what_is_stored_makes_the_same_settings() -> None:
    settings = Settings(recipe="paper-offline", rotations=4, roi="auto", batch_size=3)
    again = Settings(**settings.to_dict())
    assert again == settings.changed(batch_size=None)
