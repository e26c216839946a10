"""What tokens are computed in: a choice of the machine, which a detector's file remembers."""

from pathlib import Path
from typing import Any

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.encoders.devices import computes_in
from hyperfsad.encoders.runtime import precision_in
from hyperfsad.errors import UsageError
from tests.cli.running import command, refusal
from tests.codes import raises
from tests.conftest import as_fitted_in, make_picture

PARTS = [make_picture(seed) for seed in range(2)]
OTHER = make_picture(20)
HERE = [each for each in ("bf16", "int8") if computes_in(each, "openvino", "cpu")]
"""What this machine has beside float32."""


def fresh(tiny: str, **options: object) -> HyperFSAD:
    settings = {"recipe": "paper-offline", "resolution": 84, "device": "cpu", **options}
    return HyperFSAD(tiny, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def files(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector in float32, and the same as if it had been fitted in other precisions."""
    folder = tmp_path_factory.mktemp("detectors")
    exact = fresh(tiny, engine="openvino").fit(PARTS)
    exact.save(folder / "float32.hfsad")
    for precision in ("bf16", "int8", "float16", "int4"):
        as_fitted_in(exact, precision).save(folder / f"{precision}.hfsad")
    return folder


def test_the_paper_s_recipes_compute_in_float32(tiny: str) -> None:
    assert fresh(tiny).fit(PARTS).encoder_.precision == "float32"


def test_auto_is_the_fastest_that_the_machine_has(tiny: str) -> None:
    found = fresh(tiny, precision="auto").fit(PARTS).encoder_.precision
    assert found == next(iter(HERE), "float32")


@pytest.mark.parametrize("precision", ["float32", *HERE])
def test_a_saved_detector_has_the_precision_of_its_file(
    tiny: str, tmp_path: Path, precision: str
) -> None:
    fitted = fresh(tiny, precision=precision).fit(PARTS)
    fitted.save(tmp_path / "part.hfsad")
    loaded = HyperFSAD.load(tmp_path / "part.hfsad")
    assert loaded.encoder_.precision == precision
    assert precision_in(loaded.encoder_.fingerprint) == precision
    assert loaded.predict(OTHER).score == fitted.predict(OTHER).score


@pytest.mark.parametrize("precision", HERE)
def test_precisions_differ_a_little(tiny: str, precision: str) -> None:
    other, exact = (fresh(tiny, precision=each).fit(PARTS) for each in (precision, "float32"))
    assert 0 < abs(other.predict(OTHER).score - exact.predict(OTHER).score) < 0.02
    assert other.identity() != exact.identity()


def test_a_file_of_a_precision_that_is_not_here_is_read_in_float32(files: Path) -> None:
    """Of the CPU, float16 is none."""
    exact = HyperFSAD.load(files / "float32.hfsad").predict(OTHER).score
    notices: list[Any] = []
    loaded = HyperFSAD.load(files / "float16.hfsad", notify=notices.append)
    assert loaded.predict(OTHER).score == exact
    assert [(each.code, each.facts) for each in notices] == [
        ("precision-differs", {"made_in": "float16", "here": "float32"})
    ]


def test_another_precision_may_be_asked_for(files: Path) -> None:
    exact = HyperFSAD.load(files / "float32.hfsad").predict(OTHER).score
    for own in ("bf16", "int8"):
        loaded = HyperFSAD.load(files / f"{own}.hfsad", precision="float32")
        assert loaded.predict(OTHER).score == exact


def test_what_the_machine_has_not_is_refused_where_it_is_asked_for(files: Path) -> None:
    with raises(UsageError, "precision-unsupported", precision="float16"):
        HyperFSAD.load(files / "float32.hfsad", precision="float16").predict(OTHER)
    with raises(UsageError, "precision-unsupported", precision="int8"):
        HyperFSAD.load(files / "float32.hfsad", engine="torch", precision="int8")
    with raises(UsageError, "precision-unknown", precision="int4"):
        HyperFSAD.load(files / "int4.hfsad")


def test_the_option_asks_and_info_answers(
    files: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ("fit", photos, "-o", tmp_path / "x", "--engine", "torch")
    assert refusal(*fit, "--precision", "int8") == "precision-unsupported"
    assert command("info", files / "bf16.hfsad") == 0
    assert "precision   bf16\n" in capsys.readouterr().out
