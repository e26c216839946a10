"""Distances at each scale and sharpness equal the formulas."""

from typing import Any

import pytest
import torch
from torch import Tensor

from hyperfsad.encoders.tokens import Tokens
from hyperfsad.errors import UsageError
from hyperfsad.images.loading import NormalImage
from hyperfsad.method import pruning
from hyperfsad.method.matcher import Comparison, Matcher, left_out
from hyperfsad.method.matching import LOOKUPS
from hyperfsad.method.memory import MemoryBank
from hyperfsad.method.scales import at_scale

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
    found = Matcher(memory, Comparison(GRID, lookup, sharpness, (1, 3))).distances(query)
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


def test_an_image_left_out_is_compared_with_the_others_alone() -> None:
    memory, how = bank(3), Comparison(GRID, sharpness=16.0, scales=(1, 3))
    own = [layer[GRID**2 : 2 * GRID**2] for layer in memory.patches]
    expected = Matcher(memory.without(1), how).distances(own)
    assert torch.equal(left_out(memory, [1], how), expected)
    assert Matcher(memory, how).distances(own).mean() < 0.2 * expected.mean()


@pytest.mark.parametrize(
    "options", [{"lookup": "best"}, {"sharpness": 0.0}, {"scales": ()}, {"scales": (1, 2)}]
)
def test_what_cannot_be_compared_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Comparison(GRID, **options)
