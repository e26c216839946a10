"""Detectors in half precision: fitted with it, and never asked with another."""

from pathlib import Path

from hyperfsad import HyperFSAD
from hyperfsad.encoders.runtime import engine_in, precision_in, precision_of
from hyperfsad.encoders.specs import ENGINES
from hyperfsad.errors import UsageError
from tests.codes import raises
from tests.conftest import as_fitted_in, make_picture

PARTS = [make_picture(seed) for seed in range(2)]
OTHER = make_picture(20)


def fresh(tiny: str, engine: str, **options: object) -> HyperFSAD:
    settings = {"recipe": "paper-offline", "resolution": 84, "device": "cpu", **options}
    return HyperFSAD(tiny, engine=engine, **settings)  # type: ignore[arg-type]


def test_engines_and_precisions_name_each_other() -> None:
    assert [precision_of(engine) for engine in ENGINES[3:]] == ["bf16", "f16"]
    assert [engine_in(precision_of(engine)) for engine in ENGINES[2:]] == list(ENGINES[2:])
    assert {precision_of(engine) for engine in ENGINES[:3]} == {"f32"}


def test_another_precision_is_refused_in_a_sentence(tiny: str, tmp_path: Path) -> None:
    exact = fresh(tiny, "openvino").fit(PARTS)
    exact.save(tmp_path / "exact.hfsad")
    as_fitted_in(exact, "bf16").save(tmp_path / "half.hfsad")
    for engine in ("torch", "openvino", "openvino-f16"):
        with raises(UsageError, "precision-of-detector", fitted_in="bf16"):
            HyperFSAD.load(tmp_path / "half.hfsad", engine=engine)
    with raises(UsageError, "precision-of-detector", engine="openvino-bf16"):
        HyperFSAD.load(tmp_path / "exact.hfsad", engine="openvino-bf16")


def test_half_precision_where_the_machine_has_it(tiny: str, tmp_path: Path) -> None:
    try:
        half = fresh(tiny, "openvino-bf16").fit(PARTS)
    except UsageError as error:
        assert error.code == "precision-unsupported"  # noqa: PT017
        return
    exact = fresh(tiny, "openvino").fit(PARTS)
    assert 0 < abs(half.predict(OTHER).score - exact.predict(OTHER).score) < 0.02
    half.save(tmp_path / "half.hfsad")
    loaded = HyperFSAD.load(tmp_path / "half.hfsad")
    assert loaded.encoder_.engine == "openvino-bf16"
    assert precision_in(loaded.encoder_.fingerprint) == "bf16"
    assert loaded.predict(OTHER).score == half.predict(OTHER).score
