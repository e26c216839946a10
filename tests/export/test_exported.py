"""`detect` with an exported folder: the records of the detector, without torch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hyperfsad import ImageError, UsageError
from hyperfsad.cli import main
from hyperfsad.cli.console import DONE
from hyperfsad.export.exported import ExportedDetector
from tests.cli.running import refusal
from tests.codes import raises
from tests.conftest import make_picture, read_results
from tests.export.exporting import KINDS, fitted

ALONE = """
import sys
from hyperfsad.cli import main
code = main(sys.argv[1:])
assert not {"torch", "transformers", "scipy"} & set(sys.modules), "torch was imported"
sys.exit(code)
"""


def _patch_at(record: dict[str, Any], grid: Any) -> tuple[int, int]:
    """The row and the column of a record's strongest place."""
    width, height = record["size"]
    row = int(record["map_peak_y"] * grid.shape[0] / height)
    return row, int(record["map_peak_x"] * grid.shape[1] / width)


def close(found: Any, expected: Any) -> bool:
    """Equal but for rounding; corners of contours move with it."""
    if isinstance(expected, float):
        return bool(abs(found - expected) <= 1e-4 + 1e-2 * abs(expected))
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(close(found[k], expected[k]) for k in found)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(close, found, expected))
    return bool(found == expected)


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """Three parts, one of them damaged."""
    folder = tmp_path / "asked"
    folder.mkdir()
    for seed in (0, 20):
        make_picture(seed).save(folder / f"{seed}.png")
    (folder / "broken.png").write_bytes(b"no picture")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_those_of_the_detector(
    kind: str, tiny: str, asked: Path, tmp_path: Path
) -> None:
    file, model = tmp_path / "part.hfsad", tmp_path / "model"
    detector = fitted(tiny, "default", 2)
    detector.threshold_, detector.map_threshold_ = 0.2, 0.15  # so that there are regions
    detector.save(file)
    assert main(["export", str(file), "--to", kind, "-o", str(model)]) == DONE
    failed = main(["detect", str(asked), "--detector", str(file), "-o", str(tmp_path / "whole")])
    command = ["detect", str(asked), "--detector", str(model), "-o", str(tmp_path / "exported")]
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *command, "--save-maps", "--threads", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == failed, done.stderr
    whole, found = read_results(tmp_path / "whole"), read_results(tmp_path / "exported")
    assert len(whole) == len(found) == 3
    for one, other in zip(found, whole, strict=True):
        assert one.keys() == other.keys()
        # of two places that are equally strong but for rounding, either may be the peak
        for key in other.keys() - {"regions", "map", "map_peak_x", "map_peak_y"}:
            assert close(one[key], other[key]), key
        if one["map"] is not None:
            grid = np.load(tmp_path / "exported" / str(one["map"]))
            assert close(float(grid[_patch_at(other, grid)]), other["map_peak"])
        regions: Any = one["regions"], other["regions"]
        assert len(regions[0]) == len(regions[1])
        for ours, theirs in zip(*regions, strict=True):
            assert (ours["kind"], ours["bbox"]) == (theirs["kind"], theirs["bbox"])
            assert close(ours["score"], theirs["score"])
            assert close(ours["area"], theirs["area"])
    assert any(one["regions"] for one in found)
    shown = [str(one["heatmap"]) for one in found if one["heatmap"]]
    assert len(shown) == 2
    for name in shown:
        pictures = [Image.open(tmp_path / out / name) for out in ("whole", "exported")]
        values = [np.asarray(picture, dtype=np.float32) for picture in pictures]
        assert np.abs(values[0] - values[1]).mean() < 1
    assert np.load(tmp_path / "exported" / str(found[0]["map"])).shape == (6, 6)
    assert (tmp_path / "exported" / "report.html").is_file()


@pytest.fixture
def model(tiny: str, tmp_path: Path) -> Path:
    """An exported model, beside the file of its detector."""
    fitted(tiny, "paper-offline", 1).save(tmp_path / "part.hfsad")
    command = ["export", str(tmp_path / "part.hfsad"), "--to", "onnx", "-o"]
    assert main([*command, str(tmp_path / "model")]) == DONE
    return tmp_path / "model"


def test_a_run_is_resumed_with_the_exported_model(model: Path, asked: Path, tmp_path: Path) -> None:
    """Rounding is all that differs, as between engines."""
    first, out = str(asked / "0.png"), tmp_path / "out"
    file = str(tmp_path / "part.hfsad")
    assert main(["detect", first, "--detector", file, "-o", str(out)]) == DONE
    before = read_results(out)
    again = ["detect", first, str(asked / "20.png"), "--detector", str(model), "-o", str(out)]
    assert main([*again, "--resume"]) == DONE
    assert read_results(out)[0] == before[0]
    assert len(read_results(out)) == 2


def test_batches_change_nothing(model: Path, tmp_path: Path) -> None:
    pictures = [make_picture(seed) for seed in (0, 20, 21)]
    single = [ExportedDetector(model).predict(each) for each in pictures]
    batches = list(ExportedDetector(model, batch_size=2).predict_many(pictures))
    for one, other in zip(single, batches, strict=True):
        assert abs(one.score - other.score) < 1e-5
        assert one.anomalous == other.anomalous
    with raises(ImageError, "image-missing", name=str(tmp_path / "none.png")):
        ExportedDetector(model).predict(str(tmp_path / "none.png"))
    with raises(UsageError, "batch-range", given=0):
        ExportedDetector(model, batch_size=0)


def test_what_is_settled_in_a_model_cannot_be_asked_for(
    tiny: str, model: Path, asked: Path, tmp_path: Path
) -> None:
    assert json.loads((model / "model.json").read_text())["checked"]["score"] < 1e-5
    inspect = ["detect", str(asked), "--detector", str(model), "-o", str(tmp_path / "out")]
    assert refusal(*inspect, "--engine", "torch") == "exported-with-machine"
    assert refusal(*inspect, "--backbone", tiny) == "setting-fixed"


def test_info_says_what_an_exported_model_is(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["info", str(model)]) == DONE
    assert "onnx" in capsys.readouterr().out
    assert main(["info", str(model), "--json"]) == DONE
    assert json.loads(capsys.readouterr().out) == json.loads((model / "model.json").read_text())
    assert refusal("info", tmp_path) == "card-unreadable"
