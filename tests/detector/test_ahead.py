"""The encoder of a detector file is begun before torch is there, and a bad file begins nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.detector import ahead
from hyperfsad.detector.ahead import begin_encoder
from hyperfsad.encoders.encoder import Encoder, load_encoder
from hyperfsad.encoders.runtime import CompileOptions
from hyperfsad.encoders.specs import EncoderSettings
from tests.conftest import make_picture

AUTO = {"device": "auto", "engine": "auto", "threads": 1}


@pytest.fixture(scope="module")
def saved(default_encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector on the default encoder."""
    path = tmp_path_factory.mktemp("detectors") / "part.hfsad"
    detector = HyperFSAD(recipe="paper-offline", device="cpu")
    detector.use_encoder(default_encoder)
    detector.fit([make_picture(1)], threshold=False).save(path)
    return path


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[EncoderSettings, CompileOptions]]:
    """What would be begun."""
    found: list[tuple[EncoderSettings, CompileOptions]] = []
    monkeypatch.setattr(ahead, "start_compiling", lambda *asked: found.append(asked))
    for name in (*ahead.BOUNDS, "HYPERFSAD_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    return found


def test_the_encoder_of_the_file_is_begun(
    saved: Path, default_encoder: Encoder, begun: list[tuple[EncoderSettings, CompileOptions]]
) -> None:
    begin_encoder(str(saved), **AUTO)  # type: ignore[arg-type]
    assert begun == [(default_encoder.settings, CompileOptions(1))]


@pytest.mark.parametrize(
    "options",
    [{"device": "cuda"}, {"engine": "torch"}, {"engine": "openvino-bf16"}, {"threads": 0}],
)
def test_nothing_is_begun_for_another_machine(
    saved: Path, options: dict[str, object], begun: list[tuple[EncoderSettings, CompileOptions]]
) -> None:
    begin_encoder(str(saved), **{**AUTO, **options})  # type: ignore[arg-type]
    assert begun == []


def test_a_bad_file_begins_nothing_and_says_nothing(
    saved: Path, tmp_path: Path, begun: list[tuple[EncoderSettings, CompileOptions]]
) -> None:
    (tmp_path / "cut").write_bytes(saved.read_bytes()[:1000])
    (tmp_path / "text").write_text("no detector")
    os.mkfifo(tmp_path / "pipe")
    for name in ("cut", "text", "pipe", "nothing", "."):
        begin_encoder(str(tmp_path / name), **AUTO)  # type: ignore[arg-type]
    assert begun == []


def test_torch_is_not_there_yet(saved: Path, default_encoder: Encoder) -> None:
    load_encoder(default_encoder.settings, "cpu", engine="openvino")  # keeps the model
    script = (
        "import sys; from hyperfsad.detector.ahead import begin_encoder;"
        "from hyperfsad.encoders import runtime;"
        f"begin_encoder({str(saved)!r}, device='cpu', engine='openvino', threads=1);"
        "assert 'torch' not in sys.modules; assert len(runtime._compiling) == 1"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
