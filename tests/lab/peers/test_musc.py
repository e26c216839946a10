"""MuSc against loops over a whole set of images, and on real parts."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from hyperfsad import UsageError
from hyperfsad.encoders.encoder import ImageTokens, Tokens
from hyperfsad.lab.peers import SAME_TOKENS, make_peer
from hyperfsad.lab.peers.musc import MuSc
from tests.codes import raises
from tests.conftest import make_picture
from tests.lab.peers.samples import GRID, LAYERS, PATCHES, image_of, random_bank, random_image


def by_hand(
    images: list[ImageTokens], degrees: tuple[int, ...], share: float, windows: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The maps and the scores of a set, in float64."""
    maps = torch.zeros(len(images), PATCHES, dtype=torch.float64)
    for layer in range(LAYERS):
        for degree in degrees:
            features = [around(image.patches[layer].double(), degree) for image in images]
            for i, mine in enumerate(features):
                given = [torch.cdist(mine, z).amin(dim=1) for j, z in enumerate(features) if j != i]
                lowest = torch.stack(given).sort(dim=0).values[: max(1, int(share * len(given)))]
                maps[i] += lowest.mean(dim=0) / (LAYERS * len(degrees))
    cls = torch.stack([image.cls[-1] for image in images]).double()
    scores = torch.zeros(len(images), dtype=torch.float64)
    for count in windows:
        weights = cls @ cls.T
        weights[weights < weights.sort(dim=1, descending=True).values[:, [count - 1]]] = 0
        scores += (weights / weights.sum(dim=1, keepdim=True)) @ maps.amax(dim=1) / len(windows)
    return maps, scores


def around(patches: torch.Tensor, degree: int) -> torch.Tensor:
    """Sums of neighbourhoods at length 1."""
    places = torch.stack([torch.arange(PATCHES) // GRID, torch.arange(PATCHES) % GRID])
    near = (places[:, :, None] - places[:, None]).abs().amax(dim=0) <= degree // 2
    return normalize(near.to(patches) @ patches, dim=1)


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
    (found,) = peer.score_tokens(Tokens(torch.stack(query.patches)[None], query.cls[None]))
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
