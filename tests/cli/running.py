"""The command line in a process of its own."""

import subprocess
import sys
from pathlib import Path

SMALL = ("--recipe", "paper-offline", "--resolution", "84", "--device", "cpu")
"""Options that keep a new detector small."""


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "hyperfsad", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, check=False, timeout=300
    )
