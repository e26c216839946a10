"""The image as a whole: what it is compared with, and good parts among themselves."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad.decisions.roi import RegionOfInterest, make_region
from hyperfsad.encoders import EncoderSettings
from hyperfsad.encoders.encoder import ImageTokens, Tokens
from hyperfsad.images.loading import NormalImage
from hyperfsad.method.lookups import LOOKUPS
from hyperfsad.method.matching import Comparison, MemoryLayer
from hyperfsad.method.memory import MemoryBank
from hyperfsad.method.scoring import ImageScoring, Pooling, branch_weights
from hyperfsad.views import ViewSettings
from hyperfsad.views.whole import CLEARLY_BETTER, WholeView
from tests.tokens import unit

SETTINGS = EncoderSettings("none", (1, 2), 84, 14, (0.5,) * 3, (0.2,) * 3, False)


def bank(images: int, noise: float, calm: float = 0.0) -> MemoryBank:
    """Images that show the same thing, but for some noise; `calm` makes their patches alike."""
    random = np.random.default_rng(0)
    part = random.standard_normal((1, 2, 36, 16)) + calm
    patches = unit(part + noise * random.standard_normal((images, 2, 36, 16)))
    names = [NormalImage(str(index), str(index)) for index in range(images)]
    return MemoryBank.of(Tokens(patches, patches[:, :, 0]), names)


def normal_peak(memory: MemoryBank, how: Comparison) -> float:
    """The highest peak of a map of good parts, each left out, or of a lone one by itself."""
    rules = ViewSettings(SETTINGS, how, ImageScoring(Pooling.parse("max"), branch_weights(0.5)))
    found = WholeView(rules, RegionOfInterest()).fitted(memory).leave_one_out()
    return max(found.peaks or found.self_distances)


def test_each_image_is_left_out_of_its_own_memory() -> None:
    assert normal_peak(bank(2, 0.0), Comparison(6, "top-1")) < 1e-5  # a twin explains everything
    assert normal_peak(bank(2, 5.0), Comparison(6, "top-1")) > 0.1  # a stranger does not
    assert normal_peak(bank(4, 0.05), Comparison(6)) < normal_peak(bank(4, 0.5), Comparison(6)) < 1


@pytest.mark.parametrize(
    "how",
    [*(Comparison(6, lookup) for lookup in LOOKUPS), Comparison(6, sharpness=16)],
)
def test_a_lone_image_is_never_explained_by_the_patch_itself(how: Comparison) -> None:
    assert normal_peak(bank(1, 0.1), how) > 0.1


def turning(images: int, rotations: int, seed: int = 1) -> MemoryBank:
    """Images in several orientations, each quite different from the others."""
    shape = images * rotations, 2, 37, 16
    tokens = unit(np.random.default_rng(seed).standard_normal(shape))
    names = [NormalImage(str(n), str(n), (84, 84)) for n in range(images) for _ in range(rotations)]
    return MemoryBank.of(Tokens(tokens[:, :, 1:], tokens[:, :, 0]), names)


def whole(
    memory: MemoryBank, rotations: int = 1, region: RegionOfInterest | None = None, **more: Any
) -> WholeView:
    scoring = ImageScoring(
        Pooling.parse("max"), branch_weights(more.pop("lam", 0.5), more.pop("missing", 0.0))
    )
    how = Comparison(6, sharpness=16)
    rules = ViewSettings(SETTINGS, how, scoring, rotations, **more)
    return WholeView(rules, region or RegionOfInterest()).fitted(memory)


def near(memory: MemoryBank, entry: int, share: float = 0.4) -> ImageTokens:
    """An image that is a little like an entry of the bank."""
    random = np.random.default_rng(entry)

    def like(tokens: NDArray[np.float32]) -> NDArray[np.float32]:
        noise = unit(random.standard_normal(tokens.shape))
        return unit(share * tokens + (1 - share) * noise)

    return ImageTokens(tuple(map(like, memory.patches_of(entry))), like(memory.cls[entry]))


def batch(image: ImageTokens) -> Tokens:
    return Tokens(np.stack(image.patches)[None], image.cls[None])


def two_nearest(memory: MemoryBank, image: ImageTokens) -> list[int]:
    """The two orientations of each image whose CLS tokens are most like that of the image."""
    found: list[int] = []
    for entries in memory.entries:
        distances = {
            entry: float(sum(1 - memory.cls[entry, layer] @ image.cls[layer] for layer in range(2)))
            for entry in entries
        }
        found += sorted(sorted(entries, key=lambda entry: distances[entry])[:2])
    return found


@pytest.mark.parametrize("entry", [0, 3, 6, 9])
def test_an_image_is_compared_with_the_two_best_orientations_of_each_good_part(entry: int) -> None:
    memory = turning(images=2, rotations=5)
    image = near(memory, entry)
    chosen = two_nearest(memory, image)
    assert entry in chosen
    found, kept = whole(memory, 5).distances(image)
    others = [place for place in range(len(memory)) if place not in chosen]
    alone, _ = whole(memory.without(*others)).distances(image)
    assert kept is None
    assert found == pytest.approx(alone, abs=1e-6)
    every, _ = whole(memory).distances(image)
    assert np.abs(found - every).max() > 1e-3


def test_the_region_of_interest_goes_with_the_best_orientations() -> None:
    mask = np.zeros((84, 84), dtype=np.uint8)
    mask[:50, 20:] = 255
    roi = make_region(mask, (84, 84), 6)
    memory = turning(images=2, rotations=4)
    image = near(memory, 2)
    found, kept = whole(memory, 4, roi).distances(image)
    inside = roi.rows(memory, 6)
    facing = np.zeros(len(memory), dtype=bool)
    facing[two_nearest(memory, image)] = True
    rows = facing.repeat(36)[inside]
    assert kept is not None
    expected = [
        MemoryLayer(layer[inside][rows], sharpness=16).distances(query[kept])
        for query, layer in zip(image.patches, memory.patches, strict=True)
    ]
    assert found[kept] == pytest.approx(np.mean(expected, axis=0), abs=1e-6)
    assert (found[~kept] == 0).all()


@pytest.mark.parametrize("share", [0.7, 0.72])
def test_turned_copies_of_a_lone_part_count_only_where_they_fit_clearly_better(
    share: float,
) -> None:
    """A turn must bring the CLS distance to 0.7 of the upright one's, or less."""
    upright, turn = np.zeros((2, 2, 16), dtype=np.float32)
    upright[:, 0] = turn[:, 1] = 1
    distance = 0.5
    image_cls = np.zeros((2, 16), dtype=np.float32)
    image_cls[:, 0], image_cls[:, 1] = 1 - distance, 1 - share * distance * 0.999
    image_cls[:, 2] = np.sqrt(np.maximum(1 - (image_cls**2).sum(axis=1), 0))
    memory = turning(images=1, rotations=3)
    memory = replace(memory, cls=np.stack([upright, turn, -upright]))
    image = ImageTokens(near(memory, 1).patches, image_cls)
    view = whole(memory, 3, tentative=True)
    found, _ = view.distances(image)
    (scored,) = view.score_tokens(batch(image))
    counted = [0, 1] if share <= CLEARLY_BETTER else [0]
    alone = whole(memory.without(*({0, 1, 2} - set(counted))))
    assert found == pytest.approx(alone.distances(image)[0], abs=1e-6)
    assert scored.branches.values["cls"] == pytest.approx(
        share * distance * 0.999 if 1 in counted else distance, abs=1e-6
    )
    always, _ = whole(memory, 3).distances(image)
    assert always == pytest.approx(whole(memory.without(2)).distances(image)[0], abs=1e-6)


def test_the_branch_of_missing_pieces_grows_with_the_good_parts() -> None:
    for images in (2, 4):
        view = whole(bank(images, 0.7), missing=0.2)
        (scored,) = view.score_tokens(bank(1, 3.0).tokens_of(0))
        assert scored.branches.weights["missing"] == pytest.approx(0.2 * (1 - 1 / images))
        near_copies = whole(bank(images, 0.1), missing=0.2)
        (scored,) = near_copies.score_tokens(bank(1, 3.0).tokens_of(0))
        assert 0 < scored.branches.weights["missing"] < 0.1 * (1 - 1 / images)
        assert scored.branches.values["missing"] > 0


@pytest.mark.parametrize(
    ("memory", "rotations"), [(bank(1, 0.1), 1), (turning(2, 3), 3)], ids=["lone", "turning"]
)
def test_one_good_part_and_turning_ones_have_no_missing_pieces(
    memory: MemoryBank, rotations: int
) -> None:
    view = whole(memory, rotations, missing=0.2)
    (scored,) = view.score_tokens(bank(1, 3.0).tokens_of(0))
    assert scored.branches.weights["missing"] == 0
    assert scored.branches.values["missing"] == 0
    assert scored.missing is None
    (plain,) = whole(memory, rotations).score_tokens(bank(1, 3.0).tokens_of(0))
    assert scored.score == plain.score
    assert (scored.anomaly_map == plain.anomaly_map).all()


def test_what_is_missing_is_added_to_the_map_and_to_the_score() -> None:
    memory, image = bank(4, 0.05), bank(1, 3.0).tokens_of(0)
    (found,) = whole(memory, missing=0.2).score_tokens(image)
    (plain,) = whole(memory).score_tokens(image)
    assert found.missing is not None
    assert found.missing.max() > 0
    assert found.anomaly_map == pytest.approx(plain.anomaly_map + found.missing, abs=1e-6)
    added = found.branches.weights["missing"] * found.branches.values["missing"]
    assert found.score == pytest.approx(plain.score + added, abs=1e-6)
    (good,) = whole(memory, missing=0.2).score_tokens(memory.tokens_of(1))
    assert good.missing is None
    assert good.branches.values["missing"] == 0


def test_nothing_is_missing_outside_the_region_of_interest() -> None:
    mask = np.zeros((84, 84), dtype=np.uint8)
    mask[:42] = 255
    view = whole(bank(4, 0.05), region=make_region(mask, (84, 84), 6), missing=0.2)
    (found,) = view.score_tokens(bank(1, 3.0).tokens_of(0))
    assert found.missing is not None
    assert found.inside is not None
    assert found.missing[found.inside].max() > 0
    assert (found.missing[~found.inside] == 0).all()


def test_what_should_be_outside_the_region_is_not_shown() -> None:
    """The part moved down by half a picture, out of the region; one of its patches is missing."""
    mask = np.zeros((84, 84), dtype=np.uint8)
    mask[:42] = 255
    memory = bank(4, 0.02, calm=4.0)
    parts = np.concatenate([memory.tokens_of(number).patches for number in range(4)])
    parts[:, :, 6 + 3] = [0.25, -0.25] * 8  # a piece unlike all around it
    memory = MemoryBank.of(Tokens(parts, parts[:, :, 0]), memory.images)
    tokens = memory.tokens_of(0)
    part = tokens.patches.reshape(2, 6, 6, 16)
    strange = bank(1, 3.0, calm=4.0).tokens_of(0).patches.reshape(2, 6, 6, 16)
    moved = np.concatenate([strange[:, :3], part[:, :3]], axis=1)
    moved[:, 4, 3] = part[:, 1, 4]
    image = Tokens(moved.reshape(1, 2, 36, 16), tokens.cls)
    (everywhere,) = whole(memory, missing=0.2).score_tokens(image)
    assert everywhere.missing is not None
    assert everywhere.missing[4, 3] > 0
    region = make_region(mask, (84, 84), 6)
    (found,) = whole(memory, region=region, missing=0.2).score_tokens(image)
    assert found.branches.values["missing"] > 0
    assert (found.anomaly_map[3:] == 0).all()
    assert found.missing is not None
    assert (found.missing[3:] == 0).all()
