"""PatchCore against its equations, written out."""

import math

import numpy as np
import pytest

from hyperfsad.lab.peers import PatchCore
from hyperfsad.lab.peers.features import greedy_coreset, local_features
from tests.lab.peers.samples import GRID, PATCHES, pooled_by_hand, random_bank, random_image


def test_locally_aware_features_average_each_neighbourhood_within_its_image() -> None:
    bank = random_bank(2)
    features = local_features(bank.patches, GRID)
    assert np.allclose(features, pooled_by_hand(bank.patches, 2), atol=1e-6)


@pytest.mark.parametrize("shots", [1, 2, 4])
@pytest.mark.parametrize(("fraction", "neighbours"), [(1.0, 9), (0.25, 9), (0.25, 3)])
def test_it_is_the_paper_written_out(
    shots: int, fraction: float, neighbours: int, tiny: str
) -> None:
    bank, image = random_bank(shots), random_image()
    detector = PatchCore(tiny, resolution=84, fraction=fraction, neighbours=neighbours)
    detector.remember(bank)
    normal = pooled_by_hand(bank.patches, shots)
    picked = greedy_coreset(normal.astype(np.float32), max(int(fraction * len(normal)), neighbours))
    members = normal[picked]
    queries = pooled_by_hand(image.patches, 1)
    scores = [min(np.linalg.norm(query - member) for member in members) for query in queries]
    anomaly_map = detector.patch_scores(image)
    assert np.allclose(anomaly_map, scores, atol=1e-5)

    query = queries[int(np.argmax(scores))]
    closest = min(members, key=lambda member: float(np.linalg.norm(query - member)))
    crowd = sorted(members, key=lambda member: float(np.linalg.norm(closest - member)))
    total = sum(math.exp(np.linalg.norm(query - member)) for member in crowd[:neighbours])
    expected = (1 - math.exp(max(scores)) / total) * max(scores)
    score = detector.image_score(anomaly_map.reshape(GRID, GRID), image)
    assert score == pytest.approx(expected, abs=1e-5)


def test_the_coreset_has_the_size_that_was_asked_for(tiny: str) -> None:
    detector = PatchCore(tiny, resolution=84).remember(random_bank(4))
    assert len(detector.coreset_) == PATCHES  # a quarter of four images
    detector = PatchCore(tiny, resolution=84, fraction=0.01).remember(random_bank(1))
    assert len(detector.coreset_) == 9  # as many as the weight of Equation 7 needs
