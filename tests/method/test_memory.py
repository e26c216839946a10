"""The memory bank keeps images in order and can be joined in any grouping."""

import torch

from hyperfsad.encoders.encoder import Tokens
from hyperfsad.images.loading import NormalImage
from hyperfsad.method.memory import MemoryBank


def bank(*seeds: int) -> MemoryBank:
    tokens = [torch.randn(1, 3, 4, 5, generator=torch.Generator().manual_seed(s)) for s in seeds]
    patches = torch.cat(tokens)
    return MemoryBank.of(
        Tokens(patches, patches[:, :, 0]),
        [NormalImage(str(seed), f"hash {seed}") for seed in seeds],
    )


def equal(first: MemoryBank, second: MemoryBank) -> bool:
    return (
        all(map(torch.equal, first.patches, second.patches))
        and torch.equal(first.cls, second.cls)
        and first.images == second.images
    )


def test_rows_are_image_after_image() -> None:
    both = bank(1, 2)
    assert len(both) == 2
    assert [layer.shape for layer in both.patches] == [(8, 5)] * 3
    assert torch.equal(both.patches[1][4:], bank(2).patches[1])
    assert both.cls.shape == (2, 3, 5)


def test_joining_in_turns_or_at_once_is_the_same() -> None:
    at_once = bank(1, 2, 3)
    assert equal(MemoryBank.joined([bank(1), bank(2, 3)]), at_once)
    assert equal(MemoryBank.joined([MemoryBank.joined([bank(1), bank(2)]), bank(3)]), at_once)


def test_leaving_one_out() -> None:
    assert equal(bank(1, 2, 3).without(1), bank(1, 3))
    assert equal(bank(1, 2, 3).without(2), bank(1, 2))


def test_views_of_an_image_count_once() -> None:
    turned = MemoryBank.joined([bank(1, 1, 1), bank(2, 2, 2)])
    assert len(turned) == 6
    assert turned.entries == [[0, 1, 2], [3, 4, 5]]
    assert turned.normal_images == bank(1, 2).images
    assert equal(turned.without(*turned.entries[0]), bank(2, 2, 2))
