"""What is not a number is an error of its image, its file or its weights: never a verdict."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hyperfsad import HyperFSAD, ImageError, UsageError
from hyperfsad.cli import main
from hyperfsad.cli.console import DONE, NOTHING
from hyperfsad.encoders.encoder import Tokens
from hyperfsad.wording import COMMAND_LINE, worded
from tests.codes import raises
from tests.conftest import make_picture, read_results


@pytest.fixture
def spoilt(tiny: str, tmp_path: Path) -> str:
    """The small model with a number that is infinite in a row that no fingerprint covers."""
    folder = tmp_path / "spoilt"
    shutil.copytree(tiny, folder)
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in sorted(weights) if "mlp.fc1.weight" in name)
    weights[name][5, 3] = float("inf")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


def test_weights_that_give_no_numbers_give_no_verdict(
    tiny: str, spoilt: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = tmp_path / "part.hfsad"
    HyperFSAD(tiny, resolution=84, device="cpu").fit([photos / "0.png", photos / "1.png"]).save(
        part
    )
    arguments = [str(photos), "--detector", str(part), "--device", "cpu", "--no-heatmaps"]
    assert main(["detect", *arguments, "-o", str(tmp_path / "good")]) == DONE
    arguments += ["--backbone", spoilt]
    assert main(["detect", *arguments, "-o", str(tmp_path / "out")]) == NOTHING
    records = read_results(tmp_path / "out")
    assert len(records) == 5
    for record in records:
        cause = worded("encoder-not-finite", {"encoder": spoilt}, COMMAND_LINE)
        facts = {"name": record["image"], "cause": cause}
        assert record["error"] == worded("result-not-finite", facts, COMMAND_LINE)
        assert (record["anomalous"], record["score"]) == (None, None)
    loaded = HyperFSAD.load(part, backbone=spoilt, device="cpu")
    with raises(ImageError, "result-not-finite"):
        loaded.predict(photos / "2.png")
    capsys.readouterr()
    fitting = ["fit", str(photos), "-o", str(tmp_path / "b.hfsad"), "--backbone", spoilt]
    assert main([*fitting, "--resolution", "84", "--device", "cpu"]) == NOTHING
    said = capsys.readouterr().err
    assert "cannot be learnt" in said
    assert "Traceback" not in said
    assert not (tmp_path / "b.hfsad").exists()


def test_only_the_image_itself_fails(
    tiny: str, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a batch of several, the others have their results."""
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu", batch_size=5)
    detector.fit([make_picture(7), make_picture(8)])
    expected = [result.score for result in detector.predict_many(photos)]
    bad = detector.prepare(photos / "3.png").pixels.sum()
    engine = detector.encoder_._engine
    compute = engine.tokens

    def tokens(pixels):  # type: ignore[no-untyped-def]
        patches, cls = compute(pixels)
        for place, one in enumerate(pixels):
            if one.sum() == bad:
                patches = patches.copy()
                patches[place, 0, 4] = float("nan")
        return patches, cls

    monkeypatch.setattr(engine, "tokens", tokens)
    results = list(detector.predict_many(photos))
    assert [result.error is None for result in results] == [True, True, True, False, True]
    assert [r.score for r in results[:3]] == pytest.approx(expected[:3], abs=1e-6)
    assert "3.png" in str(results[3].error)


@pytest.mark.parametrize("level", [float("nan"), float("inf")])
def test_a_threshold_that_is_no_number_is_refused(
    detector: HyperFSAD, tmp_path: Path, level: float
) -> None:
    detector.fit([make_picture(1), make_picture(2)])
    detector.threshold_ = level
    with raises(UsageError, "threshold-not-finite"):
        detector.predict(make_picture(3))


def test_tokens_that_are_no_numbers_have_no_score(detector: HyperFSAD) -> None:
    """Also where they do not come from an encoder."""
    detector.fit([make_picture(1), make_picture(2)])
    tokens = detector.memory_.tokens_of(0)
    assert len(detector.score_tokens(tokens)) == 1
    spoilt = Tokens(np.full_like(tokens.patches, float("nan")), tokens.cls)
    with raises(ImageError, "score-not-finite"):
        detector.score_tokens(spoilt)
