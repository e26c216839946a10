"""`fit --fast` and what other commands do with its file."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hyperfsad.cli import main
from hyperfsad.cli.console import DONE

SMALL = ("--recipe", "paper-offline", "--resolution", "112", "--device", "cpu")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good parts to learn, and a tree of others to judge."""
    root = tmp_path_factory.mktemp("parts")
    base = np.random.default_rng(3).integers(40, 200, (6, 6, 3)).astype(float)
    for seed, place in enumerate(("good", "good", "test/good", "test/spot")):
        shown = base + np.random.default_rng(seed).normal(0, 4, base.shape)
        image = Image.fromarray(np.clip(shown, 0, 255).astype(np.uint8)).resize((112, 112))
        if place.endswith("spot"):
            image.paste((255, 0, 255), (30, 40, 75, 80))
        (root / place).mkdir(parents=True, exist_ok=True)
        image.save(root / place / f"{seed}.png")
    return root


def test_a_fast_detector_from_fit_to_verdicts(
    parts: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = str(tmp_path / "part.hfsad"), tmp_path / "out"
    learn = ["fit", str(parts / "good"), "-o", file, "--fast", "--backbone", tiny, *SMALL]
    assert main(learn) == DONE
    assert "int8 pre-screening, full precision from" in capsys.readouterr().out
    assert main(["info", file]) == DONE
    told = capsys.readouterr().out
    assert "pre-screen  112 px, int8" in told
    assert "clearly good below" in told
    assert main(["detect", str(parts / "test"), "--detector", file, "-o", str(out)]) == DONE
    assert "by 8-bit pre-screening alone" in capsys.readouterr().out
    records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert {record["judged_by"] for record in records} <= {"fast", "full"}
    assert len({record["threshold"] for record in records}) == 1
    judge = ["evaluate", str(parts), "--detector", file, "-o", str(tmp_path / "judged")]
    assert main(judge) == DONE
    assert main(["calibrate", file, "--threshold", "0.9"]) == DONE
    assert "threshold   0.9000" in _info(file, capsys)


def _info(file: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["info", file]) == DONE
    return capsys.readouterr().out
