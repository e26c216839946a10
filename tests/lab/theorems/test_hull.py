"""The largest cosine with any mixture of rows: proven, exact, and never below what is possible."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hyperfsad.lab.theorems import hull
from hyperfsad.lab.theorems.hull import Cone

Array = NDArray[np.float64]


def unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def cosine(token: Array, vectors: Array) -> Array:
    return np.asarray(vectors @ token / np.linalg.norm(vectors, axis=-1))


@settings(max_examples=1000, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.integers(1, 20), st.floats(0.05, 3.0))
def test_no_mixture_comes_closer_than_the_bound(
    seed: int, width: int, count: int, spread: float
) -> None:
    random = np.random.default_rng(seed)
    rows = unit(np.eye(width)[0] + spread * unit(random.standard_normal((count, width))))
    token = unit(random.standard_normal(width))
    bound = Cone(rows).largest_cosine(token)
    mixtures = random.dirichlet(np.full(count, 0.3), size=50) @ rows
    mixtures = np.concatenate([mixtures, rows])
    assert cosine(token, mixtures).max() <= bound.upper + 1e-12
    assert bound.attained <= bound.upper
    if spread < 0.9:  # all rows in a half-space: the bound is the truth
        assert bound.gap < 1e-9


def test_between_two_rows_the_bound_is_tight() -> None:
    rows = unit(np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]]))
    token = unit(np.array([1.0, 0.0, 1.0]))  # over the middle of the two, 45° above their plane
    bound = Cone(rows).largest_cosine(token)
    assert bound.upper == pytest.approx(np.sqrt(0.5), abs=1e-9)
    assert bound.attained == pytest.approx(np.sqrt(0.5), abs=1e-12)


def test_a_token_behind_all_rows_keeps_its_distance_from_the_nearest() -> None:
    rows = unit(np.array([[1.0, 0.2], [1.0, -0.2]]))
    token = unit(np.array([-1.0, 0.1]))
    bound = Cone(rows).largest_cosine(token)
    assert bound.upper == pytest.approx(float((rows @ token).max()), abs=1e-9)
    assert bound.gamma > 1


def test_rows_around_the_origin_promise_nothing() -> None:
    rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    assert Cone(rows).largest_cosine(unit(np.array([1.0, 0.3]))).gamma <= 1e-12


@pytest.mark.parametrize("count", [300, 3000])
def test_large_memories_agree_with_one_big_least_squares(count: int) -> None:
    random = np.random.default_rng(count)
    rows = unit(np.eye(24)[0] + 0.8 * unit(random.standard_normal((count, 24))))
    for token in unit(random.standard_normal((5, 24)) + 0.3 * np.eye(24)[0]):
        weights, _ = scipy.optimize.nnls(rows.T, token)
        bound = Cone(rows).largest_cosine(token)
        assert bound.upper == pytest.approx(float(np.linalg.norm(weights @ rows)), abs=1e-9)
        with pytest.MonkeyPatch.context() as few:
            few.setattr(hull, "FIRST_ROWS", 3)
            few.setattr(hull, "MORE_ROWS", 2)
            slow = Cone(rows).largest_cosine(token)
        assert slow.gap < 1e-9
        assert slow.upper == pytest.approx(bound.upper, abs=1e-9)


def test_the_bound_is_proven_even_when_the_solver_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = np.random.default_rng(3)
    rows = unit(np.eye(6)[0] + 0.7 * unit(random.standard_normal((40, 6))))
    token = unit(random.standard_normal(6) + np.eye(6)[0])
    truth = Cone(rows).largest_cosine(token).attained

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("too many iterations")

    monkeypatch.setattr(scipy.optimize, "nnls", refuse)
    bound = Cone(rows).largest_cosine(token)
    assert bound.attained <= truth <= bound.upper
    assert bound.gap > 0
