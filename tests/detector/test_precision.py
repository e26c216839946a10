"""Detectors in 8 bits and in half precision: fitted with it, and never asked with another."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from hyperfsad import HyperFSAD
from hyperfsad.encoders import quantisation as room
from hyperfsad.encoders.runtime import (
    CompileOptions,
    engine_in,
    import_openvino,
    precision_in,
    precision_of,
    weights_in,
)
from hyperfsad.encoders.specs import ENGINES
from hyperfsad.errors import DetectorFileError, UsageError
from tests.codes import raises
from tests.conftest import make_picture

PARTS = [make_picture(seed) for seed in range(2)]
OTHER = make_picture(20)


def fresh(tiny: str, engine: str, **options: object) -> HyperFSAD:
    settings = {"recipe": "paper-offline", "resolution": 84, "device": "cpu", **options}
    return HyperFSAD(tiny, engine=engine, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Callable[[pytest.MonkeyPatch], None]:
    """Lets tests share one cache folder."""
    folder = tmp_path_factory.mktemp("cache")
    return lambda patch: patch.setenv("HYPERFSAD_CACHE", str(folder))


@pytest.fixture(autouse=True)
def _cache(cached: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    cached(monkeypatch)


@pytest.fixture(scope="module")
def eight(tiny: str) -> HyperFSAD:
    pytest.importorskip("nncf")
    return fresh(tiny, "openvino-int8").fit(PARTS)


@pytest.fixture(scope="module")
def saved(eight: HyperFSAD, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("detectors") / "eight.hfsad"
    eight.save(path)
    return path


def test_engines_and_precisions_name_each_other() -> None:
    assert [precision_of(engine) for engine in ENGINES[3:]] == ["bf16", "int8", "f16"]
    assert [engine_in(precision_of(engine)) for engine in ENGINES[2:]] == list(ENGINES[2:])
    assert {precision_of(engine) for engine in ENGINES[:3]} == {"f32"}


def test_8_bits_are_near_float32_and_have_thresholds_of_their_own(
    tiny: str, eight: HyperFSAD
) -> None:
    exact = fresh(tiny, "openvino").fit(PARTS)
    ours, theirs = eight.predict(OTHER), exact.predict(OTHER)
    assert 0 < abs(ours.score - theirs.score) < 0.05
    assert eight.threshold_ != exact.threshold_
    assert eight.encoder_.engine == "openvino-int8"
    assert weights_in(eight.encoder_.fingerprint) == exact.encoder_.fingerprint
    assert eight.identity() != exact.identity()


def test_tokens_come_from_8_bit_products(eight: HyperFSAD) -> None:
    compiled = eight.encoder_._engine.compiled  # type: ignore[attr-defined]
    kinds = {
        operation.get_rt_info()["runtimePrecision"].astype(str)
        for operation in compiled.get_runtime_model().get_ops()
    }
    assert kinds & {"i8", "u8"}


def test_what_suffers_most_is_not_quantised(eight: HyperFSAD) -> None:
    """The second products of the MLPs in the first three blocks, and no other ones."""
    assert eight.quantised_ is not None
    graph = (
        import_openvino()
        .Core()
        .read_model(
            eight.quantised_.graph,
            import_openvino().Tensor(np.frombuffer(eight.quantised_.constants, dtype=np.uint8)),
        )
    )
    quantised = {
        operation.get_friendly_name().partition(".layer.")[2].partition("/")[0]
        for operation in graph.get_ops()
        if operation.get_type_name() == "MatMul"
        and operation.input_value(0).get_node().get_type_name() == "FakeQuantize"
    }
    depth = eight.settings.layers[-1]
    assert depth > 3
    assert {name for name in quantised if name.endswith("fc1")} == {
        f"{block}.mlp.fc1" for block in range(depth)
    }
    assert {name for name in quantised if name.endswith("fc2")} == {
        f"{block}.mlp.fc2" for block in range(3, depth)
    }


def test_the_rest_of_8_bits_is_half_precision_where_the_machine_has_it() -> None:
    def hint(precision: str, *available: str) -> object:
        core = Mock(**{"get_property.return_value": list(available)})
        CompileOptions(1, precision=precision).compile(core, None)
        return core.compile_model.call_args.args[2]["INFERENCE_PRECISION_HINT"]

    assert hint("int8", "FP32", "INT8", "BF16") == "bf16"
    assert hint("int8", "FP32", "INT8") == "f32"
    assert [hint(one, "FP32", "BF16") for one in ("f32", "bf16")] == ["f32", "bf16"]


def test_the_file_holds_all_that_is_needed(
    eight: HyperFSAD, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "quantise", lambda *_: pytest.fail("quantised again"))
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("HYPERFSAD_ENGINE", "torch")  # what auto means for others
    loaded = HyperFSAD.load(saved)
    expected, found = eight.predict(OTHER), loaded.predict(OTHER)
    assert found.score == expected.score
    assert np.array_equal(found.anomaly_map, expected.anomaly_map)
    assert loaded.identity() == eight.identity()
    loaded.save(tmp_path / "again.hfsad")
    assert (tmp_path / "again.hfsad").read_bytes() == saved.read_bytes()


def test_another_precision_is_refused_in_a_sentence(tiny: str, saved: Path, tmp_path: Path) -> None:
    for engine in ("torch", "openvino", "openvino-bf16"):
        with raises(UsageError, "precision-of-detector", fitted_in="int8"):
            HyperFSAD.load(saved, engine=engine)
    fresh(tiny, "openvino").fit(PARTS).save(tmp_path / "exact.hfsad")
    with raises(UsageError, "precision-of-detector", engine="openvino-int8"):
        HyperFSAD.load(tmp_path / "exact.hfsad", engine="openvino-int8")


def test_an_encoder_of_another_detector_is_refused(tiny: str, eight: HyperFSAD) -> None:
    another = fresh(tiny, "openvino-int8").fit([make_picture(7)])
    with raises(DetectorFileError, "encoder-of-another-detector"):
        another.use_encoder(eight.encoder_)
    exact = fresh(tiny, "openvino").fit(PARTS)
    with raises(DetectorFileError, "encoder-precision", precision="f32", given="int8"):
        exact.use_encoder(eight.encoder_)


def test_fitted_again_it_is_quantised_again(tiny: str) -> None:
    pytest.importorskip("nncf")
    detector = fresh(tiny, "openvino-int8").fit([make_picture(3)])
    before = detector.encoder_.fingerprint
    again = detector.fit([make_picture(4)]).encoder_.fingerprint
    assert again != before
    detector.extend([make_picture(5)])  # whose tokens must be comparable with those that are known
    assert detector.encoder_.fingerprint == again
    assert len(detector.support_) == 2


def test_a_damaged_graph_is_refused(saved: Path, tmp_path: Path) -> None:
    content = bytearray(saved.read_bytes())
    place = content.index(b"<?xml") + 40
    content[place] ^= 1
    (tmp_path / "bad.hfsad").write_bytes(content)
    with raises(DetectorFileError, "file-damaged"):
        HyperFSAD.load(tmp_path / "bad.hfsad")


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
