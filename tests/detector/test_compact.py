"""A compact memory: what is compared with, what the file says, what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import load_file

from hyperfsad import DetectorFileError, HyperFSAD, ProductDetector, UsageError
from hyperfsad.cli import main
from hyperfsad.detector.file import KEY
from hyperfsad.export.writing import require_exportable
from hyperfsad.method import coreset
from tests.codes import raises
from tests.detector.mutations import save_sealed


def picture(seed: int) -> Image.Image:
    blobs = np.random.default_rng(7).integers(40, 200, (6, 6, 3)).astype(float)
    blobs += np.random.default_rng(seed).normal(0, 8, blobs.shape)
    image = Image.fromarray(np.clip(blobs, 0, 255).astype(np.uint8))
    return image.resize((84, 84), Image.Resampling.BICUBIC)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coreset, "MIN_COMPACT", 20)


def fresh(tiny: str, **more: Any) -> HyperFSAD:
    settings: dict[str, Any] = {"recipe": "paper-offline", "resolution": 84, "device": "cpu"}
    return HyperFSAD(tiny, **{**settings, "memory": "compact", "sharpness": 64.0, **more})


def test_a_quarter_of_the_patches_is_compared_with(tiny: str) -> None:
    good = [picture(seed) for seed in range(4)]
    compact, exact = fresh(tiny).fit(good), fresh(tiny, memory="exact").fit(good)
    assert compact.core_ is not None
    assert (int(compact.core_.kept.sum()), len(compact.core_.kept)) == (36, 144)
    assert compact.threshold_ == exact.threshold_  # from the whole memory
    learnt = compact.predict(good[0])
    bound = compact.core_.bound(64.0)
    assert bound is not None
    assert 0 < learnt.anomaly_map.max() <= bound
    assert exact.predict(good[0]).anomaly_map.max() < learnt.anomaly_map.max()


def test_a_file_keeps_what_is_compared_with(tiny: str, tmp_path: Path) -> None:
    path = tmp_path / "part.hfsad"
    detector = fresh(tiny).fit([picture(seed) for seed in range(4)])
    detector.save(path)
    loaded = HyperFSAD.load(path, device="cpu")
    image = picture(9)
    np.testing.assert_array_equal(
        loaded.predict(image).anomaly_map, detector.predict(image).anomaly_map
    )
    assert loaded.identity() == detector.identity()
    assert (
        loaded.identity()
        != fresh(tiny, memory="exact").fit([picture(seed) for seed in range(4)]).identity()
    )
    loaded.save(tmp_path / "again.hfsad")
    assert path.read_bytes() == (tmp_path / "again.hfsad").read_bytes()


def test_info_tells_size_and_bound(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "part.hfsad"
    fresh(tiny).fit([picture(seed) for seed in range(4)]).save(path)
    assert main(["info", str(path)]) == 0
    told = capsys.readouterr().out
    assert "compact, 36 of 144 patches; covering radius" in told
    assert "a learnt patch scores at most" in told


@pytest.mark.parametrize("change", [0, 1, 2])
def test_a_damaged_choice_is_refused(tiny: str, tmp_path: Path, change: int) -> None:
    path = tmp_path / "part.hfsad"
    fresh(tiny).fit([picture(seed) for seed in range(4)]).save(path)
    with safe_open(path, framework="np") as file:
        header = file.metadata()[KEY]
    tensors = load_file(path)
    core = tensors["core"]
    tensors["core"] = [1 - core, core[:-1].copy(), core.astype(np.float32)][change]
    save_sealed(tensors, path, header)
    with raises(DetectorFileError, "file-damaged"):
        HyperFSAD.load(path, device="cpu")


def test_what_is_added_is_covered_too(tiny: str) -> None:
    detector = fresh(tiny).fit([picture(seed) for seed in range(3)])
    detector.extend([picture(8)])
    assert detector.core_ is not None
    assert len(detector.core_.kept) == 144
    evidence = detector.explain(picture(9))
    kept = detector.core_.kept.reshape(4, 6, 6)
    names = [image.name for image in detector.memory_.images]
    for layer in evidence.layers:
        for one in layer.neighbours:
            places = [place for place, name in enumerate(names) if name == one.image]
            assert any(kept[place, one.row, one.column] for place in places)


def test_several_products_and_graphs_are_refused(tiny: str) -> None:
    common: dict[str, Any] = {"recipe": "paper-offline", "resolution": 84, "memory": "compact"}
    with raises(UsageError, "products-with-compact"):
        ProductDetector(tiny, **common)
    with raises(UsageError, "export-with-compact"):
        require_exportable(fresh(tiny).fit([picture(seed) for seed in range(4)]))
