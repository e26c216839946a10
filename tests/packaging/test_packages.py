"""The source distribution and the wheel: what is in them, and that the wheel works on its own."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from hyperfsad import __version__
from tests.conftest import REPOSITORY, make_picture, read_results
from tests.packaging.conftest import build

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links packages into an environment")

SOURCE = REPOSITORY / "src"
COMPILER = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")


def run(
    python: Path, *words: object, cwd: Path, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """A command in the environment, with a home folder of its own and nothing of ours."""
    inherited = ("HYPERFSAD_", "PYTHON", "PYTEST_", "COV_")
    kept = {key: text for key, text in os.environ.items() if not key.startswith(inherited)}
    own = {"HOME": str(cwd), "HYPERFSAD_CACHE": str(cwd / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [str(python), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**kept, **own, **variables},
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_they_are_as_the_index_wants_them(packages: tuple[Path, Path]) -> None:
    check = [sys.executable, "-m", "twine", "check", "--strict", *map(str, packages)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_wheel_holds_the_package_and_nothing_else(packages: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(packages[1]) as wheel:
        names = set(wheel.namelist())
    files = [path for path in SOURCE.glob("hyperfsad/**/*") if path.is_file()]
    sources = {
        path.relative_to(SOURCE).as_posix()
        for path in files
        if path.suffix not in (".c", ".so", ".pyc")
    }
    assert sources <= names
    rest = {name for name in names - sources if ".dist-info/" not in name}
    assert rest == ({"hyperfsad/method/_kernel.so"} if COMPILER else set())


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_one_wheel_serves_every_python_of_a_platform(packages: tuple[Path, Path]) -> None:
    name, version, python, abi, platform = packages[1].stem.split("-")
    assert (name, version, python, abi) == ("hyperfsad", __version__, "py3", "none")
    assert platform != "any"


def test_without_a_compiler_the_wheel_is_a_pure_one(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "source"
    shutil.copytree(source, copy)
    (wheel,) = build(copy, tmp_path / "dist", "--wheel", CC="false")
    assert wheel.name == f"hyperfsad-{__version__}-py3-none-any.whl"


def test_the_source_distribution_is_the_repository(packages: tuple[Path, Path]) -> None:
    with tarfile.open(packages[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(
        ["git", "ls-files", "--cached"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a checkout of git")
    kept = {
        name
        for name in listed.stdout.splitlines()
        if not name.startswith((".", "deploy/")) and (REPOSITORY / name).exists()
    }
    assert kept <= names


def test_the_environment_has_the_base_alone(environment: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.util as u\n"
        "found = [n for n in ('torch', 'transformers', 'scipy', 'onnx', 'pip') if u.find_spec(n)]\n"
        "assert not found, found\n"
    )
    run(environment, "-c", code, cwd=tmp_path)


def test_the_command_says_what_it_runs_on(environment: Path, tmp_path: Path) -> None:
    command = environment.with_name("hyperfsad")
    shown = run(environment, command, "info", "--machine", "--json", cwd=tmp_path)
    machine = json.loads(shown.stdout)
    assert machine["versions"]["torch"] is None
    assert machine["auto"] == "cpu"
    assert bool(machine["kernel"]) == bool(COMPILER)


def test_the_demo(environment: Path, tiny: str, tmp_path: Path) -> None:
    """On a small random encoder: whether verdicts are right is tested elsewhere."""
    small = ("--backbone", tiny, "--resolution", "84")
    shown = run(environment, "-m", "hyperfsad", "demo", *small, cwd=tmp_path)
    assert " right. The thresholds come from" in shown.stdout
    assert [*tmp_path.glob("hyperfsad-demo/*/report.html")]


def test_a_detector_is_saved_and_used(
    environment: Path, tiny: str, photos: Path, tmp_path: Path
) -> None:
    for seed in (10, 11):
        (tmp_path / "good").mkdir(exist_ok=True)
        make_picture(seed).save(tmp_path / "good" / f"{seed}.png")
    fit = ("fit", "good", "--backbone", tiny, "--resolution", "84", "-o", "part.hfsad")
    run(environment, "-m", "hyperfsad", *fit, cwd=tmp_path)
    detect = ("detect", photos, "--detector", "part.hfsad", "-o", "out")
    run(environment, "-m", "hyperfsad", *detect, cwd=tmp_path)
    assert [row["error"] for row in read_results(tmp_path / "out")] == [None] * 5
    assert len([*(tmp_path / "out/heatmaps").iterdir()]) == 5
