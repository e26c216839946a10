"""The theory asks detectors about real files, and refuses what it does not speak of."""

from pathlib import Path
from typing import Any

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.errors import UsageError
from hyperfsad.lab.theorems import certify, check_stability
from hyperfsad.quality.coverage import cover_normal
from tests.codes import raises
from tests.quality.blending import blended


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Twelve pictures of one kind: a base and a little of something else."""
    return blended(tmp_path / "good", range(1, 13), 0.1)


def test_what_the_theory_does_not_speak_of_is_refused(detector: HyperFSAD, good: Path) -> None:
    with raises(UsageError, "detector-not-fitted"):
        certify(detector, good, good)
    top = HyperFSAD(
        detector.settings.backbone,
        recipe="paper-offline",
        pooling="top-10",
        resolution=84,
        device="cpu",
    )
    with raises(UsageError, "theorem-needs-max-pooling"):
        certify(top.fit(good / "01.png"), good, good)
    dense = HyperFSAD(
        detector.settings.backbone,
        recipe="paper-offline",
        lookup="softmax",
        resolution=84,
        device="cpu",
    )
    dense.fit([good / "01.png", good / "02.png"])
    with raises(UsageError, "theorem-needs-sparsemax"):
        check_stability(dense, good)
    with pytest.warns(UserWarning, match="learnt already"):  # Theorem 1 takes any lookup
        assert certify(dense, good, good).theorem_1.margin.shape == (10, 12)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"recipe": "default"}, "theory-with-recipe"),
        ({"tiles": 84}, "theory-with-tiles"),
        ({"roi": "auto"}, "theory-with-roi"),
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
        lambda: cover_normal(detector, good, threshold=0.9),
    ):
        with raises(UsageError, code):
            ask()
    if "roi" in options:
        with raises(UsageError, code):
            cover_normal(detector, good)
    else:  # without a threshold coverage asks the CLS tokens alone
        assert len(cover_normal(detector, good).images) == 12
