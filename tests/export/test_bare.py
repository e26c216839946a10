"""The examples of docs/export.md, each in an environment that has neither hyperfsad nor torch."""

import re
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from hyperfsad.export.exported import ExportedDetector
from hyperfsad.export.writing import export
from tests.conftest import REPOSITORY, make_picture
from tests.export.exporting import fitted

RUNTIMES = {"onnx": "onnxruntime", "openvino": "openvino"}


def example(kind: str = "onnx") -> str:
    """The program for a runtime, put together as the page says."""
    page = (REPOSITORY / "docs" / "export.md").read_text(encoding="utf-8")
    program, other = re.findall(r"<!-- tested: .*?-->\n```python\n(.*?)```", page, re.DOTALL)
    if kind == "onnx":
        return str(program)
    head, rest = program.replace("import onnxruntime\n", "").split("session = ")
    return f"{head}{other}\n\ndef classify{rest.partition('def classify')[2]}"


def python_with(packages: tuple[str, ...], folder: Path) -> Path:
    """The Python of a fresh environment with these packages and what they need alone; they are
    those of this environment, so that nothing is downloaded."""
    venv.create(folder)
    place = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    waiting, seen = list(packages), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        found = metadata.distribution(name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (place / top).exists():
                (place / top).symlink_to(Path(str(found.locate_file(top))))
        needs = map(Requirement, found.requires or ())
        waiting += [need.name for need in needs if not need.marker or need.marker.evaluate()]
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def test_the_example_is_short() -> None:
    assert len(example().splitlines()) <= 40


@pytest.mark.parametrize("kind", RUNTIMES)
def test_the_example_classifies_as_the_detector_does(kind: str, tiny: str, tmp_path: Path) -> None:
    bare = python_with((RUNTIMES[kind], "numpy", "pillow"), tmp_path / "venv")
    detector = fitted(tiny, "default", 2)
    detector.threshold_ = 0.2
    export(detector, tmp_path / "model", kind)
    (tmp_path / "inspect_parts.py").write_text(example(kind), encoding="utf-8")
    for seed in (0, 20):
        make_picture(seed).save(tmp_path / f"{seed}.png")
    done = subprocess.run(
        [str(bare), "-I", "inspect_parts.py", "model", "0.png", "20.png"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    reported = [line.split() for line in done.stdout.splitlines()]
    paths = [str(tmp_path / name) for name in ("0.png", "20.png")]
    expected = list(ExportedDetector(tmp_path / "model").predict_many(paths))
    assert [line[1] for line in reported] == ["good", "anomalous"]
    for line, result in zip(reported, expected, strict=True):
        assert abs(float(line[0]) - result.score) < 1e-4
        assert line[1] == ("anomalous" if result.anomalous else "good")
    for name in ("hyperfsad", "torch"):
        installed = [str(bare), "-I", "-c", f"import {name}"]
        assert subprocess.run(installed, capture_output=True, check=False).returncode != 0
