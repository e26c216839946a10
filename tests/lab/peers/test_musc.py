"""MuSc against loops over a whole set of images, and on real parts."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperfsad import UsageError
from hyperfsad.encoders.encoder import ImageTokens, Tokens
from hyperfsad.lab.peers import SAME_TOKENS, make_peer
from hyperfsad.lab.peers.musc import MuSc
from tests.codes import raises
from tests.conftest import make_picture
from tests.lab.peers.samples import (
    GRID,
    LAYERS,
    PATCHES,
    distances,
    image_of,
    of_length_1,
    random_bank,
    random_image,
)


def by_hand(
    images: list[ImageTokens], degrees: tuple[int, ...], share: float, windows: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The maps and the scores of a set, in float64."""
    maps = np.zeros((len(images), PATCHES))
    for layer in range(LAYERS):
        for degree in degrees:
            features = [around(image.patches[layer], degree) for image in images]
            for i, mine in enumerate(features):
                others = (z for j, z in enumerate(features) if j != i)
                given = np.sort([distances(mine, z).min(axis=1) for z in others], axis=0)
                lowest = given[: max(1, int(share * len(given)))]
                maps[i] += lowest.mean(axis=0) / (LAYERS * len(degrees))
    cls = np.stack([image.cls[-1] for image in images]).astype(np.float64)
    scores = np.zeros(len(images))
    for count in windows:
        weights = cls @ cls.T
        weights[weights < np.sort(weights, axis=1)[:, [-count]]] = 0
        scores += (weights / weights.sum(axis=1, keepdims=True)) @ maps.max(axis=1) / len(windows)
    return maps, scores


def around(patches: NDArray[np.float32], degree: int) -> NDArray[np.float32]:
    """Sums of neighbourhoods at length 1."""
    places = np.stack([np.arange(PATCHES) // GRID, np.arange(PATCHES) % GRID])
    near = np.abs(places[:, :, None] - places[:, None]).max(axis=0) <= degree // 2
    return of_length_1(near @ patches)


@pytest.mark.parametrize(
    ("count", "degrees", "share", "windows"),
    [(7, (1, 3, 5), 0.3, (1, 2, 3)), (2, (1,), 0.3, (1,)), (7, (3,), 0.5, (1, 4))],
)
def test_it_is_the_loops(
    count: int, degrees: tuple[int, ...], share: float, windows: tuple[int, ...], tiny: str
) -> None:
    """A query is one of n + 1 images; without it, the n score each other."""
    bank, query = random_bank(count), random_image()
    peer = MuSc(tiny, resolution=84, degrees=degrees, share=share, windows=windows).remember(bank)
    images = [image_of(bank, index) for index in range(count)]
    maps, scores = by_hand([*images, query], degrees, share, windows)
    (found,) = peer.score_tokens(Tokens(np.stack(query.patches)[None], query.cls[None]))
    assert np.allclose(found.anomaly_map.ravel(), maps[-1], atol=1e-5)
    assert found.score == pytest.approx(float(scores[-1]), rel=1e-4)
    maps, scores = by_hand(images, degrees, share, windows)
    own = peer.own_scores()
    assert np.allclose([one.anomaly_map.ravel() for one in own], maps, atol=1e-5)
    assert [one.score for one in own] == pytest.approx(scores.tolist(), rel=1e-4)


def test_a_bad_part_is_found_in_queries_and_among_the_unlabelled(data: Path) -> None:
    bottle = data / "mvtec" / "bottle"
    good = sorted((bottle / "line" / "good").iterdir())[:6]
    bad = sorted((bottle / "test" / "broken_large").iterdir())[:2]
    peer = MuSc(resolution=112, device="cpu").fit([*good[:5], bad[0]])
    assert peer.predict(bad[1]).score > peer.predict(good[5]).score
    assert int(np.argmax([one.score for one in peer.own_scores()])) == 5


def test_one_image_has_nobody_to_score_it(tiny: str) -> None:
    peer = MuSc(tiny, resolution=84, device="cpu").fit(make_picture(1))
    assert peer.predict(make_picture(2)).score > 0
    with raises(UsageError, "musc-alone"):
        peer.own_scores()


def test_tables_of_few_good_parts_leave_it_out() -> None:
    assert "musc" not in SAME_TOKENS


@pytest.mark.parametrize(
    "options", [{"degrees": (2,)}, {"degrees": ()}, {"share": 0.0}, {"windows": (0,)}]
)
def test_bad_options_are_refused(options: dict[str, object], tiny: str) -> None:
    with raises(UsageError, "peer-option-range"):
        make_peer("musc", tiny, **options)
