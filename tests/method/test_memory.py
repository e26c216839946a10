"""The memory bank keeps images in order and can be joined in any grouping."""

import numpy as np

from hyperfsad.arrays import Array, to_numpy
from hyperfsad.encoders.encoder import Tokens
from hyperfsad.images.loading import NormalImage
from hyperfsad.method.memory import MemoryBank

from .kinds import Maker, every_kind, noise


def bank(*seeds: int, made: Maker = np.array) -> MemoryBank:
    patches = np.stack([noise(3, 4, 5, seed=seed) for seed in seeds])
    return MemoryBank.of(
        Tokens(made(patches), made(patches[:, :, 0])),
        [NormalImage(str(seed), f"hash {seed}") for seed in seeds],
    )


def same(first: Array, second: Array) -> bool:
    return np.array_equal(to_numpy(first), to_numpy(second))


def equal(first: MemoryBank, second: MemoryBank) -> bool:
    return (
        all(map(same, first.patches, second.patches))
        and same(first.cls, second.cls)
        and first.images == second.images
    )


@every_kind
def test_rows_are_image_after_image(made: Maker) -> None:
    both = bank(1, 2, made=made)
    assert len(both) == 2
    assert [layer.shape for layer in both.patches] == [(8, 5)] * 3
    assert same(both.patches[1][4:, :], bank(2).patches[1])
    assert same(both.patches_of(0)[2], bank(1).patches[2])
    assert equal(both.first(1), bank(1))
    assert equal(both.only(1), bank(2))
    assert same(both.tokens_of(1).patches[0, 2, :, :], bank(2).patches[2])
    assert both.cls.shape == (2, 3, 5)


@every_kind
def test_joining_in_turns_or_at_once_is_the_same(made: Maker) -> None:
    at_once = bank(1, 2, 3)
    two = [bank(1, made=made), bank(2, 3, made=made)]
    assert equal(MemoryBank.joined(two), at_once)
    assert not two
    assert equal(MemoryBank.joined([MemoryBank.joined([bank(1), bank(2)]), bank(3)]), at_once)


@every_kind
def test_leaving_one_out(made: Maker) -> None:
    assert equal(bank(1, 2, 3, made=made).without(1), bank(1, 3))
    assert equal(bank(1, 2, 3, made=made).without(2), bank(1, 2))


def test_views_of_an_image_count_once() -> None:
    turned = MemoryBank.joined([bank(1, 1, 1), bank(2, 2, 2)])
    assert len(turned) == 6
    assert turned.entries == [[0, 1, 2], [3, 4, 5]]
    assert turned.normal_images == bank(1, 2).images
    assert equal(turned.without(*turned.entries[0]), bank(2, 2, 2))


def test_half_the_room_is_taken_and_given_back() -> None:
    halved = bank(1, 2).half()
    assert {layer.dtype for layer in halved.patches} == {np.dtype(np.float16)}
    tokens = halved.tokens_of(1).patches
    assert tokens.dtype == np.dtype(np.float32)
    assert np.abs(tokens[0, 0] - bank(2).patches[0]).max() < 2e-3
