"""Distances at each sharpness equal the formulas."""

from typing import Any

import pytest
import torch
from torch import Tensor

from hyperfsad.encoders.encoder import Tokens
from hyperfsad.errors import UsageError
from hyperfsad.images.loading import NormalImage
from hyperfsad.method import matching
from hyperfsad.method.lookups import LOOKUPS
from hyperfsad.method.matching import (
    Comparison,
    Matcher,
    distances_apart,
    smoothed,
)
from hyperfsad.method.memory import MemoryBank

GRID = 12


def tokens(images: int, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    part = torch.randn(1, 2, GRID**2, 48, generator=random)
    noise = torch.randn(images, 2, GRID**2, 48, generator=random)
    return torch.nn.functional.normalize(part + 0.7 * noise, dim=-1)


def bank(images: int) -> MemoryBank:
    patches = tokens(images, 0)
    names = [NormalImage(str(index), str(index)) for index in range(images)]
    return MemoryBank.of(Tokens(patches, patches[:, :, 0]), names)


def by_the_formula(queries: Tensor, memory: Tensor, lookup: str, sharpness: float) -> Tensor:
    weights = LOOKUPS[lookup](sharpness * queries.double() @ memory.double().T)
    return 1 - torch.cosine_similarity(queries.double(), weights @ memory.double(), dim=-1)


@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize("sharpness", [0.5, 1.0, 16.0])
@pytest.mark.parametrize("worthwhile", [0, 10**9])
def test_distances_are_those_of_the_formula(
    lookup: str, sharpness: float, worthwhile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "MIN_PRUNED_ROWS", worthwhile)
    memory, query = bank(3), list(tokens(1, 1)[0])
    found = Matcher(memory.patches, Comparison(GRID, lookup, sharpness)).distances(query)
    assert found.shape == (GRID**2,)
    expected = torch.stack(
        [
            by_the_formula(layer, rows, lookup, sharpness)
            for layer, rows in zip(query, memory.patches, strict=True)
        ]
    ).mean(dim=0)
    assert (found - expected).abs().max() < 1e-5


def test_sharper_means_fewer_normal_patches() -> None:
    similarities = tokens(1, 1)[0, 0] @ bank(3).patches[0].T
    active = [(LOOKUPS["sparsemax"](s * similarities) > 0).sum() for s in (1.0, 4.0, 16.0)]
    assert active[0] > active[1] > active[2] >= GRID**2


def test_an_image_that_is_remembered_is_closer_than_one_that_is_left_out() -> None:
    memory, how = bank(3), Comparison(GRID, sharpness=16.0)
    own = memory.patches_of(1)
    left_out = Matcher(memory.without(1).patches, how).distances(own)
    assert Matcher(memory.patches, how).distances(own).mean() < 0.2 * left_out.mean()


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_what_is_too_near_has_no_part_in_the_reconstruction(lookup: str) -> None:
    """As if the rows that share pixels with a patch were not in the memory."""
    memory, how = bank(1), Comparison(GRID, lookup, 16.0)
    places = torch.cartesian_prod(torch.arange(GRID), torch.arange(GRID))
    apart = (places[:, None] - places[None]).abs().amax(dim=-1)
    found = distances_apart(memory.patches, memory.patches, apart, how)
    for patch in (0, 17, GRID**2 - 1):
        far = apart[patch] > 1
        expected = torch.stack(
            [by_the_formula(one[patch][None], one[far], lookup, 16.0) for one in memory.patches]
        ).mean()
        tolerance = 1e-5 if lookup not in ("softmax", "top-p") else 5e-3
        assert float(found[patch]) == pytest.approx(float(expected), abs=tolerance)


def test_patches_that_are_not_kept_are_not_compared() -> None:
    memory, query = bank(2), list(tokens(1, 1)[0])
    how = Comparison(GRID)
    kept = torch.arange(GRID**2) % 3 == 0
    rows = kept.repeat(2)
    found = Matcher(memory.patches, how, rows).distances(query, kept)
    assert (found[~kept] == 0).all()
    other = [torch.where(kept[:, None], layer, layer.flip(0)) for layer in query]
    assert torch.equal(Matcher(memory.patches, how, rows).distances(other, kept), found)


@pytest.mark.parametrize("options", [{"lookup": "best"}, {"sharpness": 0.0}])
def test_what_cannot_be_compared_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Comparison(GRID, **options)


@pytest.mark.parametrize("masked", [False, True])
def test_a_smoothed_map_is_the_mean_of_its_neighbours(masked: bool) -> None:
    grid = 5
    values = torch.rand(grid * grid, generator=torch.Generator().manual_seed(2))
    kept = torch.arange(grid * grid) % 4 != 1
    found = smoothed(values, grid, kept if masked else None).reshape(grid, grid)
    for row in range(grid):
        for column in range(grid):
            total = weight = 0.0
            for down in (-1, 0, 1):
                for across in (-1, 0, 1):
                    place = (row + down) * grid + column + across
                    inside = 0 <= row + down < grid and 0 <= column + across < grid
                    if inside and (kept[place] or not masked):
                        share = (2 - abs(down)) * (2 - abs(across))
                        total += share * float(values[place])
                        weight += share
            alone = masked and not kept[row * grid + column]
            expected = 0.0 if alone else total / weight
            assert float(found[row, column]) == pytest.approx(expected, abs=1e-6)
