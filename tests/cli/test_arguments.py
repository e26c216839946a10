"""What options may hold: read as meant, or refused in a few words."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperfsad.cli import arguments
from hyperfsad.cli.console import NOTHING
from hyperfsad.cli.main import main
from hyperfsad.method.lookups import LOOKUPS


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (arguments.integers, "3,6,9", (3, 6, 9)),
        (arguments.integers, "4", (4,)),
        (arguments.names, "bottle,,tile", ("bottle", "tile")),
        (arguments.place, "120,45.5", (120.0, 45.5)),
        (arguments.area, "0", 0.0),
        (arguments.whole, "auto", "auto"),
        (arguments.whole, "8", 8),
        (arguments.tile, "640", 640),
        (arguments.score, "-0.5", -0.5),
        (arguments.share, "0.01", 0.01),
    ],
)
def test_a_value_is_read(kind: Callable[[str], object], text: str, value: object) -> None:
    assert kind(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (arguments.integers, "a", "not a list such as 3,6,9,12"),
        (arguments.integers, "3,", "not a list"),
        (arguments.place, "3", "not a place such as 120,45"),
        (arguments.place, "1,2,3", "not a place"),
        (arguments.area, "-1", "not a number of pixels"),
        (arguments.area, "nan", "not a number of pixels"),
        (arguments.area, "inf", "not a number of pixels"),
        (arguments.whole, "some", "not a number such as 16, or auto"),
        (arguments.tile, "0", "not a tile's side in pixels"),
        (arguments.tile, "photos/", "put --tiles last"),
        (arguments.score, "nan", "not a score such as 0.25"),
        (arguments.share, "0", "not a share between 0 and 1"),
        (arguments.share, "1", "not a share between 0 and 1"),
        (arguments.share, "half", "not a share between 0 and 1"),
    ],
)
def test_a_wrong_value_is_refused(kind: Callable[[str], object], text: str, words: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=words) as refusal:
        kind(text)
    assert str(refusal.value).startswith(repr(text))


def test_the_help_of_an_option_states_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    arguments.option(parser, "-w --wait SECONDS", "how long to wait", float, 2)
    assert vars(parser.parse_args([])) == {"wait": 2.0}
    assert vars(parser.parse_args(["-w", "0.5"])) == {"wait": 0.5}
    parser.print_help()
    told = " ".join(capsys.readouterr().out.split())
    assert "-w SECONDS, --wait SECONDS how long to wait (default: 2)" in told


def test_the_help_names_every_lookup(capsys: pytest.CaptureFixture[str]) -> None:
    """The parser must not import torch, so it lists them by hand."""
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert all(name in told for name in LOOKUPS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--threads", "100000"], "The number of threads is 1 to"),
        (["--threads", "0"], "The number of threads is 1 to"),
        (["--backbone", ""], "--backbone must be a text"),
    ],
)
def test_values_that_cannot_be_used_are_sentences(
    options: list[str], words: str, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", str(photos), "-o", str(photos / "x.hfsad"), *options]) == NOTHING
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("rate", ["1e-17", "0", "1", "nan", "x"])
def test_a_rate_that_nothing_can_promise_is_refused(
    rate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["fit", "good", "-o", "x.hfsad", "--false-alarm-rate", rate])
    assert stopped.value.code == NOTHING
    assert "and not below 0.000001" in capsys.readouterr().err
