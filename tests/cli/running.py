"""Commands as tests run them here; those in processes of their own are in `tests.forks`."""

from pathlib import Path

import pytest

from hyperfsad.cli.console import main, parse
from hyperfsad.errors import HyperfsadError

SMALL = ("--recipe", "paper-offline", "--resolution", "84", "--device", "cpu")
"""Options that keep a new detector small."""


def command(*words: str | Path) -> int:
    """Runs a command here; its exit code."""
    return main(list(map(str, words)))


def detect(images: Path, detector: Path, out: Path, *more: str) -> int:
    return command("detect", images, "--detector", detector, "-o", out, *more)


def refusal(*words: str | Path) -> str:
    """The code of the error that ends a command; its sentence can be made."""
    options = parse(list(map(str, words)))
    with pytest.raises(HyperfsadError) as caught:
        options.run(options)
    assert str(caught.value)
    return caught.value.code


def fit_products(folder: Path, target: Path, tiny: str) -> list[str]:
    """The command that learns several products."""
    places = ["--categories", str(folder), "-o", str(target), "--backbone", tiny]
    return ["fit", *places, *SMALL]
