"""The two branches, their pooling and their fusion, against the formulas written out."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.arrays import to_numpy
from hyperfsad.errors import UsageError
from hyperfsad.method.scoring import (
    BRANCHES,
    BranchScores,
    ImageScoring,
    Pooling,
    branch_weights,
    cls_distances,
    cls_score,
    cls_similarities,
    patch_scores,
)
from tests.codes import raises

from .kinds import Maker, all_made, cosine, every_kind, noise
from .kinds import unit as normalised


def unit(*shape: int, seed: int) -> NDArray[np.float32]:
    return normalised(noise(*shape, seed=seed))


def random(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(3).random(count, dtype=np.float32)


@every_kind
def test_patch_scores_average_the_cosine_distance_over_layers(made: Maker) -> None:
    queries = [unit(5, 8, seed=0), unit(5, 8, seed=1)]
    rebuilt = [np.float32(0.3) * unit(5, 8, seed=2), unit(5, 8, seed=3)]
    expected = np.mean([1 - cosine(q, e) for q, e in zip(queries, rebuilt, strict=True)], axis=0)
    found = patch_scores(all_made(made, queries), all_made(made, rebuilt))
    assert type(found) is type(made(queries[0]))
    assert to_numpy(found) == pytest.approx(expected, abs=1e-6)


@every_kind
def test_a_patch_that_nothing_rebuilds_is_as_far_as_can_be(made: Maker) -> None:
    query, nothing = made(unit(3, 8, seed=0)), made(np.zeros((3, 8), dtype=np.float32))
    assert to_numpy(patch_scores([query], [nothing])).tolist() == [1, 1, 1]


@every_kind
def test_a_perfect_reconstruction_scores_zero_and_never_less(made: Maker) -> None:
    queries = [made(unit(2000, 8, seed=4))]
    scores = to_numpy(patch_scores(queries, queries))
    assert (scores >= 0).all()
    assert scores.max() < 1e-6


@every_kind
def test_cls_score_takes_the_nearest_support_of_each_layer(made: Maker) -> None:
    query, memory = unit(3, 8, seed=5), unit(4, 3, 8, seed=6)
    expected = sum(
        1 - max(float(query[layer] @ memory[k, layer]) for k in range(4)) for layer in range(3)
    )
    found = float(cls_score(made(query), made(memory)))
    assert found == pytest.approx(expected / 3, abs=1e-6)
    assert float(cls_score(made(memory[2]), made(memory))) == pytest.approx(0, abs=1e-6)


@every_kind
def test_cls_similarities_are_those_of_several_images_too(made: Maker) -> None:
    queries, memory = unit(5, 3, 8, seed=5), unit(4, 3, 8, seed=6)
    found = to_numpy(cls_similarities(made(queries), made(memory)))
    expected = np.einsum("nld,kld->nkl", queries, memory)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[("max", 16.0), ("top-1", 16.0), ("top-4", 14.5), ("top-99", 8.5)],
        *[("top-25%", 14.5), ("top-1%", 16.0), ("top-100%", 8.5), ("top-12.5%", 15.5)],
    ],
)
@every_kind
def test_pooling(made: Maker, name: str, expected: float) -> None:
    anomaly_map = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    assert float(Pooling.parse(name)(made(anomaly_map))) == expected


@pytest.mark.parametrize(
    "name", ["", "mean", "top", "top-0", "top-0%", "top-101%", "top-1.5", "-1"]
)
def test_unknown_pooling_is_refused(name: str) -> None:
    with raises(UsageError, "pooling-unknown", given=name):
        Pooling.parse(name)


@pytest.mark.parametrize(("lam", "expected"), [(0.5, 0.25), (1.0, 0.4), (0.0, 0.1), (0.2, 0.16)])
def test_the_image_score_is_the_weighted_sum_of_the_branches(lam: float, expected: float) -> None:
    branches = BranchScores({"map": 0.4, "cls": 0.1}, branch_weights(lam))
    assert branches.total == pytest.approx(expected)
    assert list(branches.values) == list(branch_weights(lam)) == ["map", "cls"]
    higher = branches.with_values(map=0.5)
    assert higher.total == pytest.approx(expected + 0.1 * lam)
    assert higher.values["cls"] == 0.1


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_missing_pieces_add_to_the_paper_s_branches(lam: float) -> None:
    weights = branch_weights(lam, missing=0.2)
    assert list(weights) == list(BRANCHES)
    patches, query, memory = random(36), unit(3, 8, seed=7), unit(4, 3, 8, seed=8)
    plain = ImageScoring(Pooling.parse("max"), branch_weights(lam))(patches, query, memory)
    found = ImageScoring(Pooling.parse("max"), weights)(patches, query, memory, 1.5)
    assert found.values == {**plain.values, "missing": 1.5}
    assert found.total == pytest.approx(plain.total + 0.3)
    for wrong in (-0.1, 10.5, float("nan")):
        with raises(UsageError, "missing-range", given=wrong):
            branch_weights(lam, missing=wrong)


def test_both_branches_come_from_the_tokens() -> None:
    patches, query, memory = random(36), unit(3, 8, seed=7), unit(4, 3, 8, seed=8)
    found = ImageScoring(Pooling.parse("top-4"), branch_weights(0.3))(patches, query, memory)
    score_map = float(np.sort(patches)[-4:].mean())
    score_cls = float(cls_distances(query, memory).mean())
    assert found.values == pytest.approx({"map": score_map, "cls": score_cls})
    assert found.total == pytest.approx(0.3 * score_map + 0.7 * score_cls)
    with raises(UsageError, "lambda-range", given=1.5):
        branch_weights(1.5)


def test_only_branches_with_a_weight_are_computed_and_none_is_forgotten() -> None:
    patches, query, memory = random(36), unit(3, 8, seed=7), unit(4, 3, 8, seed=8)
    found = ImageScoring(Pooling.parse("max"), {"map": 2.0})(patches, query, memory)
    assert found.values == {"map": float(patches.max())}
    assert found.total == 2 * float(patches.max())
    with pytest.raises(ValueError, match="have weights of"):
        BranchScores({"map": 0.4}, branch_weights(0.5))


def test_a_share_may_be_one_of_another_number_of_patches() -> None:
    values = np.arange(100.0)
    assert float(Pooling.parse("top-10%")(values)) == 94.5
    assert float(Pooling.parse("top-10%")(values, patches=20)) == 98.5
    assert float(Pooling.parse("top-3")(values, patches=20)) == 98.0
