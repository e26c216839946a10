"""The theory asks detectors about real files, and refuses what it does not speak of."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad import HyperFSAD
from hyperfsad.errors import UsageError
from hyperfsad.lab.theorems import (
    certify,
    check_extension,
    check_stability,
)
from hyperfsad.quality.coverage import cover_normal
from tests.codes import raises
from tests.quality.blending import blended


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Twelve pictures of one kind: a base and a little of something else."""
    return blended(tmp_path / "good", range(1, 13), 0.1)


def test_unaffected_patches_keep_their_place_in_the_map(
    detector: HyperFSAD, good: Path, tmp_path: Path
) -> None:
    queries = sorted(good.glob("*"))
    detector.fit(queries[:3])
    before = [result.anomaly_map for result in detector.predict(queries)]
    detector.extend(blended(tmp_path / "bad", range(20, 21), 0.9))
    after = [result.anomaly_map for result in detector.predict(queries)]
    report = check_extension(detector, 3, queries)
    same = int((np.abs(np.array(after) - np.array(before)) < 1e-6).sum())
    assert 0 < report.everywhere <= same
    assert report.everywhere <= min(report.layers) <= report.patches == 12 * 36
    with raises(UsageError, "extension-range"):
        check_extension(detector, len(detector.memory_), queries)


def test_what_the_theory_does_not_speak_of_is_refused(detector: HyperFSAD, good: Path) -> None:
    with pytest.raises(UsageError, match="call fit first"):
        certify(detector, good, good)
    top = HyperFSAD(
        detector.backbone, recipe="paper-offline", pooling="top-10", resolution=84, device="cpu"
    )
    with raises(UsageError, "theorem-needs-max-pooling"):
        certify(top.fit(good / "01.png"), good, good)
    dense = HyperFSAD(
        detector.backbone, recipe="paper-offline", lookup="softmax", resolution=84, device="cpu"
    )
    dense.fit([good / "01.png", good / "02.png"])
    for ask in (lambda: check_stability(dense, good), lambda: check_extension(dense, 1, good)):
        with raises(UsageError, "theorem-needs-sparsemax"):
            ask()
    with pytest.warns(UserWarning, match="learnt already"):  # Theorem 1 takes any lookup
        assert certify(dense, good, good).margin.shape == (10, 12)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"recipe": "default"}, "theory-needs-paper"),
        ({"tiles": 84}, "theory-needs-whole-images"),
        ({"roi": "auto"}, "theory-without-roi"),
    ],
)
def test_departures_from_the_paper_are_refused(
    options: dict[str, object], code: str, tiny: str, good: Path
) -> None:
    settings: dict[str, Any] = {"recipe": "paper-offline", "layers": (2, 4), "rotations": 1}
    settings |= options
    detector = HyperFSAD(tiny, resolution=84, device="cpu", **settings)
    detector.fit([good / "01.png", good / "02.png"], threshold=False)
    for ask in (
        lambda: certify(detector, good, good),
        lambda: check_stability(detector, good),
        lambda: check_extension(detector, 1, good),
        lambda: cover_normal(detector, good, threshold=0.9),
    ):
        with raises(UsageError, code):
            ask()
    if "roi" in options:
        with raises(UsageError, code):
            cover_normal(detector, good)
    else:  # without a threshold coverage asks the CLS tokens alone
        assert len(cover_normal(detector, good).names) == 12
