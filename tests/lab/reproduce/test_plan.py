"""What is left to run, what cannot be run, and metrics that are stored."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from hyperfsad.lab.drawing.figures import evenly
from hyperfsad.lab.reproduce.run import make_plan
from hyperfsad.lab.run import Outcome, Request, Source, Suite, run_benchmark
from hyperfsad.lab.tokens import TokenCaches
from tests.lab.trees import mvtec_tree


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "cache"))
    mvtec_tree(tmp_path / "data", ["bolt", "nut"], test=2)
    return tmp_path / "data"


def run(suite: Suite, out: Path) -> Outcome:
    return run_benchmark(suite, "peers", out, Request(shots=(1,), runs=1, device="cpu"))


def test_metrics_are_kept_until_the_truth_changes(root: Path, tiny: str, tmp_path: Path) -> None:
    suite = Suite({"mvtec": Source("mvtec", str(root))}, (tiny,))
    first = run(suite, tmp_path / "out").records
    kept = next((tmp_path / "out").rglob("bolt/metrics.json"))
    before = kept.stat().st_mtime_ns
    assert run(suite, tmp_path / "out").records == first
    assert kept.stat().st_mtime_ns == before
    mask = root / "bolt" / "ground_truth" / "spot" / "000_mask.png"
    Image.new("L", (96, 80), 255).save(mask)
    again = run(suite, tmp_path / "out").records
    assert again[0].metrics["P-AUROC"] != first[0].metrics["P-AUROC"]
    assert [r for r in again if r.category == "nut"] == [r for r in first if r.category == "nut"]
    kept.write_text("{")
    assert run(suite, tmp_path / "out").records == again


def test_a_resolution_that_no_patch_fits_is_left_out(
    root: Path, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hyperfsad.lab.presets import PRESETS

    odd = replace(PRESETS["resolution"], resolutions=(56, 57))
    monkeypatch.setitem(PRESETS, "resolution", odd)
    suite = Suite({"mvtec": Source("mvtec", str(root))}, (tiny,))
    presets, caches = ("resolution", "pooling"), TokenCaches(device="cpu")
    plan = make_plan(suite, Request(shots=(1,), runs=1), presets, caches, "suite.json")
    assert list(plan.encoders) == ["pooling"]
    (absent,) = plan.absent
    assert (absent.code, absent.facts["preset"]) == ("absent-preset", "resolution")


def test_items_are_spread_over_all() -> None:
    assert evenly(range(10), 3) == [0, 3, 6]
    assert evenly(range(2), 3) == [0, 1]
