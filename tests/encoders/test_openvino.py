"""OpenVINO gives torch's tokens, from a cache that may be damaged, shared, or impossible."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from hyperfsad import HyperFSAD
from hyperfsad.demo.drawing import draw
from hyperfsad.encoders import find_spec, runtime
from hyperfsad.encoders import openvino as engine_module
from hyperfsad.encoders.encoder import Encoder, Tokens, load_encoder
from hyperfsad.errors import ConversionError
from hyperfsad.images.loading import load_image
from tests.codes import raises
from tests.conftest import make_picture
from tests.encoders.test_encoder import SMALL, saved_model


@pytest.fixture
def said() -> list[Any]:
    """The notices."""
    return []


def loaded(folder: str | Path, engine: str = "openvino", **more: object) -> Encoder:
    settings = find_spec(str(folder)).settings(resolution=84)
    return load_encoder(settings, "cpu", engine=engine, **more)  # type: ignore[arg-type]


def tokens_of(encoder: Encoder, *seeds: int) -> Tokens:
    return encoder.encode([load_image(make_picture(seed)) for seed in seeds or (1,)])


def equal(first: Tokens, second: Tokens) -> bool:
    return torch.equal(first.patches, second.patches) and torch.equal(first.cls, second.cls)


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "openvino").glob("*"))


@pytest.fixture(scope="module")
def made(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the small model, converted once for all tests; nobody may change it."""
    folder = tmp_path_factory.mktemp("made") / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPERFSAD_CACHE", str(folder))
        loaded(tiny)
    return folder


@pytest.fixture
def warm(made: Path, cache: Path) -> Path:
    """A cache of the test's own, in which the small model is kept."""
    return Path(shutil.copytree(made, cache))


@pytest.mark.parametrize("last_norm", [False, True])
@pytest.mark.parametrize("family", SMALL)
@pytest.mark.usefixtures("cache")
def test_tokens_are_those_of_torch(family: str, tmp_path: Path, last_norm: bool) -> None:
    saved_model(family, tmp_path / "model")
    side = 6 * SMALL[family]["patch_size"]
    settings = find_spec(str(tmp_path / "model")).settings((2, 8), side, last_norm=last_norm)
    torch_encoder = load_encoder(settings, "cpu", engine="torch")
    converted = load_encoder(settings, "cpu", engine="openvino")
    read = load_encoder(settings, "cpu", engine="openvino")
    expected = tokens_of(torch_encoder, 1, 2, 3)
    found = tokens_of(converted, 1, 2, 3)
    assert torch_encoder.engine == "torch"
    assert converted.engine == read.engine == "openvino"
    assert found.patches.shape == expected.patches.shape
    assert found.cls.shape == expected.cls.shape
    assert (found.patches - expected.patches).abs().max() < 5e-6
    assert (found.cls - expected.cls).abs().max() < 5e-6
    assert equal(tokens_of(read, 1, 2, 3), found)
    assert converted.fingerprint == read.fingerprint == torch_encoder.fingerprint


@pytest.mark.usefixtures("warm")
def test_tokens_depend_neither_on_the_batch_nor_on_threads(tiny: str) -> None:
    encoder = loaded(tiny)
    alone = [tokens_of(encoder, seed) for seed in range(6)]
    together = tokens_of(encoder, *range(6))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        parallel = loaded(tiny, parallel=True)
        with ThreadPoolExecutor(4) as pool:
            many = list(pool.map(lambda seed: tokens_of(parallel, seed), [*range(6)] * 4))
    finally:
        torch.set_num_threads(before)
    for seed in range(6):
        assert torch.equal(together.patches[seed], alone[seed].patches[0])
        assert all(equal(found, alone[seed]) for found in many[seed::6])


@pytest.mark.usefixtures("warm")
def test_a_model_that_was_started_is_taken_once(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = find_spec(tiny).settings(resolution=84)
    how = runtime.CompileOptions(torch.get_num_threads())
    with monkeypatch.context() as patch:
        patch.setenv("HYPERFSAD_CACHE", str(tmp_path / "empty"))
        runtime.start_compiling(settings, how)  # there is nothing to compile yet
    assert not runtime._compiling
    expected = tokens_of(loaded(tiny))
    runtime.start_compiling(settings, how)
    ((_, compiling),) = runtime._compiling.values()
    assert compiling.result() is not None
    with monkeypatch.context() as patch:
        patch.setattr(runtime, "_read_model", lambda *_: pytest.fail("it was read again"))
        assert equal(tokens_of(loaded(tiny)), expected)
    assert not runtime._compiling
    assert equal(tokens_of(loaded(tiny)), expected)


@pytest.mark.usefixtures("warm")
def test_what_was_started_in_another_way_is_left(tiny: str) -> None:
    expected = loaded(tiny)
    settings = find_spec(tiny).settings(resolution=84)
    runtime.start_compiling(settings, runtime.CompileOptions(torch.get_num_threads() + 1))
    again = loaded(tiny)
    assert equal(tokens_of(again), tokens_of(expected))
    threads = again._engine.compiled.get_property("INFERENCE_NUM_THREADS")  # type: ignore[attr-defined]
    assert threads == torch.get_num_threads()


def test_a_model_that_was_started_and_is_damaged_is_made_again(tiny: str, warm: Path) -> None:
    expected = tokens_of(loaded(tiny))
    (entry,) = entries(warm)
    _rewrite(entry / runtime.CONSTANTS, b"")
    runtime.start_compiling(
        find_spec(tiny).settings(resolution=84), runtime.CompileOptions(torch.get_num_threads())
    )
    assert equal(tokens_of(loaded(tiny)), expected)


@pytest.mark.usefixtures("warm")
def test_everything_runs_in_float32(tiny: str) -> None:
    settings = find_spec(tiny).settings(resolution=84)
    engine = engine_module.load_engine(settings, lambda: pytest.fail("the model was not kept"))
    nodes = engine.compiled.get_runtime_model().get_ordered_ops()
    kinds = {node.get_rt_info()["runtimePrecision"].astype(str) for node in nodes}
    assert "f32" in kinds
    assert not kinds & {"f16", "bf16", "i8", "u8"}


def test_a_warm_start_loads_no_transformers_and_calls_nobody(
    tiny: str, warm: Path, tmp_path: Path
) -> None:
    expected = tokens_of(loaded(tiny))
    home = tmp_path / "home"
    home.mkdir()
    code = (
        "import sys\n"
        "from hyperfsad.encoders import find_spec\n"
        "from hyperfsad.encoders.encoder import load_encoder\n"
        "from hyperfsad.images.loading import load_image\n"
        "from tests.conftest import make_picture\n"
        f"settings = find_spec({tiny!r}).settings(resolution=84)\n"
        "encoder = load_encoder(settings, 'cpu', engine='openvino')\n"
        "print(float(encoder.encode([load_image(make_picture(1))]).patches.double().sum()))\n"
        "print(sorted({'transformers', 'onnx', 'scipy', 'huggingface_hub'} & set(sys.modules)))\n"
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
    assert done.stdout.splitlines() == [str(float(expected.patches.double().sum())), "[]", "[]"]
    assert list(home.iterdir()) == []
    assert len(entries(warm)) == 1


def _rewrite(path: Path, content: bytes) -> None:
    """Another file in its place: what a running encoder has mapped stays as it is."""
    path.unlink()
    path.write_bytes(content)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    _rewrite(path, bytes(content))


def _replace(path: Path) -> None:
    _rewrite(path, b'{"fingerprint": "of another model", "seal": "0"}')


@pytest.mark.parametrize("harm", [_flip, _replace, Path.unlink])
@pytest.mark.parametrize("name", [runtime.GRAPH, runtime.CONSTANTS, runtime.NOTES])
def test_a_damaged_cache_is_made_again(
    tiny: str, warm: Path, name: str, harm: Callable[[Path], None]
) -> None:
    first = loaded(tiny)
    (entry,) = entries(warm)
    harm(entry / name)
    second = loaded(tiny)
    assert second.fingerprint == first.fingerprint
    assert equal(tokens_of(second), tokens_of(first))
    assert [path.name for path in entries(warm)] == [entry.name]
    notes = json.loads((entry / runtime.NOTES).read_text())
    assert notes["fingerprint"] == first.fingerprint
    said: list[Any] = []
    loaded(tiny, notify=said.append)
    assert said == []  # and is used again


def test_changed_weights_are_noticed_though_size_and_time_are_the_same(
    tmp_path: Path, cache: Path
) -> None:
    saved_model("dinov2", tmp_path / "model", depth=2)
    file = tmp_path / "model" / "model.safetensors"
    before, stamp = loaded(tmp_path / "model"), file.stat()
    weights = load_file(file)
    save_file({name: 1.01 * tensor for name, tensor in weights.items()}, file, {"format": "pt"})
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert file.stat().st_size == stamp.st_size
    after = loaded(tmp_path / "model")
    assert after.fingerprint != before.fingerprint
    assert not equal(tokens_of(after), tokens_of(before))
    assert len(entries(cache)) == 2


def test_a_cache_that_cannot_be_written_is_reported_once(
    tiny: str, cache: Path, said: list[Any]
) -> None:
    cache.write_text("a file where the folder should be")
    encoder = loaded(tiny, notify=said.append)
    tokens_of(encoder, 1, 2)
    assert [notice.code for notice in said] == ["openvino-preparing", "openvino-not-kept"]
    assert str(cache) in said[1]


def test_several_processes_at_once(tiny: str, cache: Path) -> None:
    code = (
        "from tests.encoders.test_openvino import loaded, tokens_of\n"
        f"print(float(tokens_of(loaded({tiny!r})).patches.double().sum()))\n"
    )
    several = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=300) for process in several]
    assert [process.returncode for process in several] == [0, 0], outputs
    assert len({output for output, _ in outputs}) == 1
    assert len(entries(cache)) == 1


def test_what_openvino_cannot_run_exactly_torch_runs(
    tiny: str, cache: Path, said: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "MAX_DEVIATION", -1.0)
    monkeypatch.delenv("HYPERFSAD_ENGINE")
    encoder = loaded(tiny, engine="auto", notify=said.append)
    assert encoder.engine == "torch"
    assert said[-1].code == "torch-instead"
    with raises(ConversionError, "openvino-inexact"):
        loaded(tiny)
    assert entries(cache) == []


def test_a_broken_openvino_is_replaced_by_torch(
    tiny: str, tmp_path: Path, said: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openvino").mkdir()
    (tmp_path / "openvino" / "__init__.py").write_text("raise ImportError('no such library')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "openvino", raising=False)
    monkeypatch.delenv("HYPERFSAD_ENGINE")
    assert loaded(tiny, engine="auto", notify=said.append).engine == "torch"
    assert said == ["OpenVINO cannot be loaded: no such library. Working with torch instead."]


def test_models_that_nobody_uses_are_removed(tiny: str, cache: Path) -> None:
    old, new = (cache / "openvino" / name for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(parents=True)
    long_ago = time.time() - (engine_module.UNUSED_DAYS + 1) * 86400
    os.utime(old, (long_ago, long_ago))
    loaded(tiny)
    (entry,) = (path for path in entries(cache) if path != new)
    assert not old.exists()
    os.utime(entry, (long_ago, long_ago))
    loaded(tiny)
    assert entry.stat().st_mtime > time.time() - 3600


@pytest.mark.usefixtures("cache")
def test_a_detector_works_with_either_engine(tiny: str, photos: Path, tmp_path: Path) -> None:
    for engine, other in (("torch", "openvino"), ("openvino", "torch")):
        path = tmp_path / f"{engine}.hfsad"
        detector = HyperFSAD(tiny, resolution=84, device="cpu", engine=engine)
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
    assert default_encoder.engine == "torch"
    good = [draw("plate", seed=seed).image for seed in (1, 2)]
    bad = draw("plate", seed=3, defect="scratch").image
    results = {}
    for engine in ("torch", "openvino"):
        detector = HyperFSAD(recipe="paper-offline", device="cpu", engine=engine)
        if engine == "torch":
            detector.use_encoder(default_encoder)  # loaded once for all tests
        detector.fit(good, threshold=False)
        results[engine] = [detector.predict(image) for image in (good[0], bad)]
    for ours, theirs in zip(results["openvino"], results["torch"], strict=True):
        assert abs(ours.score - theirs.score) < 1e-4
        assert abs(ours.score_cls - theirs.score_cls) < 1e-4
        assert np.abs(ours.anomaly_map - theirs.anomaly_map).max() < 1e-4
    assert results["torch"][1].score > results["torch"][0].score + 0.01
