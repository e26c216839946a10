"""The folder of an exported model: its card, what is refused, and what damage does."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad import DetectorFileError, HyperFSAD, ProductDetector, UsageError, __version__
from hyperfsad.export import writing
from hyperfsad.export.exported import ExportedModel
from hyperfsad.export.writing import export
from tests.codes import raises
from tests.conftest import as_fitted_in, make_picture
from tests.export.exporting import KINDS, exported, fitted, pixels_of


@pytest.fixture(scope="module")
def detector(tiny: str) -> HyperFSAD:
    return fitted(tiny, "paper-offline", 2)


@pytest.fixture
def model(detector: HyperFSAD, tmp_path: Path) -> Path:
    export(detector, tmp_path / "model", "onnx")
    return tmp_path / "model"


def card_of(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_card_describes_the_folder(kind: str, detector: HyperFSAD, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    export(detector, folder, kind)
    card = card_of(folder)
    files = {path.name for path in folder.iterdir()}
    graph = {"onnx": {"model.onnx"}, "openvino": {"model.xml", "model.bin"}}[kind]
    assert files == graph | {"model.json", "preprocess.py"}
    assert card["hyperfsad"] == __version__
    assert card["files"] == {
        name: {
            "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest(),
            "bytes": (folder / name).stat().st_size,
        }
        for name in sorted(files - {"model.json"})
    }
    assert card["encoder"] == json.loads(json.dumps(detector.part().header["encoder"]))
    assert [one["sha256"] for one in card["normal_images"]] == [  # type: ignore[attr-defined]
        image.sha256 for image in detector.support_
    ]
    levels = card["levels"]
    assert isinstance(levels, dict)
    assert levels["threshold"] == detector.threshold_
    assert levels["map_threshold"] == detector.map_threshold_


def test_thresholds_are_constants_of_the_graph(model: Path, detector: HyperFSAD) -> None:
    found = ExportedModel(model)(pixels_of([make_picture(0), make_picture(1)]))
    assert found["threshold"] == np.float32(detector.threshold_)
    assert found["map_threshold"] == np.float32(detector.map_threshold_)
    assert found["anomalous_by_score"].tolist() == [False, False]


def test_without_thresholds_there_is_no_verdict(tiny: str, tmp_path: Path) -> None:
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    detector.fit([make_picture(0)], threshold=False)
    model = exported(detector, tmp_path / "model", "onnx")
    assert set(model.card.outputs) == {"score", "map", "score_map", "score_cls"}


def test_what_a_graph_cannot_hold_is_refused(tiny: str, tmp_path: Path) -> None:
    pictures = [make_picture(seed, (200, 180)) for seed in range(2)]
    tiled = fitted(tiny, "paper-offline", 2, pictures=pictures, tiles=84)
    masked = fitted(tiny, "paper-offline", 2, roi=[(5, 5), (80, 5), (80, 70)])
    dense = fitted(tiny, "paper-offline", 2, lookup="softmax")
    several = ProductDetector(tiny, recipe="paper-offline", resolution=84, device="cpu")
    for refused, code in (
        (tiled, "export-with-tiles"),
        (masked, "export-with-roi"),
        (dense, "export-with-lookup"),
    ):
        with raises(UsageError, code):
            export(refused, tmp_path / "model", "onnx")
    with pytest.raises(UsageError):
        export(several, tmp_path / "model", "onnx")
    assert not (tmp_path / "model").exists()


def test_a_missing_runtime_is_said_first(
    detector: HyperFSAD, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "find_spec", lambda name: None)
    for kind, package in (("onnx", "onnxruntime"), ("openvino", "openvino")):
        with raises(UsageError, "runtime-missing", folder=tmp_path / "model", package=package):
            export(detector, tmp_path / "model", kind)
    assert not any(tmp_path.iterdir())


def test_a_folder_that_is_there_stays(model: Path, detector: HyperFSAD) -> None:
    before = {path: path.read_bytes() for path in model.iterdir()}
    with raises(UsageError, "export-exists", folder=model):
        export(detector, model, "onnx")
    assert before == {path: path.read_bytes() for path in model.iterdir()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_detector_gives_the_same_bytes(
    kind: str, detector: HyperFSAD, tmp_path: Path
) -> None:
    for folder in ("once", "again"):
        export(detector, tmp_path / folder, kind)
    for path in (tmp_path / "once").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


ALONE = """
import sys
from hyperfsad.cli import main
code = main(sys.argv[1:])
assert not {"torch", "transformers", "onnx", "scipy"} & set(sys.modules), "too much was imported"
sys.exit(code)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_it_needs_no_torch(kind: str, detector: HyperFSAD, tmp_path: Path) -> None:
    detector.save(tmp_path / "part.hfsad")
    command = ["export", str(tmp_path / "part.hfsad"), "--to", kind, "-o", str(tmp_path / "model")]
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ExportedModel(tmp_path / "model").card.kind == kind


def test_the_graph_names_no_place_on_this_machine(model: Path, tiny: str) -> None:
    content = (model / "model.onnx").read_bytes()
    assert str(Path(tiny).parent).encode() not in content
    assert b"site-packages" not in content


@pytest.mark.parametrize("name", ["model.onnx", "preprocess.py"])
def test_another_file_than_the_exported_one_is_refused(name: str, model: Path) -> None:
    content = bytearray((model / name).read_bytes())
    content[len(content) // 2] ^= 1
    (model / name).write_bytes(content)
    with raises(DetectorFileError, "export-changed", file=model / name):
        ExportedModel(model)


def test_a_damaged_card_is_one_sentence(model: Path) -> None:
    whole = card_of(model)
    not_needed = {"hyperfsad", "encoder", "recipe", "method", "checked"}
    for key in whole.keys() - not_needed:
        broken = {name: value for name, value in whole.items() if name != key}
        (model / "model.json").write_text(json.dumps(broken))
        with raises(DetectorFileError, "card-damaged"):
            ExportedModel(model)
    (model / "model.json").write_text("{")
    with raises(DetectorFileError, "card-damaged"):
        ExportedModel(model)
    (model / "model.json").unlink()
    with raises(DetectorFileError, "card-unreadable"):
        ExportedModel(model)


def test_a_later_format_is_refused(model: Path) -> None:
    (model / "model.json").write_text(json.dumps({**card_of(model), "format": 2}))
    with raises(DetectorFileError, "card-newer"):
        ExportedModel(model)


def test_pixels_of_another_shape_are_refused(model: Path) -> None:
    found = ExportedModel(model)
    with raises(UsageError, "pixels-shape"):
        found(np.zeros((1, 83, 84, 3), dtype=np.uint8))
    with raises(UsageError, "pixels-shape"):
        found(np.zeros((1, 84, 84, 3), dtype=np.float32))


def test_another_precision_than_float32_is_told(tiny: str, tmp_path: Path) -> None:
    detector = HyperFSAD(tiny, resolution=84, device="cpu", engine="openvino", precision="float32")
    detector.fit([make_picture(0), make_picture(1)])
    said: list[Any] = []
    export(as_fitted_in(detector, "bf16"), tmp_path / "model", "openvino", said.append)
    assert [(one.code, one.facts) for one in said] == [("export-precision", {"made_in": "bf16"})]
