"""Missing pieces: found where they should be, wherever the part lies, and never in a good part."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from hyperfsad.arrays import to_numpy
from hyperfsad.method.missing import (
    COMPARED_PARTS,
    MAX_EXCESS,
    MIN_DIFFERENCE,
    MIN_SHOWN,
    MOTION_WINDOW,
    PLACE_WINDOW,
    RESIDUAL_FLOOR,
    SEARCH_REACH,
    SHIFT_SHARE,
    VARIATION_PARTS,
    VARIATION_WINDOW,
    Missing,
    MissingPieces,
    median_around,
    missing_weight,
)

from .kinds import Maker, every_kind, noise, unit

GRID = 12
WIDTH = 24

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


@every_kind
@pytest.mark.parametrize("grid", [1, 2, 5, 32])
def test_the_median_around_a_patch_is_the_median(made: Maker, grid: int) -> None:
    """Of whole numbers, mirrored at the borders."""
    moves = np.random.default_rng(3).integers(-grid, grid + 1, size=grid * grid)
    reach = min(MOTION_WINDOW // 2, grid - 1)
    wide = np.pad(moves.reshape(grid, grid), reach, "reflect")
    expected = [
        np.median(wide[row : row + 2 * reach + 1, column : column + 2 * reach + 1])
        for row in range(grid)
        for column in range(grid)
    ]
    assert to_numpy(median_around(made(moves), grid)).tolist() == expected
    both = made(np.stack([moves, -moves]))
    assert to_numpy(median_around(both, grid)).tolist()[0] == expected


def scene(seed: int = 0, grid: int = GRID) -> Floats:
    """A background that changes smoothly from place to place, so that places can be told apart."""
    return np.stack(
        [
            np.asarray(Image.fromarray(coarse).resize((grid, grid), Image.Resampling.BICUBIC))
            for coarse in noise(WIDTH, 4, 4, seed=seed)
        ],
        axis=-1,
    )


def piece(seed: int = 2, side: int = 2) -> Floats:
    return 4 * noise(side, side, WIDTH, seed=seed)


def photographed(part: Floats, seed: int) -> Floats:
    """The tokens of a picture of a part: with a little noise, unit, (N, D)."""
    return unit((part + np.float32(0.02) * noise(*part.shape, seed=seed)).reshape(-1, WIDTH))


def with_pieces(part: Floats, places: list[tuple[int, int]], shape: Floats) -> Floats:
    part = part.copy()
    side = len(shape)
    for row, column in places:
        part[row : row + side, column : column + side] = shape
    return part


def token_of(tokens: Floats) -> Floats:
    return unit(tokens.mean(axis=0))


def fitted(
    images: list[Floats], kept: list[Mask | None] | None = None, made: Maker = np.asarray
) -> MissingPieces:
    cls = np.stack([token_of(image) for image in images])
    grid = math.isqrt(len(images[0]))
    masks = [None if mask is None else made(mask) for mask in kept or [None] * len(images)]
    return MissingPieces([made(image) for image in images], made(cls), grid, masks)


def asked(pieces: MissingPieces, image: Floats, made: Maker = np.asarray) -> Missing:
    return pieces.find(made(image), made(token_of(image)))


# The reference: every step in loops over lists of float64, as the sentences of the module say.


def reference_looked_for(part: Floats, image: Floats, grid: int) -> tuple[list[float], list[int]]:
    alike = (part.astype(np.float64) @ image.astype(np.float64).T).tolist()
    moves = []
    for place, row in enumerate(alike):
        found = max(range(len(row)), key=lambda q, row=row: row[q])  # type: ignore[misc]
        moves.append((found // grid - place // grid, found % grid - place % grid))
    half = min(MOTION_WINDOW // 2, grid - 1)

    def mirrored(place: int) -> int:
        place = abs(place)
        return 2 * (grid - 1) - place if place >= grid else place

    residuals, expected = [], []
    for row in range(grid):
        for column in range(grid):
            near = [
                moves[mirrored(row + down) * grid + mirrored(column + across)]
                for down in range(-half, half + 1)
                for across in range(-half, half + 1)
            ]
            middle = [sorted(move[axis] for move in near)[len(near) // 2] for axis in (0, 1)]
            moved = [place + move for place, move in zip((row, column), middle, strict=True)]
            there = [min(max(place, 0), grid - 1) for place in moved]
            best = max(
                alike[row * grid + column][
                    min(max(there[0] + down, 0), grid - 1) * grid
                    + min(max(there[1] + across, 0), grid - 1)
                ]
                for down in range(-SEARCH_REACH, SEARCH_REACH + 1)
                for across in range(-SEARCH_REACH, SEARCH_REACH + 1)
            )
            residuals.append(max(1 - best, 0.0) if moved == there else 0.0)
            expected.append(there[0] * grid + there[1])
    return residuals, expected


def reference_shifted(patches: Floats, grid: int) -> list[float]:
    cells = patches.astype(np.float64).reshape(grid, grid, -1)
    found = []
    for row in range(grid):
        for column in range(grid):
            beside = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
            unlike = [
                1 - float(cells[row, column] @ cells[place])
                for place in beside
                if 0 <= place[0] < grid and 0 <= place[1] < grid
            ]
            found.append(SHIFT_SHARE * sum(unlike) / len(unlike))
    return found


def reference_variation(images: list[Floats], number: int, grid: int) -> list[float]:
    others = [image for place, image in enumerate(images) if place != number][:VARIATION_PARTS]
    each = [reference_looked_for(images[number], other, grid)[0] for other in others]
    each.append(reference_shifted(images[number], grid))
    worst = [max(values) for values in zip(*each, strict=True)]
    half = VARIATION_WINDOW // 2
    return [
        max(
            worst[y * grid + x]
            for y in range(max(row - half, 0), min(row + half + 1, grid))
            for x in range(max(column - half, 0), min(column + half + 1, grid))
        )
        for row in range(grid)
        for column in range(grid)
    ]


def reference_on_map(excess: list[float], expected: list[int], grid: int) -> list[float]:
    """Of one good part: the most that is missed at each place or beside it."""
    shown = [max((value - MIN_SHOWN) / (MAX_EXCESS - MIN_SHOWN), 0.0) for value in excess]
    half = PLACE_WINDOW // 2
    return [
        max(
            (
                value
                for value, there in zip(shown, expected, strict=True)
                if abs(there // grid - place // grid) <= half
                and abs(there % grid - place % grid) <= half
            ),
            default=0.0,
        )
        for place in range(grid**2)
    ]


def reference_find(
    images: list[Floats], image: Floats, grid: int
) -> tuple[float, int, list[float], list[int], list[float]]:
    own = token_of(image).astype(np.float64)
    likeness = [float(token_of(part).astype(np.float64) @ own) for part in images]
    nearest = sorted(range(len(images)), key=lambda number: -likeness[number])[:COMPARED_PARTS]
    found, maps = [], []
    for number in nearest:
        residuals, expected = reference_looked_for(images[number], image, grid)
        usual = reference_variation(images, number, grid)
        excess = [
            min((r - b) / (b + RESIDUAL_FLOOR), MAX_EXCESS)
            for r, b in zip(residuals, usual, strict=True)
        ]
        count = math.ceil(0.02 * len(excess))
        score = max(sum(sorted(excess)[-count:]) / count, 0.0)
        found.append((score, number, excess, expected))
        maps.append(reference_on_map(excess, expected, grid))
    return (*min(found), [min(values) for values in zip(*maps, strict=True)])


@every_kind
@pytest.mark.parametrize("count", [2, 3, 6])
def test_it_is_what_the_sentences_say(made: Maker, count: int) -> None:
    grid = 8
    images = [photographed(with_pieces(scene(2, grid), [(3, 4)], piece()), n) for n in range(count)]
    images[-1] = photographed(scene(3, grid), 9)  # one good part is quite another
    pieces = fitted(images, made=made)
    for number in range(count):
        usual = to_numpy(pieces.variation(number)).tolist()
        assert usual == pytest.approx(reference_variation(images, number, grid), abs=1e-5)
    for query in (photographed(scene(2, grid), 50), photographed(scene(5, grid), 51)):
        found = asked(pieces, query, made)
        score, number, excess, expected, on_map = reference_find(images, query, grid)
        assert found.image == number
        assert found.score == pytest.approx(score, abs=1e-3)
        own, there = to_numpy(found.excess), to_numpy(found.expected)
        assert own.tolist() == pytest.approx(excess, abs=2e-3)
        assert there.tolist() == expected
        assert to_numpy(found.on_map).tolist() == pytest.approx(on_map, abs=5e-3)
        for place in range(grid**2):
            near = [
                patch
                for patch in range(grid**2)
                if own[patch] > MIN_SHOWN
                and abs(there[patch] // grid - place // grid) <= 1
                and abs(there[patch] % grid - place % grid) <= 1
            ]
            source = found.source_at(place, grid)
            assert (source is None) == (not near)
            assert source is None or own[source] == max(own[patch] for patch in near)


@pytest.mark.parametrize("shift", [(0, 0), (2, 1), (-1, -3)])
def test_a_piece_that_was_cut_out_is_found_where_it_should_be(shift: tuple[int, int]) -> None:
    """A part in the middle of a calm ground, of which a shifted picture shows all."""
    side, margin = 16, 4
    ground = 3 + 0.3 * scene(1, side + 2 * margin)
    ground[9:15, 9:15] += 3 * scene(0, 6)
    complete = with_pieces(ground, [(11, 12)], piece())

    def photo(part: Floats, seed: int, down: int = 0, across: int = 0) -> Floats:
        top, left = margin - down, margin - across
        return photographed(part[top : top + side, left : left + side], seed)

    pieces = fitted([photo(complete, seed) for seed in range(3)])
    good, bad = asked(pieces, photo(complete, 20, *shift)), asked(pieces, photo(ground, 20, *shift))
    assert bad.score > 3 * good.score
    assert bad.score > MIN_SHOWN
    own = {(7 + down, 8 + across) for down in (0, 1) for across in (0, 1)}
    worst = divmod(int(bad.excess.argmax()), side)
    assert worst in own
    shown = bad.on_map.reshape(side, side)
    assert all(shown[row + shift[0], column + shift[1]] > 0 for row, column in own)
    assert (good.on_map == 0).all()
    around = {
        (r + down, c + across) for r, c in own for down in (-1, 0, 1) for across in (-1, 0, 1)
    }
    lit = {(int(r) - shift[0], int(c) - shift[1]) for r, c in zip(*shown.nonzero(), strict=True)}
    assert lit <= around
    source = bad.source_at((worst[0] + shift[0]) * side + worst[1] + shift[1], side)
    assert source is not None
    assert divmod(source, side) == worst
    assert float(bad.similarity[source]) < 0.9
    assert bad.source_at(0, side) is None


def test_one_of_four_equal_pieces_is_missed() -> None:
    """The other three are just like it, but not near."""
    places = [(1, 1), (1, 9), (9, 1), (9, 9)]
    background = scene(4)
    whole = with_pieces(background, places, piece())
    pieces = fitted([photographed(whole, seed) for seed in range(3)])
    lacking = photographed(with_pieces(background, places[:3], piece()), 30)
    found = asked(pieces, lacking)
    assert found.score > 1.5 * MIN_SHOWN
    worst = int(found.excess.argmax())
    assert divmod(worst, GRID) in {(9, 9), (9, 10), (10, 9), (10, 10)}
    anywhere = float((lacking @ pieces.images[found.image][worst]).max())
    assert anywhere > 0.95 > float(found.similarity[worst])
    assert asked(pieces, photographed(whole, 31)).score < found.score / 3


def test_what_varies_among_good_parts_is_not_missed() -> None:
    """A label that half of the good parts have need not be there."""
    plain, labelled = scene(0), with_pieces(scene(0), [(5, 5)], piece())
    support = [photographed(part, seed) for seed, part in enumerate((plain, labelled) * 2)]
    assert asked(fitted(support), photographed(plain, 40)).score < MIN_SHOWN


def test_what_is_not_kept_is_not_missed() -> None:
    whole = with_pieces(scene(0), [(5, 6)], piece())
    images = [photographed(whole, seed) for seed in range(2)]
    inside = np.ones((GRID, GRID), dtype=bool)
    inside[4:8, 5:9] = False
    kept: list[Mask | None] = [inside.flatten()] * 2
    query = photographed(scene(0), 20)
    everywhere, masked = asked(fitted(images), query), asked(fitted(images, kept), query)
    assert everywhere.score > 1.5 * MIN_SHOWN > MIN_SHOWN > masked.score
    assert (masked.excess[~inside.flatten()] == 0).all()
    assert (masked.on_map == 0).all()
    nowhere: list[Mask | None] = [np.zeros(GRID**2, dtype=bool)] * 2
    assert asked(fitted(images, nowhere), query).score == 0


def test_near_copies_count_little() -> None:
    part = with_pieces(scene(0), [(5, 5)], piece())
    copies = fitted([unit(part + 1e-3 * noise(*part.shape, seed=8)).reshape(-1, WIDTH)] * 4)
    others = fitted([photographed(scene(seed), seed) for seed in range(4)])
    assert copies.difference() < 0.02
    assert others.difference() > MIN_DIFFERENCE
    assert missing_weight(0.2, 4, copies.difference()) < 0.1 * missing_weight(0.2, 4)
    assert missing_weight(0.2, 4, others.difference()) == missing_weight(0.2, 4)


def test_one_good_part_does_not_count_and_many_count_fully() -> None:
    assert missing_weight(0.2, 1) == 0
    weights = [missing_weight(0.2, images) for images in range(1, 50)]
    assert weights == sorted(weights)
    assert missing_weight(0.2, 2) == pytest.approx(0.1)
    assert missing_weight(0.2, 10**9) == pytest.approx(0.2)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.integers(2, 6), st.integers(0, 10**6), st.floats(0, 2))
def test_nothing_is_missing_in_a_good_part(grid: int, count: int, seed: int, spread: float) -> None:
    random = np.random.default_rng(seed)
    part = random.standard_normal((grid**2, WIDTH))
    images = [unit(part + spread * random.standard_normal(part.shape)) for _ in range(count)]
    pieces = fitted(images)
    for image in images:
        found = asked(pieces, image)
        assert found.score == 0
        assert (found.on_map == 0).all()
    stranger = unit(random.standard_normal(part.shape))
    found = asked(pieces, stranger)
    assert found.score >= 0
    assert np.isfinite(found.excess).all()
    assert ((found.on_map >= 0) & (found.on_map <= 1)).all()


def test_the_map_does_not_jump_where_another_good_part_fits_better() -> None:
    """From a picture that is nearest to one good part to one that is nearest to another, in small
    steps, both without a piece that both good parts have."""
    whole, lacking = with_pieces(scene(0), [(5, 5)], piece()), scene(0)
    other = 0.6 * noise(*whole.shape, seed=3)
    supports = [photographed(whole, 0), photographed(whole + other, 1), photographed(whole, 2)]
    pieces = fitted(supports)
    ends = photographed(lacking, 4), photographed(lacking + other, 4)
    path = [unit((1 - share) * ends[0] + share * ends[1]) for share in np.linspace(0, 1, 101)]
    found = [asked(pieces, image) for image in path]
    assert len({one.image for one in found}) > 1
    assert max(float(one.on_map.max()) for one in found) > 0.5
    steps = [float(np.abs(one.on_map - two.on_map).max()) for one, two in pairwise(found)]
    assert max(steps) < 0.1
