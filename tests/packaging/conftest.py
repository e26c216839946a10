"""The packages as they are published, and an environment with nothing but the base."""

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import REPOSITORY

BUILT = ("src", "docs", "examples", "tests", "benchmarks")
"""The folders that the source distribution is made of."""


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, without anything that was built before."""
    copy = tmp_path_factory.mktemp("source")
    made = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__", ".*")
    for name in BUILT:
        shutil.copytree(REPOSITORY / name, copy / name, ignore=made)
    for file in REPOSITORY.iterdir():
        if file.is_file() and not file.name.startswith("."):
            shutil.copy(file, copy)
    return copy


def build(source: Path, out: Path, *options: str, **variables: str) -> list[Path]:
    """What `python -m build` writes; with the setuptools of this environment, so offline too."""
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *options]
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [*words, str(source)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return sorted(out.iterdir())


@pytest.fixture(scope="session")
def packages(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution, and the wheel that was built from it."""
    wheel, sdist = sorted(
        build(source, tmp_path_factory.mktemp("dist")), key=lambda path: path.suffix != ".whl"
    )
    return sdist, wheel


def base_distributions() -> dict[str, Distribution]:
    """The packages that `pip install hyperfsad` brings, all the way down."""
    found: dict[str, Distribution] = {}
    wanted = list(base_requirements())
    while wanted:
        requirement = wanted.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        marker = requirement.marker
        if name in found or (marker is not None and not marker.evaluate({"extra": ""})):
            continue
        found[name] = distribution(requirement.name)
        wanted += map(Requirement, found[name].requires or [])
    return found


def base_requirements() -> Iterator[Requirement]:
    """What `dependencies` of pyproject.toml lists."""
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert listed is not None
    yield from (Requirement(found) for found in re.findall(r'^ +"(.*?)"', listed[1], re.MULTILINE))


@pytest.fixture(scope="session")
def environment(packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and the packages of the base, and no other.

    Those packages are links to the ones that the tests run with: to copy 330 MB proves nothing.
    """
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    done = subprocess.run(
        [*install, "--no-deps", "--no-index", str(packages[1])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (site,) = home.glob("lib/python*/site-packages")
    try:
        needed = base_distributions()
    except PackageNotFoundError as missing:
        pytest.skip(f"{missing} is not installed")
    for each in needed.values():
        tops = {file.parts[0] for file in each.files or ()} - {"..", "__pycache__"}
        for name in tops:
            link = site / name
            if not link.exists():
                link.symlink_to(str(each.locate_file(name)))
    return python
