"""Nothing is imported from the working folder: not here, not by Ray's workers."""

import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ("pip", "torch", "openvino", "numpy", "json", "ray", "PIL")
SCRIPT = Path(sys.executable).with_name("hyperfsad")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with modules that note that they were run."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in NAMES:
        note = f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
        (folder / f"{name}.py").write_text(f"{note}raise SystemExit('planted {name}')\n")
    monkeypatch.chdir(folder)
    return tmp_path / "ran"


@pytest.mark.parametrize(
    "door", [pytest.param([sys.executable, "-m", "hyperfsad"], id="module"), [str(SCRIPT)]]
)
def test_commands_and_workers(door: list[str], planted: Path, small: Path, photos: Path) -> None:
    if door == [str(SCRIPT)] and not SCRIPT.exists():
        pytest.skip("the command is not installed beside this Python")
    on_ray = ["--on", "ray", "--workers", "1"] if len(door) == 1 else []
    words = [*door, "detect", "../photos", "--detector", str(small), "-o", "out", *on_ray]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not planted.exists()
