"""Proposition 1 and Appendix A: limits are kept, each can be met, quiet rows change nothing."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperfsad.encoders.encoder import ImageTokens
from hyperfsad.lab.theorems import stability
from hyperfsad.lab.theorems.stability import (
    active_sets,
    check_tokens,
    cls_distance,
    moved_by,
    perturb,
    softmax_mass,
    spectral_gain,
    unaffected_patches,
)
from hyperfsad.method import lookups
from hyperfsad.method.lookups import reconstruct, softmax, sparsemax
from hyperfsad.quality.tokens import Array

from .samples import World, unit

seeds = st.integers(0, 2**32 - 1)


def norm(values: Array) -> float:
    return float(np.linalg.norm(values))


def crowd(seed: int, count: int, width: int, spread: float) -> Array:
    rows = np.random.default_rng(seed).standard_normal((count, width))
    return unit(np.eye(width)[0] + spread * rows)


@settings(max_examples=1000, deadline=None)
@given(seeds, st.integers(1, 60), st.integers(2, 8), st.floats(0.05, 2), st.floats(1e-3, 0.8))
def test_no_noise_breaks_a_limit(
    seed: int, count: int, width: int, spread: float, noise: float
) -> None:
    memory = crowd(seed, count, width, spread)
    queries, tokens = crowd(seed + 1, 6, width, spread), crowd(seed + 2, 3, width, spread)
    found = perturb(queries, memory, tokens[0], tokens[1:], noise, seed % 1000)
    assert found.weights <= 1 + 1e-9
    assert found.rebuilt <= spectral_gain(memory) * (1 + 1e-9)
    assert found.cls <= 1 + 1e-9


@settings(max_examples=500, deadline=None)
@given(seeds, st.integers(1, 60), st.integers(2, 8), st.floats(0.05, 1), st.floats(1e-4, 0.1))
def test_while_the_active_set_stays_the_reconstruction_is_affine(
    seed: int, count: int, width: int, spread: float, length: float
) -> None:
    memory, query = crowd(seed, count, width, spread), crowd(seed + 1, 1, width, spread)
    sets = active_sets(query, memory)
    step = length * unit(np.random.default_rng(seed).standard_normal(width))
    before, after = sparsemax(query @ memory.T)[0], sparsemax((query + step) @ memory.T)[0]
    chosen = before > 0
    assert int(chosen.sum()) == sets.size[0]
    rows = memory[chosen] - memory[chosen].mean(axis=0)
    scatter = rows.T @ rows
    assert sets.gain[0] == pytest.approx(float(np.linalg.norm(scatter, 2)), abs=1e-9)
    assert sets.gain[0] <= spectral_gain(memory) + 1e-9
    if np.array_equal(chosen, after > 0):
        gained = (after - before) @ memory
        assert np.abs(gained - scatter @ step).max() < 1e-9
        assert norm(gained) <= sets.gain[0] * length + 1e-9


def test_each_limit_can_be_met() -> None:
    # ‖P‖²: two opposite rows, both active, rebuild 2·⟨q, e⟩·e
    memory = np.array([[1.0, 0.0], [-1.0, 0.0]])
    first, second = (np.array([[x, 1.0]]) for x in (0.1, 0.2))
    apart = norm(reconstruct(second, memory) - reconstruct(first, memory))
    assert apart == pytest.approx(spectral_gain(memory) * norm(second - first))
    assert spectral_gain(memory) == pytest.approx(2.0)
    assert active_sets(first, memory).gain[0] == pytest.approx(2.0)
    # ‖Δw‖ = ‖Δz‖: similarities that move against each other inside one active set
    z = np.array([[0.5, 0.4, 0.3]])
    moved = z + np.array([[0.02, -0.01, -0.01]])
    gained = sparsemax(moved) - sparsemax(z)
    assert norm(gained) == pytest.approx(norm(moved - z))
    # |Δs| = ‖Δc‖: a normal token along the very step
    u, v = unit(np.array([[1.0, 0.3], [1.0, -0.2]]))
    normal = unit(u - v)
    assert abs(float(normal @ u - normal @ v)) == pytest.approx(norm(u - v))


def test_the_cls_distance_is_the_distance() -> None:
    tokens, normal = crowd(0, 7, 5, 0.5), crowd(1, 4, 5, 0.5)
    nearest = np.linalg.norm(tokens[:, None] - normal, axis=-1).min(axis=1)
    assert cls_distance(tokens, normal) == pytest.approx(nearest)
    assert cls_distance(normal, normal) == pytest.approx(0, abs=1e-7)


@settings(max_examples=300, deadline=None)
@given(seeds, st.integers(1, 40), st.integers(0, 200), st.floats(0.0, 1.0))
def test_sparsemax_ignores_what_softmax_does_not(
    seed: int, count: int, more: int, below: float
) -> None:
    memory, query = crowd(seed, count, 6, 0.5), crowd(seed + 1, 1, 6, 0.5)
    z = query @ memory.T
    sets = active_sets(query, memory)
    value = float(sets.tau[0]) - below
    grown = np.concatenate([z, np.full((1, more), value)], axis=1)
    mass = softmax_mass(sets.log_mass, np.array([value]), more)[0]
    assert mass == pytest.approx(float(softmax(grown)[0, count:].sum()), abs=1e-9)
    weights = sparsemax(grown)
    assert float(weights[0, count:].sum()) == pytest.approx(0, abs=1e-12)
    assert weights[0, :count] == pytest.approx(sparsemax(z)[0], abs=1e-12)


@settings(max_examples=500, deadline=None)
@given(seeds, st.integers(1, 40), st.integers(1, 40), st.floats(0.05, 1.5))
def test_unaffected_patches_are_rebuilt_as_before(
    seed: int, count: int, more: int, spread: float
) -> None:
    memory, new = crowd(seed, count, 6, spread), crowd(seed + 1, more, 6, 3 * spread)
    queries = crowd(seed + 2, 12, 6, spread)
    quiet = unaffected_patches(queries, memory, new)
    before = reconstruct(queries, memory)
    after = reconstruct(queries, np.concatenate([memory, new]))
    moved = np.linalg.norm(after - before, axis=1)
    assert (moved[quiet] < 1e-12).all()
    tau = active_sets(queries, memory).tau
    reached = (queries @ new.T).max(axis=1) > tau + 1e-9
    assert not (reached & quiet).any()
    assert (reached | quiet | (np.abs((queries @ new.T).max(axis=1) - tau) < 2e-5)).all()


def test_parts_of_the_queries_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, queries = crowd(0, 300, 6, 0.4), crowd(1, 50, 6, 0.4)
    whole = active_sets(queries, memory)
    monkeypatch.setattr(lookups, "SIMILARITIES_AT_ONCE", 2100)
    monkeypatch.setattr(stability, "PATCHES_AT_ONCE", 3)
    parts = active_sets(queries, memory)
    for name in ("size", "tau", "gain", "log_mass"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), abs=1e-12)


def test_moved_tokens_have_length_one_and_stay_near() -> None:
    tokens = crowd(0, 20, 8, 0.5)
    moved = moved_by(tokens, 0.1, np.random.default_rng(0))
    assert np.linalg.norm(moved, axis=1) == pytest.approx(1)
    apart = np.linalg.norm(moved - tokens, axis=1)
    assert 0.01 < float(apart.min()) <= float(apart.max()) < 0.12


def test_the_report_tells_all_layers() -> None:
    world = World(0, layers=2, width=8, images=3, spread=0.4)
    images: list[tuple[str, ImageTokens]] = [("good", world.good()), ("bad", world.bad())]
    report = check_tokens(world.bank(), images, [2, 4], noise=0.1)
    assert report.holds
    assert report.images == ("good", "bad")
    assert report.distractors == (4, 40, 400)
    for layer in report.layers:
        assert 0 < layer.softmax_mass[0] < layer.softmax_mass[1] < layer.softmax_mass[2] < 1
        assert 0 < layer.local_gain["median"] <= layer.local_gain["max"]
        assert len(layer.cls_distance) == 2
        assert 0 < layer.largest.rebuilt <= layer.reconstruction_bound
    told = report.to_json()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
