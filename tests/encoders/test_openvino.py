"""OpenVINO's engine: threads, batches, forks, early starts, and machines that differ."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hyperfsad import HyperFSAD, threads
from hyperfsad.demo.drawing import draw
from hyperfsad.encoders import devices, find_spec
from hyperfsad.encoders import openvino as engine_module
from hyperfsad.encoders.devices import computes_in
from hyperfsad.encoders.encoder import Encoder, Tokens, load_encoder
from hyperfsad.encoders.runtime import CompileOptions
from hyperfsad.encoders.specs import EngineName
from hyperfsad.errors import ConversionError, EncoderError, UsageError
from hyperfsad.images.loading import load_image
from tests.codes import raises
from tests.conftest import make_picture
from tests.encoders.models import saved_model


@pytest.fixture
def said() -> list[Any]:
    """The notices."""
    return []


def loaded(folder: str | Path, engine: EngineName = "openvino", **more: object) -> Encoder:
    settings = find_spec(str(folder)).settings(resolution=84)
    how = {"engine": engine, "precision": "float32", **more}
    return load_encoder(settings, "cpu", **how)  # type: ignore[arg-type]


def tokens_of(encoder: Encoder, *seeds: int) -> Tokens:
    return encoder.encode([load_image(make_picture(seed)) for seed in seeds or (1,)])


def equal(first: Tokens, second: Tokens) -> bool:
    return np.array_equal(first.patches, second.patches) and np.array_equal(first.cls, second.cls)


def test_tokens_are_arrays_of_their_own(tiny: str) -> None:
    encoder = loaded(tiny)
    first = tokens_of(encoder, 1)
    before = first.patches.copy()
    second = tokens_of(encoder, 2)
    assert first.patches.dtype == np.float32
    assert first.patches.flags.c_contiguous
    assert first.patches.flags.writeable
    assert np.array_equal(first.patches, before)
    assert not equal(first, second)
    assert encoder.device == encoder.tokens_on == "cpu"


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
def test_tokens_depend_neither_on_the_batch_nor_on_threads(tiny: str, precision: str) -> None:
    if not computes_in(precision, "openvino", "cpu"):
        pytest.skip(f"this CPU does not compute in {precision}")
    encoder = loaded(tiny, precision=precision)
    alone = [tokens_of(encoder, seed) for seed in range(6)]
    together = tokens_of(encoder, *range(6))
    before = threads.count()
    threads.limit(2)
    try:
        parallel = loaded(tiny, parallel=True, precision=precision)
        with ThreadPoolExecutor(4) as pool:
            many = list(pool.map(lambda seed: tokens_of(parallel, seed), [*range(6)] * 4))
    finally:
        threads.limit(before)
    for seed in range(6):
        assert np.array_equal(together.patches[seed], alone[seed].patches[0])
        assert all(equal(found, alone[seed]) for found in many[seed::6])


def test_a_model_that_was_started_is_taken_once(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = find_spec(tiny).settings(resolution=84)
    expected = tokens_of(loaded(tiny))
    engine_module.start_compiling(settings, CompileOptions(threads.count()))
    (started,) = engine_module._compiling.values()
    assert started.result().compiled is not None
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "_compiled", lambda *_: pytest.fail("it was built again"))
        assert equal(tokens_of(loaded(tiny)), expected)
    assert not engine_module._compiling
    assert equal(tokens_of(loaded(tiny)), expected)


def test_what_was_started_in_another_way_is_left(tiny: str) -> None:
    expected = loaded(tiny)
    settings = find_spec(tiny).settings(resolution=84)
    engine_module.start_compiling(settings, CompileOptions(threads.count() + 1))
    again = loaded(tiny)
    assert not engine_module._compiling
    assert equal(tokens_of(again), tokens_of(expected))
    chosen = again._engine.compiled.get_property("INFERENCE_NUM_THREADS")  # type: ignore[attr-defined]
    assert chosen == threads.count()


@pytest.mark.usefixtures("cache")
def test_nothing_is_fetched_for_an_early_start() -> None:
    settings = find_spec("dinov2-vitb14").settings()
    engine_module.start_compiling(settings, CompileOptions(1))
    assert not engine_module._compiling


def test_what_fails_early_fails_again_when_it_is_loaded(tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path, depth=2)
    settings = find_spec(str(tmp_path)).settings(resolution=84)
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:-9])
    engine_module.start_compiling(settings, CompileOptions(threads.count()))
    with raises(EncoderError, "weights-unreadable"):
        load_encoder(settings, "cpu", engine="openvino")


def test_everything_runs_in_float32(tiny: str) -> None:
    engine = engine_module.load_engine(find_spec(tiny).settings(resolution=84))
    nodes = engine.compiled.get_runtime_model().get_ordered_ops()
    kinds = {node.get_rt_info()["runtimePrecision"].astype(str) for node in nodes}
    assert "f32" in kinds
    assert not kinds & {"f16", "bf16", "i8", "u8"}


def test_a_start_writes_nothing_and_calls_nobody(tiny: str, cache: Path, tmp_path: Path) -> None:
    expected = tokens_of(loaded(tiny))
    home = tmp_path / "home"
    home.mkdir()
    code = (
        "import sys\n"
        "from tests.encoders.test_openvino import loaded, tokens_of\n"
        f"print(float(tokens_of(loaded({tiny!r})).patches.astype('f8').sum()))\n"
        "print([name for name in sys.modules if name.startswith('openvino_telemetry')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(home), "CI": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(float(expected.patches.astype("f8").sum())), "[]"]
    assert list(home.iterdir()) == []
    assert not cache.exists()


def test_other_weights_are_another_encoder(tmp_path: Path) -> None:
    saved_model("dinov2", tmp_path, depth=2)
    before = loaded(tmp_path)
    expected = tokens_of(before)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(
        {name: np.float32(1.01) * values for name, values in weights.items()},
        tmp_path / "new.safetensors",
    )
    (tmp_path / "new.safetensors").replace(tmp_path / "model.safetensors")
    after = loaded(tmp_path)
    assert after.fingerprint != before.fingerprint
    assert not equal(tokens_of(after), expected)
    assert equal(tokens_of(before), expected)  # what runs is not touched


def test_a_precision_that_the_device_has_not_is_refused(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = Mock(**{"get_property.return_value": ["FP32", "INT8"]})
    monkeypatch.setattr(devices, "openvino_core", lambda: core)
    with raises(UsageError, "precision-unsupported", precision="bf16"):
        loaded(tiny, precision="bf16")


def test_what_holds_for_a_cpu_alone_is_not_asked_of_a_card() -> None:
    core = Mock(**{"get_property.return_value": ["FP32", "FP16"]})
    for device in ("CPU", "GPU.1"):
        CompileOptions(3, device=device).compile(core, None)
        _, where, options = core.compile_model.call_args.args
        assert where == device
        assert ("INFERENCE_NUM_THREADS" in options) == (device == "CPU")
        assert options["INFERENCE_PRECISION_HINT"] == "f32"


@pytest.mark.parametrize("off", [0.0, 1e-2])
def test_a_card_must_give_the_tokens_of_the_cpu(
    tiny: str, off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A card is played by the CPU; its tokens, which are asked for first, are moved a little."""
    compile_on, tokens = CompileOptions.compile, engine_module.OpenVINOEngine.tokens
    moved = [off, 0.0]
    monkeypatch.setattr(
        CompileOptions,
        "compile",
        lambda how, core, model: compile_on(CompileOptions(how.threads), core, model),
    )

    def played(engine: engine_module.OpenVINOEngine, pixels: Any) -> Any:
        by = moved.pop(0)
        return tuple(each + by for each in tokens(engine, pixels))

    monkeypatch.setattr(engine_module.OpenVINOEngine, "tokens", played)
    settings = find_spec(tiny).settings(resolution=84)
    if off:
        with raises(ConversionError, "openvino-inexact"):
            engine_module.load_engine(settings, device="gpu")
    else:
        assert engine_module.load_engine(settings, device="gpu").name == "openvino"


def test_a_broken_openvino_is_replaced_by_torch_where_that_is_installed(
    tiny: str, tmp_path: Path, said: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openvino").mkdir()
    (tmp_path / "openvino" / "__init__.py").write_text("raise ImportError('no such library')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "openvino", raising=False)
    monkeypatch.delenv("HYPERFSAD_ENGINE", raising=False)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)
        with raises(ConversionError, "openvino-broken"):
            loaded(tiny, engine="auto")
    pytest.importorskip("torch", reason="hyperfsad[torch]")
    assert loaded(tiny, engine="auto", notify=said.append).engine == "torch"
    assert said == ["OpenVINO cannot be loaded: no such library. Working with torch instead."]


def test_ctrl_c_after_an_encoder_was_let_go_in_another_thread(tiny: str) -> None:
    code = """
import signal, sys, threading
from hyperfsad.encoders import find_spec
from hyperfsad.encoders.encoder import load_encoder
held = [load_encoder(find_spec(sys.argv[1]).settings(resolution=84), "cpu", engine="openvino")]
thread = threading.Thread(target=held.clear)
thread.start()
thread.join()
signal.signal(signal.SIGINT, lambda *_: print("heard"))
signal.raise_signal(signal.SIGINT)
"""
    words = [sys.executable, "-c", code, tiny]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "heard\n"), done.stderr


def test_a_detector_works_with_either_engine(tiny: str, photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="compares with torch: hyperfsad[torch]")
    both: tuple[EngineName, EngineName] = ("torch", "openvino")
    for engine, other in (both, both[::-1]):
        path = tmp_path / f"{engine}.hfsad"
        detector = HyperFSAD(tiny, resolution=84, device="cpu", engine=engine, precision="float32")
        detector.fit(photos / "0.png").save(path)
        found = HyperFSAD.load(path, device="cpu", engine=other)
        assert found.encoder_.engine == other
        assert found.identity() == detector.identity()
        one, two = (each.predict(photos / "3.png") for each in (detector, found))
        assert abs(one.score - two.score) < 1e-4
        assert b"openvino" not in path.read_bytes()[:4096]


def test_scores_and_maps_of_the_default_encoder_are_those_of_torch(
    default_encoder: Encoder,
) -> None:
    pytest.importorskip("torch", reason="compares with torch: hyperfsad[torch]")
    good = [draw("plate", seed=seed).image for seed in (1, 2)]
    bad = draw("plate", seed=3, defect="scratch").image
    results = {}
    for engine in ("torch", "openvino"):
        detector = HyperFSAD(
            recipe="paper-offline", device="cpu", engine=engine, precision="float32"
        )
        if engine == default_encoder.engine:
            detector.use_encoder(default_encoder)  # loaded once for all tests
        detector.fit(good, threshold=False)
        results[engine] = [detector.predict(image) for image in (good[0], bad)]
    for ours, theirs in zip(results["openvino"], results["torch"], strict=True):
        assert abs(ours.score - theirs.score) < 1e-4
        assert abs(ours.score_cls - theirs.score_cls) < 1e-4
        assert np.abs(ours.anomaly_map - theirs.anomaly_map).max() < 1e-4
    assert results["torch"][1].score > results["torch"][0].score + 0.01
