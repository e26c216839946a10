"""Distances at each scale and sharpness equal the formulas."""

from typing import Any

import pytest
import torch
from torch import Tensor

from hyperfsad.encoders.tokens import Tokens
from hyperfsad.errors import UsageError
from hyperfsad.images.loading import NormalImage
from hyperfsad.method import pruning
from hyperfsad.method.lookups import LOOKUPS
from hyperfsad.method.matching import (
    Comparison,
    Matcher,
    at_scale,
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
def test_distances_at_both_scales(
    lookup: str, sharpness: float, worthwhile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "WORTHWHILE", worthwhile)
    memory, query = bank(3), list(tokens(1, 1)[0])
    found = Matcher(memory.patches, Comparison(GRID, lookup, sharpness, (1, 3))).distances(query)
    assert found.shape == (2, GRID**2)
    for place, scale in enumerate((1, 3)):
        expected = torch.stack(
            [
                by_the_formula(
                    at_scale(layer, GRID, scale), at_scale(rows, GRID, scale), lookup, sharpness
                )
                for layer, rows in zip(query, memory.patches, strict=True)
            ]
        ).mean(dim=0)
        assert (found[place] - expected).abs().max() < 1e-5


def test_sharper_means_fewer_normal_patches() -> None:
    similarities = tokens(1, 1)[0, 0] @ bank(3).patches[0].T
    active = [(LOOKUPS["sparsemax"](s * similarities) > 0).sum() for s in (1.0, 4.0, 16.0)]
    assert active[0] > active[1] > active[2] >= GRID**2


def test_an_image_that_is_remembered_is_closer_than_one_that_is_left_out() -> None:
    memory, how = bank(3), Comparison(GRID, sharpness=16.0, scales=(1, 3))
    own = memory.patches_of(1)
    left_out = Matcher(memory.without(1).patches, how).distances(own)
    assert Matcher(memory.patches, how).distances(own).mean() < 0.2 * left_out.mean()


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_what_is_too_near_has_no_part_in_the_reconstruction(lookup: str) -> None:
    """As if the rows that share pixels with a patch were not in the memory."""
    memory, how = bank(1), Comparison(GRID, lookup, 16.0, (1, 3))
    places = torch.cartesian_prod(torch.arange(GRID), torch.arange(GRID))
    apart = (places[:, None] - places[None]).abs().amax(dim=-1)
    layers = [how.tokens(memory.patches, scale) for scale in how.scales]
    found = distances_apart(layers, layers, apart, how)
    for place, (scale, tokens) in enumerate(zip(how.scales, layers, strict=True)):
        for patch in (0, 17, GRID**2 - 1):
            far = apart[patch] > scale
            expected = torch.stack(
                [by_the_formula(one[patch][None], one[far], lookup, 16.0) for one in tokens]
            ).mean()
            tolerance = 1e-5 if lookup not in ("softmax", "top-p") else 5e-3
            assert float(found[place, patch]) == pytest.approx(float(expected), abs=tolerance)


def test_patches_that_are_not_kept_are_not_compared() -> None:
    memory, query = bank(2), list(tokens(1, 1)[0])
    how = Comparison(GRID, scales=(1, 3))
    kept = torch.arange(GRID**2) % 3 == 0
    rows = kept.repeat(2)
    found = Matcher(memory.patches, how, rows).distances(query, kept)
    assert (found[:, ~kept] == 0).all()
    other = [torch.where(kept[:, None], layer, layer.flip(0)) for layer in query]
    assert torch.equal(Matcher(memory.patches, how, rows).distances(other, kept), found)


@pytest.mark.parametrize(
    "options", [{"lookup": "best"}, {"sharpness": 0.0}, {"scales": ()}, {"scales": (1, 2)}]
)
def test_what_cannot_be_compared_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Comparison(GRID, **options)


def test_the_average_is_the_sum_written_out() -> None:
    grid, width = 4, 6
    tokens = torch.randn(2 * grid**2, width, generator=torch.Generator().manual_seed(0))
    found = at_scale(tokens, grid, 3).reshape(2, grid, grid, width)
    for image, maps in enumerate(tokens.reshape(2, grid, grid, width)):
        for row in range(grid):
            for column in range(grid):
                total = torch.zeros(width)
                for down in (-1, 0, 1):
                    for right in (-1, 0, 1):
                        y, x = row + down, column + right
                        if 0 <= y < grid and 0 <= x < grid:
                            total += (2 - abs(down)) * (2 - abs(right)) * maps[y, x]
                expected = torch.nn.functional.normalize(total, dim=0)
                assert torch.allclose(found[image, row, column], expected, atol=1e-6)


def test_the_finest_scale_is_the_patch_itself() -> None:
    tokens = torch.randn(9, 5)
    assert at_scale(tokens, 3, 1) is tokens


def test_one_patch_has_no_neighbours() -> None:
    tokens = torch.nn.functional.normalize(torch.randn(3, 5), dim=1)
    assert torch.allclose(at_scale(tokens, 1, 3), tokens)


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
