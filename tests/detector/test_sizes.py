"""What a detector file keeps of tokens: half precision where nothing is lost, and its size."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from hyperfsad import HyperFSAD
from hyperfsad.detector.file import open_file
from hyperfsad.detector.fit import SupportReader
from hyperfsad.detector.sizes import memory_sizes
from hyperfsad.method.memory import MemoryBank
from tests.conftest import make_picture

GOOD = [make_picture(1), make_picture(2)]
OTHER = make_picture(3)


def stored(detector: HyperFSAD, path: Path) -> dict[str, "np.ndarray[tuple[int, ...], np.dtype]"]:
    """The patch tokens of its file."""
    detector.save(path)
    return {name: each for name, each in load_file(path).items() if name.startswith("patches.")}


def test_a_file_keeps_half_precision_and_a_loaded_detector_says_the_same(
    tiny: str, tmp_path: Path
) -> None:
    detector = HyperFSAD(tiny, resolution=84, device="cpu").fit(GOOD)
    tensors = stored(detector, tmp_path / "part.hfsad")
    assert {each.dtype.name for each in tensors.values()} == {"float16"}
    loaded = HyperFSAD.load(tmp_path / "part.hfsad", device="cpu")
    assert {each.dtype.name for each in loaded.memory_.patches} == {"float32"}
    detector.extend(make_picture(4))
    loaded.extend(make_picture(4))
    first, second = detector.predict(OTHER), loaded.predict(OTHER)
    assert (first.score, first.level) == (second.score, second.level)
    assert np.array_equal(first.anomaly_map, second.anomaly_map)
    assert stored(loaded, tmp_path / "more.hfsad").keys() == tensors.keys()
    assert (tmp_path / "more.hfsad").stat().st_size < 2 * (tmp_path / "part.hfsad").stat().st_size


def test_the_paper_s_recipes_keep_all_digits(tiny: str, tmp_path: Path) -> None:
    detector = HyperFSAD(tiny, resolution=84, recipe="paper-offline", device="cpu").fit(GOOD)
    tensors = stored(detector, tmp_path / "part.hfsad")
    assert {each.dtype.name for each in tensors.values()} == {"float32"}
    halved = [each.astype(np.float16) for each in tensors.values()]
    assert not any(map(np.array_equal, halved, tensors.values()))


def test_rounding_changes_no_score_that_can_be_seen(tiny: str) -> None:
    detector = HyperFSAD(tiny, resolution=84, rotations=1, device="cpu").fit(GOOD)
    reader = SupportReader(detector.view_, detector.encoder_, None)
    exact = MemoryBank.joined(reader.banks(GOOD, (), lambda image: [image]))
    rounded = detector.memory_.patches
    assert not any(map(np.array_equal, exact.patches, rounded))
    score = detector.predict(OTHER).score
    assert detector.remember(exact).predict(OTHER).score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("recipe", ["default", "paper-offline"])
@pytest.mark.parametrize("choices", [{}, {"rotations": 4}, {"tiles": 56}])
def test_the_sum_explains_the_size(
    tiny: str, tmp_path: Path, recipe: str, choices: dict[str, Any]
) -> None:
    choices = {"resolution": 56, "recipe": recipe, "device": "cpu", **choices}
    detector = HyperFSAD(tiny, **choices).fit(GOOD)
    detector.save(path := tmp_path / "part.hfsad")
    (size,) = memory_sizes(open_file(path))
    tokens = size.good_parts * size.orientations * size.patches * size.layers
    assert size.bytes == tokens * size.width * size.number_bytes
    assert (size.good_parts, size.orientations) == (2, detector.rotations_)
    assert size.number_bytes == (2 if recipe == "default" else 4)
    assert bool(size.tiles) == ("tiles" in choices)
    explained = size.bytes + size.tiles + size.unlabelled + detector.memory_.cls.nbytes
    assert 0 < path.stat().st_size - explained < 8192  # the header


def test_unlabelled_parts_are_counted(tiny: str, tmp_path: Path) -> None:
    detector = HyperFSAD(tiny, resolution=56, rotations=1, device="cpu").fit(GOOD)
    detector.adapt([make_picture(seed) for seed in range(10, 16)]).save(tmp_path / "part.hfsad")
    (size,) = memory_sizes(open_file(tmp_path / "part.hfsad"))
    assert detector.unlabelled_ is not None
    cls = detector.unlabelled_.cls.nbytes
    patches = sum(layer.nbytes for layer in detector.unlabelled_.patches)
    assert size.unlabelled == patches + cls
