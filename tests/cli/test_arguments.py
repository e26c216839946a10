"""What options may hold: read as meant, or refused in a few words."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperfsad.cli import arguments, main
from hyperfsad.cli.console import NOTHING
from hyperfsad.method.lookups import LOOKUPS
from tests.cli.running import refusal


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
        (arguments.rate, "0.01", 0.01),
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
        (arguments.rate, "0", "not a share between 0 and 1"),
        (arguments.rate, "1", "not a share between 0 and 1"),
        (arguments.rate, "1e-17", "and not below 0.000001"),
    ],
)
def test_a_value_is_read_or_refused(
    kind: Callable[[str], object], text: str, value: object
) -> None:
    if isinstance(value, str) and value.startswith(("not", "put", "and")):
        with pytest.raises(argparse.ArgumentTypeError, match=value) as caught:
            kind(text)
        assert str(caught.value).startswith(repr(text))
    else:
        assert kind(text) == value


def test_options_are_made_from_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    table = """
    -w --wait S    how long to wait, at most 100 % of a
        day [2]
    --good GOOD... good parts (required)
    --once         once
    --tag NAME     a tag (needs x[y]); may be repeated
    """.replace("... good", "...  good")
    arguments.add_options(parser, table)
    least = {"wait": 2.0, "good": ["a", "b"], "once": False, "tag": None}
    assert vars(parser.parse_args(["--good", "a", "b"])) == least
    words = ["-w", "0.5", "--good", "a", "--once", "--tag", "x", "--tag", "y"]
    every = {"wait": 0.5, "good": ["a"], "once": True, "tag": ["x", "y"]}
    assert vars(parser.parse_args(words)) == every
    with pytest.raises(SystemExit):
        parser.parse_args([])
    parser.print_help()
    text = " ".join(capsys.readouterr().out.split())
    assert "-w S, --wait S how long to wait, at most 100 % of a day (default: 2)" in text


def test_the_help_names_every_lookup(capsys: pytest.CaptureFixture[str]) -> None:
    """The parser must not import torch, so it lists them by hand."""
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(name in text for name in LOOKUPS)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--threads", "100000"], "threads-range"),
        (["--threads", "0"], "threads-range"),
        (["--backbone", ""], "setting-invalid"),
        (["--rotations", "73"], "setting-invalid"),
        (["--tiles", "56", "--roi", "auto"], "tiles-with-roi"),
    ],
)
def test_values_that_cannot_be_used_are_refused(
    options: list[str], code: str, photos: Path
) -> None:
    assert refusal("fit", photos, "-o", photos / "x.hfsad", *options) == code


def test_files_of_figures_make_no_folders(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["coverage", "--normal", str(photos), "--json", str(tmp_path / "new" / "x.json")])
    assert stopped.value.code == NOTHING
    assert "is not a file in an existing folder" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
