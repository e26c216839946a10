"""Unlabelled parts: what several of them have is normal, and looking up little changes no score."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.arrays import to_numpy
from hyperfsad.method.lookups import reconstruct
from hyperfsad.method.matching import Comparison
from hyperfsad.method.scoring import patch_scores
from hyperfsad.method.unlabelled import FIRST_PATCHES, UnlabelledParts, agreeing

from .kinds import Maker, all_made, every_kind, noise
from .kinds import unit as normalised

GRID, WIDTH, LAYERS = 16, 24, 2
HOW = Comparison(GRID, sharpness=64.0)

Floats = NDArray[np.float32]


def part(seed: int) -> list[Floats]:
    return list(normalised(noise(LAYERS, GRID**2, WIDTH, seed=seed)))


def reference(queries: list[Floats], parts: list[list[Floats]], support: Floats, m: int) -> Floats:
    """The formula as it stands above the module, with dense products."""
    each = [
        patch_scores(queries, [reconstruct(64 * q, p) for q, p in zip(queries, own, strict=True)])
        for own in parts
    ]
    return np.asarray(np.minimum(support, np.sort(each, axis=0)[m - 1]))


@every_kind
@pytest.mark.parametrize("m", [2, 3])
def test_a_score_is_the_same_as_if_all_were_looked_up(made: Maker, m: int) -> None:
    parts, queries = [part(seed) for seed in range(5)], part(9)
    for copied in range(3):  # patches that some parts have
        for layer in range(LAYERS):
            parts[copied][layer][: 40 * copied + 40] = queries[layer][: 40 * copied + 40]
    support = np.random.default_rng(1).random(GRID**2, dtype=np.float32)
    expected = reference(queries, parts, support, m)
    unlabelled = UnlabelledParts([all_made(made, each) for each in parts], HOW, m)
    found = to_numpy(unlabelled.lowered(made(support), all_made(made, queries), decisive=6))
    assert np.sort(found)[-6:] == pytest.approx(np.sort(expected)[-6:], abs=1e-5)
    asked = found != support
    assert found[asked] == pytest.approx(expected[asked], abs=1e-5)
    assert (found <= support).all()
    assert int(asked.sum()) < GRID**2  # some were left out


def test_all_patches_are_looked_up_where_a_score_needs_them() -> None:
    queries = part(3)
    parts = [[layer.copy() for layer in queries] for _ in range(3)]
    support = np.linspace(0.5, 1.0, GRID**2, dtype=np.float32)
    found = UnlabelledParts(parts, HOW, 2).lowered(support, queries, decisive=6)
    assert len(support) > FIRST_PATCHES
    assert found.max() < 1e-5


def test_fewer_than_m_bad_parts_explain_nothing() -> None:
    queries = part(4)
    others = [part(seed) for seed in range(10, 16)]
    bad = [[layer.copy() for layer in queries] for _ in range(2)]
    support = np.ones(GRID**2, dtype=np.float32)
    alone = UnlabelledParts(others, HOW, 3).lowered(support, queries, 6)
    with_two = UnlabelledParts([*others, *bad], HOW, 3).lowered(support, queries, 6)
    with_three = UnlabelledParts([*others, *bad, bad[0]], HOW, 3).lowered(support, queries, 6)
    assert with_two.max() > 0.5 * alone.max()
    assert with_three.max() < 1e-5


def test_a_part_is_scored_without_itself() -> None:
    parts = [part(seed) for seed in range(4)]
    support = np.ones(GRID**2, dtype=np.float32)
    own = UnlabelledParts(parts, HOW, 2).lowered(support, parts[1], 6, without=1)
    rest = UnlabelledParts([*parts[:1], *parts[2:]], HOW, 2).lowered(support, parts[1], 6)
    assert np.array_equal(own, rest)


def test_too_few_parts_change_nothing() -> None:
    support = np.ones(GRID**2, dtype=np.float32)
    parts = UnlabelledParts([part(1), part(2)], HOW, 2)
    assert np.array_equal(parts.lowered(support, part(1), 6, without=0), support)


def test_more_parts_must_agree_as_their_number_grows() -> None:
    assert [agreeing(count) for count in (1, 12, 24, 25, 48)] == [2, 2, 2, 3, 4]
    assert [agreeing(count, 1 / 4) for count in (4, 8, 12, 24)] == [2, 2, 3, 6]
