"""The drawn parts: deterministic, varied, and defects that change nothing but their mask."""

import numpy as np
import pytest

from hyperfsad.demo.drawing import PRODUCTS, draw


@pytest.mark.parametrize("product", PRODUCTS)
def test_the_same_seed_draws_the_same_part_and_others_draw_others(product: str) -> None:
    pictures = [np.asarray(draw(product, seed=seed).image).astype(int) for seed in (1, 1, 2, 3)]
    assert (pictures[0] == pictures[1]).all()
    assert pictures[0].shape == (512, 512, 3)
    for other in pictures[2:]:
        assert np.abs(pictures[0] - other).mean() > 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("product", "defect"), [(p, d) for p, all_ in PRODUCTS.items() for d in all_]
)
def test_a_defect_changes_its_mask_and_nothing_else(product: str, defect: str, seed: int) -> None:
    good, bad = draw(product, seed=seed), draw(product, seed=seed, defect=defect)
    change = (np.asarray(good.image) != np.asarray(bad.image)).any(axis=2)
    assert not good.mask.any()
    assert 0.0002 < bad.mask.mean() < 0.1
    assert not change[~bad.mask].any()
    assert change[bad.mask].mean() > 0.2
