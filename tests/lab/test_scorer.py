"""A support set out of the pool of all support images gives what it gives alone."""

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.encoders.encoder import ImageTokens
from hyperfsad.lab.scorer import SupportPool
from hyperfsad.method.lookups import LOOKUPS, reconstruct
from hyperfsad.method.scoring import cls_score, cosines

SUBSETS = [(0,), (0, 3), (2, 1), (3, 1, 0, 2), (2,)]


def tokens(seed: int, spread: float, patches: int = 400) -> ImageTokens:
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
    together = SupportPool(pool, list(LOOKUPS))
    for subset in SUBSETS:
        found = np.stack(together.distances(image, subset, lookup))
        # rounding may swap two rows at the edge of top-p
        assert np.allclose(found, alone(image, pool, subset, lookup), atol=2e-5), subset


def test_the_cls_branch_of_a_subset() -> None:
    pool = [tokens(seed, 1.0) for seed in range(4)]
    image = tokens(9, 1.0)
    for subset in SUBSETS:
        memory = np.stack([pool[i].cls for i in subset])
        found = SupportPool(pool, []).cls_distances(image, subset)
        assert float(found.mean()) == pytest.approx(float(cls_score(image.cls, memory)), abs=1e-6)
