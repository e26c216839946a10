"""What options may hold: read as meant, or refused in a few words."""

import argparse
from pathlib import Path

import pytest

from hyperfsad.cli import main
from hyperfsad.cli.arguments import KINDS, add_options
from hyperfsad.cli.console import parse
from hyperfsad.cli.parser import USAGE
from hyperfsad.lab.run import Request
from hyperfsad.method.lookups import LOOKUPS
from tests.cli.running import refusal


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("1,2,4", "3,6,9", (3, 6, 9)),
        ("1,2,4", "4", (4,)),
        ("A,B", "bottle,,tile", ("bottle", "tile")),
        ("X,Y", "120,45.5", (120.0, 45.5)),
        ("PIXELS", "0", 0.0),
        ("auto", "auto", "auto"),
        ("auto", "8", 8),
        ("tiles", "640", 640),
        ("SCORE", "-0.5", -0.5),
        ("RATE", "0.01", 0.01),
    ],
)
def test_a_value_is_read(kind: str, text: str, value: object) -> None:
    assert KINDS[kind](text) == value


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("1,2,4", ["a", "3,"]),
        ("X,Y", ["3", "1,2,3"]),
        ("PIXELS", ["-1", "nan", "inf"]),
        ("auto", ["some"]),
        ("tiles", ["0", "photos/"]),
        ("SCORE", ["nan"]),
        ("RATE", ["0", "1", "1e-17"]),
    ],
)
def test_a_value_is_refused(kind: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(argparse.ArgumentTypeError) as caught:
            KINDS[kind](text)
        assert str(caught.value).startswith(repr(text))


def test_options_are_made_from_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    table = """
    -w --wait S    how long to wait, at most 100 % of a
        day [2]
    --good GOOD... good parts (required)
    --once         once
    --tag NAME     a tag (needs x[y]); may be repeated
    """.replace("... good", "...  good")
    add_options(parser, table)
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


def test_files_of_pictures_make_no_folders(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["explain", str(photos), "--detector", "x", "-o", str(tmp_path / "new" / "x.png")])
    assert stopped.value.code == USAGE
    assert "is not a file in an existing folder" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_lab_computes_in_float32_whatever_auto_means() -> None:
    for words in (
        "benchmark --dataset mvtec",
        "reproduce --suite suite.json",
        "speed",
        "certify --normal good --good a.png --bad b.png",
        "stability a.png --normal good",
    ):
        assert parse(["lab", *words.split()]).precision == "float32"
    assert (Request().precision, parse(["demo"]).precision) == ("float32", None)
