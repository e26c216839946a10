"""The command line in a process of its own."""

import subprocess
import sys
from pathlib import Path

SMALL = ("--recipe", "paper-offline", "--resolution", "84", "--device", "cpu")
"""Options that keep a new detector small."""


def fit_products(folder: Path, target: Path, tiny: str) -> list[str]:
    """The command that learns several products."""
    places = ["--categories", str(folder), "-o", str(target), "--backbone", tiny]
    return ["fit", *places, *SMALL]


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "hyperfsad", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, check=False, timeout=300
    )
