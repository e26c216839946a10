"""The encoder of a detector file is begun before the rest of the program is there."""

import subprocess
import sys
from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.detector.file import open_file
from hyperfsad.encoders import openvino
from hyperfsad.encoders.encoder import Encoder, load_encoder
from hyperfsad.encoders.runtime import CompileOptions
from hyperfsad.encoders.specs import EncoderSettings
from tests.conftest import make_picture

AUTO = {"device": "auto", "engine": "auto", "precision": "auto", "threads": 1}


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
    monkeypatch.setattr(openvino, "start_compiling", lambda *asked: found.append(asked))
    monkeypatch.delenv("HYPERFSAD_ENGINE", raising=False)
    return found


def test_the_encoder_of_the_file_is_begun(
    saved: Path, default_encoder: Encoder, begun: list[tuple[EncoderSettings, CompileOptions]]
) -> None:
    open_file(saved).begin_encoder(**AUTO)  # type: ignore[arg-type]
    assert begun == [(default_encoder.settings, CompileOptions(1))]


@pytest.mark.parametrize(
    "options",
    [
        {"device": "cuda"},
        {"engine": "torch"},
        {"threads": 0},
        {"threads": 999},
    ],
)
def test_nothing_is_begun_for_another_machine(
    saved: Path, options: dict[str, object], begun: list[tuple[EncoderSettings, CompileOptions]]
) -> None:
    open_file(saved).begin_encoder(**{**AUTO, **options})  # type: ignore[arg-type]
    assert begun == []


def test_the_precision_that_is_asked_for_is_begun(
    saved: Path,
    default_encoder: Encoder,
    begun: list[tuple[EncoderSettings, CompileOptions]],
) -> None:
    open_file(saved).begin_encoder(**{**AUTO, "precision": "bf16"})  # type: ignore[arg-type]
    assert begun == [(default_encoder.settings, CompileOptions(1, precision="bf16"))]


def test_it_is_begun_without_torch(saved: Path, default_encoder: Encoder) -> None:
    load_encoder(default_encoder.settings, "cpu", engine="openvino")  # keeps the model
    script = (
        "import sys; from hyperfsad.detector.file import open_file;"
        "from hyperfsad.encoders import openvino;"
        f"opened = open_file({str(saved)!r});"
        "opened.begin_encoder(device='cpu', engine='openvino', precision='auto', threads=1);"
        "assert 'torch' not in sys.modules; assert len(openvino._compiling) == 1"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
