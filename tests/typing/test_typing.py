"""Type checkers help users: they find each mistake in a script, and none where there is none."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from hyperfsad import HyperFSAD, ProductDetector
from hyperfsad.detector.protocols import Detector, Predictor
from hyperfsad.detector.settings import SETTINGS, Machine, Settings
from hyperfsad.export import ExportedDetector
from hyperfsad.lab.peers import PEERS
from tests.conftest import REPOSITORY

HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a user has the scripts, with the package as it is here."""
    for name in ("right", "mistakes"):
        text = (HERE / f"{name}.py.txt").read_text(encoding="utf-8")
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def mistakes(folder: Path) -> list[int]:
    """The rows that say that they hold one."""
    rows = (folder / "mistakes.py").read_text(encoding="utf-8").splitlines()
    return [number for number, row in enumerate(rows, 1) if "# mistake" in row]


def test_mypy_finds_every_mistake(folder: Path) -> None:
    settings = folder / "mypy.ini"
    settings.write_text(
        f"[mypy]\nstrict = true\nmypy_path = {REPOSITORY / 'src'}\n"
        "[mypy-hyperfsad.*]\nignore_errors = true\n"  # they have a check of their own
        "[mypy-supervision.*,polars.*,pandas.*,transformers.*]\nfollow_imports = skip\n",
        encoding="utf-8",
    )
    cache = ["--cache-dir", str(REPOSITORY / ".mypy_cache" / "users"), "--config-file", "mypy.ini"]
    command = [sys.executable, "-m", "mypy", *cache, "right.py", "mistakes.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = re.findall(r"^(.*?):(\d+): error", done.stdout, re.M)
    assert sorted({(file, int(row)) for file, row in found}) == [
        ("mistakes.py", row) for row in mistakes(folder)
    ], done.stdout + done.stderr
    assert len(mistakes(folder)) == 10


def test_pyright_finds_every_mistake(folder: Path) -> None:
    packages = [path for path in sys.path if path.endswith("site-packages")]
    settings = {"pythonVersion": "3.11", "extraPaths": [str(REPOSITORY / "src"), *packages]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)["generalDiagnostics"]
    errors = [one for one in told if one["severity"] == "error"]
    found = {(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in errors}
    shown = "\n".join(f"{one['file']}:{one['range']['start']}: {one['message']}" for one in errors)
    assert sorted(found) == [("mistakes.py", row) for row in mistakes(folder)], shown


def test_what_checkers_know_is_what_is_checked() -> None:
    """The names in a `Literal` are those that a setting accepts; `load` takes the machine's."""

    def names(kind: object) -> tuple[str, ...]:
        if get_origin(kind) is Literal:
            return get_args(kind)
        return tuple(name for each in get_args(kind) for name in names(each))

    hints = get_type_hints(Settings)
    for name, setting in SETTINGS.items():
        assert names(hints[name]) == setting.choices, name
    known = get_type_hints(Machine)
    machine = [name for name, one in SETTINGS.items() if one.group == "machine"]
    assert set(known) == {*machine, "backbone", "notify"}
    assert all(known[name] == hints[name] for name in [*machine, "backbone"])


def test_all_kinds_predict_alike(tiny: str) -> None:
    """mypy checks that they satisfy the protocols; here are the parameters that people see."""
    fitted: list[Detector] = [HyperFSAD(tiny), ProductDetector(tiny)]
    every: list[type[Predictor]] = [HyperFSAD, ProductDetector, ExportedDetector, *PEERS.values()]
    assert len(fitted) == 2
    for name in ("predict", "predict_many"):
        expected = list(inspect.signature(getattr(Predictor, name)).parameters)
        for kind in every:
            assert list(inspect.signature(getattr(kind, name)).parameters) == expected, kind
