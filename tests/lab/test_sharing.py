"""Shared similarities give what each support set gives alone, for every lookup."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.encoders.encoder import ImageTokens
from hyperfsad.lab import sharing
from hyperfsad.lab.sharing import SharedMatcher
from hyperfsad.method.lookups import LOOKUPS, reconstruct
from hyperfsad.method.scoring import cls_score, cosines

SUBSETS = [(0,), (0, 3), (2, 1), (3, 1, 0, 2), (2,)]


def tokens(seed: int, spread: float, patches: int = 150) -> ImageTokens:
    """Patches around common directions: the smaller the spread, the larger the active sets."""
    common = np.random.default_rng(0).standard_normal((2, 1, 24), dtype=np.float32)
    noise = np.random.default_rng(seed + 1).standard_normal((2, patches, 24), dtype=np.float32)
    unit = common + spread * noise
    unit /= np.linalg.norm(unit, axis=-1, keepdims=True)
    return ImageTokens(tuple(unit), unit[:, 0])


def alone(
    image: ImageTokens, pool: list[ImageTokens], subset: tuple[int, ...], lookup: str
) -> NDArray[np.float32]:
    layers = []
    for layer, query in enumerate(image.patches):
        memory = np.concatenate([pool[i].patches[layer] for i in subset])
        rebuilt = reconstruct(query, memory, lookup)
        layers.append(1 - cosines(query, rebuilt))
    return np.stack(layers)


@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize("spread", [0.02, 0.3, 1.0, 3.0])
def test_every_subset_is_as_if_it_were_alone(spread: float, lookup: str) -> None:
    pool = [tokens(seed, spread) for seed in range(4)]
    image = tokens(9, spread)
    shared = SharedMatcher(pool).distances(image, SUBSETS, list(LOOKUPS))[lookup]
    for place, subset in enumerate(SUBSETS):
        expected = alone(image, pool, subset, lookup)
        assert np.allclose(shared[place], expected, atol=2e-6), subset


def test_few_candidates_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kept candidates do not suffice, all similarities are used: still exact."""
    monkeypatch.setattr(sharing, "SHARED_CANDIDATES", 3)
    monkeypatch.setattr(sharing, "MERGED_CANDIDATES", 5)
    pool = [tokens(seed, 0.3) for seed in range(4)]
    image = tokens(9, 0.3)
    shared = SharedMatcher(pool).distances(image, SUBSETS, ["sparsemax"])["sparsemax"]
    for place, subset in enumerate(SUBSETS):
        expected = alone(image, pool, subset, "sparsemax")
        assert np.allclose(shared[place], expected, atol=2e-6)


def test_the_cls_branch_of_a_subset() -> None:
    pool = [tokens(seed, 1.0) for seed in range(4)]
    image = tokens(9, 1.0)
    for subset in SUBSETS:
        memory = np.stack([pool[i].cls for i in subset])
        found = SharedMatcher(pool).cls_distances(image, subset)
        assert float(found.mean()) == pytest.approx(float(cls_score(image.cls, memory)), abs=1e-6)
