"""Sparsemax of a graph is that of the method, however many patches are active."""

from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.export import matching
from hyperfsad.method import lookups
from tests.export.exporting import KINDS, graph_of


def rows(name: str) -> NDArray[np.float32]:
    """Similarities with few, many and all active, and with nothing to tell them apart."""
    noise = np.random.default_rng(0).standard_normal((8, 3000), np.float32)
    found = {
        "few": 0.3 * noise,
        "hundreds": 0.002 * noise,
        "all": 1e-5 * noise,
        "equal": np.full((2, 40_000), 0.7),
        "one": 50 * noise,
        "short": noise[:, :5],
        "mixed": np.concatenate([50 * noise[:4], 1e-4 * noise[4:]]),
    }[name]
    return found.astype(np.float32)


def expected(z: NDArray[np.float32]) -> NDArray[Any]:
    """The weights of the method."""
    found: NDArray[Any] = lookups.sparsemax(z.astype(np.float64))
    return found


CASES = ("few", "hundreds", "all", "equal", "one", "short", "mixed")


@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_the_method(name: str) -> None:
    z = rows(name)
    found, weights = matching.sparsemax(z), expected(z)
    assert found.dtype == np.float32
    assert np.allclose(found.sum(axis=-1, dtype=np.float64), 1, atol=1e-5)
    assert np.abs(found - weights).max() < 1e-6
    active = {"few": 8, "hundreds": lookups.FIRST_CANDIDATES, "all": 2999, "equal": 39_999}
    assert (weights > 0).sum(axis=-1).max() > active.get(name, 0)


def test_only_the_standard_is_asked_for() -> None:
    for name in ("few", "hundreds"):
        found = matching.sparsemax(array_api_strict.asarray(rows(name)))
        assert np.array_equal(np.asarray(found), matching.sparsemax(rows(name)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_has_the_same_weights(kind: str, tmp_path: Path) -> None:
    """One graph for all: how many steps it goes is decided when it runs."""
    run = graph_of(lambda z: [matching.sparsemax(z)], kind, tmp_path, z=[3000])
    for name in ("few", "hundreds", "all", "one", "mixed"):
        z = rows(name)
        assert np.abs(run(z=z)[0] - expected(z)).max() < 1e-6, name
