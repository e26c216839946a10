"""The notebooks of examples/ run from beginning to end, on drawn parts and the default encoder."""

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.conftest import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "examples").glob("*.ipynb"))
EXECUTE = (sys.executable, "-c", "from nbclient.cli import main; main()", "--inplace")
"""A process of its own: it owns the kernel's sockets."""


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    kept = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in kept.cells)
    copy = Path(shutil.copy(path, tmp_path))
    done = subprocess.run(
        [*EXECUTE, str(copy)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    code = [cell for cell in nbformat.read(copy, as_version=4).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    shown = [output for cell in code for output in cell.outputs]
    assert any(output.output_type == "stream" for output in shown)
    assert not any(output.output_type == "error" for output in shown)
