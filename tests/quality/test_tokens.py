"""Coverage and drift on real files: copies, known images, and the detector's own threshold."""

from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.errors import UsageError
from hyperfsad.quality.coverage import cover_normal
from hyperfsad.quality.drift import monitor_drift
from tests.codes import raises
from tests.quality.blending import blended


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Twelve pictures of one kind: a base and a little of something else."""
    return blended(tmp_path / "good", range(1, 13), 0.1)


def test_copies_do_not_cover_each_other(detector: HyperFSAD, good: Path) -> None:
    files = sorted(good.glob("*"))[:4]
    with pytest.warns(UserWarning, match="same picture"):
        report = cover_normal(detector, [*files, files[0]])
    assert len(report.images) == 4
    with (
        pytest.warns(UserWarning, match="same picture"),
        raises(UsageError, "coverage-too-few", given=1),
    ):
        cover_normal(detector, [files[0]] * 5)
    with raises(UsageError, "radius-range", given=0):
        cover_normal(detector, files, radius=0)


def test_radii_come_from_the_detectors_own_threshold(detector: HyperFSAD, good: Path) -> None:
    free = cover_normal(detector, good)
    assert free.radii.startswith("the largest leave-one-out")
    assert free.missed[-1] == 0  # all images together cover each one
    detector.threshold_ = 0.9
    tied = cover_normal(detector, good)
    assert "threshold 0.9000" in tied.radii
    assert tied.layers[0].radius > free.layers[0].radius


def test_watching_leaves_out_what_was_learnt(detector: HyperFSAD, good: Path) -> None:
    files = sorted(good.glob("*"))
    detector.fit(files[:2])
    with pytest.warns(UserWarning, match="learnt already"):
        report = monitor_drift(detector, files[:7], files[7:])
    assert len(report.images) == 5
    with (
        pytest.warns(UserWarning, match="learnt already"),
        raises(UsageError, "drift-too-few", given=3),
    ):
        monitor_drift(detector, files[:5], files[5:])
