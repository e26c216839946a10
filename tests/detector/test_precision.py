"""Detectors in half precision: fitted with it, and never asked with another."""

from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.encoders.runtime import precision_in
from hyperfsad.encoders.specs import PrecisionName
from hyperfsad.errors import DetectorFileError, UsageError
from tests.cli.running import command, refusal
from tests.codes import raises
from tests.conftest import as_fitted_in, make_picture

PARTS = [make_picture(seed) for seed in range(2)]
OTHER = make_picture(20)


def fresh(tiny: str, **options: object) -> HyperFSAD:
    settings = {"recipe": "paper-offline", "resolution": 84, "device": "cpu", **options}
    return HyperFSAD(tiny, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def files(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector in float32, and the same as if it had been fitted in bf16 and in 8 bits."""
    folder = tmp_path_factory.mktemp("detectors")
    exact = fresh(tiny, engine="openvino").fit(PARTS)
    exact.save(folder / "float32.hfsad")
    for precision in ("bf16", "int8", "int4"):
        as_fitted_in(exact, precision).save(folder / f"{precision}.hfsad")
    return folder


def test_a_saved_detector_has_the_precision_of_its_file(files: Path) -> None:
    for precision in ("float32", "bf16"):
        for asked in ("auto", precision):
            loaded = HyperFSAD.load(files / f"{precision}.hfsad", device="cpu", precision=asked)
            assert loaded.settings.precision == precision


def test_another_precision_is_refused_in_a_sentence(files: Path) -> None:
    pairs: list[tuple[str, PrecisionName]] = [("bf16", "float32"), ("bf16", "float16")]
    for own, asked in [*pairs, ("float32", "bf16")]:
        with raises(UsageError, "precision-of-detector", fitted_in=own, precision=asked):
            HyperFSAD.load(files / f"{own}.hfsad", precision=asked)
    with raises(UsageError, "precision-unsupported", precision="bf16"):
        HyperFSAD.load(files / "bf16.hfsad", engine="torch")
    with raises(UsageError, "precision-unsupported", precision="int8"):
        HyperFSAD.load(files / "int8.hfsad")
    with raises(UsageError, "precision-unknown", precision="int4"):
        HyperFSAD.load(files / "int4.hfsad")


def test_an_encoder_of_another_precision_is_refused(files: Path) -> None:
    half, exact = (HyperFSAD.load(files / f"{one}.hfsad") for one in ("bf16", "float32"))
    with raises(DetectorFileError, "encoder-precision", precision="bf16", given="float32"):
        half.use_encoder(exact.encoder_)


def test_the_option_asks_and_info_answers(
    files: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = files / "bf16.hfsad"
    inspect = ("detect", photos, "-o", tmp_path / "out", "--detector", half)
    assert refusal(*inspect, "--precision", "float32") == "precision-of-detector"
    assert (
        refusal("fit", photos, "-o", tmp_path / "x", "--precision", "int8")
        == "precision-unsupported"
    )
    assert command("info", half) == 0
    assert "precision   bf16\n" in capsys.readouterr().out


def test_half_precision_where_the_machine_has_it(tiny: str, tmp_path: Path) -> None:
    try:
        half = fresh(tiny, precision="bf16").fit(PARTS)
    except UsageError as error:
        assert error.code == "precision-unsupported"  # noqa: PT017
        return
    exact = fresh(tiny, precision="float32").fit(PARTS)
    assert 0 < abs(half.predict(OTHER).score - exact.predict(OTHER).score) < 0.02
    assert half.threshold_ != exact.threshold_
    assert half.identity() != exact.identity()
    half.save(tmp_path / "half.hfsad")
    loaded = HyperFSAD.load(tmp_path / "half.hfsad")
    assert (loaded.encoder_.engine, loaded.encoder_.precision) == ("openvino", "bf16")
    assert precision_in(loaded.encoder_.fingerprint) == "bf16"
    assert loaded.predict(OTHER).score == half.predict(OTHER).score
