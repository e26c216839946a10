"""The estimate in words and in figures, and metrics that are kept."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from hyperfsad.encoders.encoder import Encoder, Tokens
from hyperfsad.lab.drawing.figures import evenly
from hyperfsad.lab.efficiency import efficiency_table, encoded_images
from hyperfsad.lab.reproduce.estimate import Estimate, duration, estimate
from hyperfsad.lab.reproduce.plan import EFFICIENCY, PAPER_PRESETS, Plan, make_plan
from hyperfsad.lab.run import Outcome, Request, Source, Suite, run_benchmark
from hyperfsad.lab.token_cache import TokenCaches
from tests.lab.trees import mvtec_tree


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "cache"))
    mvtec_tree(tmp_path / "data", ["bolt", "nut"], test=2)
    return tmp_path / "data"


def run(suite: Suite, plan: Plan, caches: TokenCaches, out: Path) -> Outcome:
    return run_benchmark(suite, "peers", out / "peers", plan.request, caches=caches)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 min"),
        (60, "1 min"),
        (7800, "2 h 10 min"),
        (7200, "2 h"),
        (93600, "1 day 2 h"),
        (3 * 86400 + 300, "3 days"),
    ],
)
def test_durations_read_well(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_an_estimate_is_one_sentence() -> None:
    assert str(Estimate(7800, 3_100_000_000, 1725).notice) == (
        "About 2 h 10 min and 3.1 GB of tokens, for 1,725 images to score (estimated from a few)."
    )
    assert Estimate(0, 0, 0).notice.code == "nothing-to-score"


def test_only_what_is_left_is_estimated(root: Path, tiny: str, tmp_path: Path) -> None:
    caches = TokenCaches(device="cpu")
    suite = Suite({"mvtec": Source("mvtec", str(root))}, (tiny,))
    request = Request(shots=(1, 2), runs=1)
    plan = make_plan(suite, request, ["peers"], caches, "suite.json")
    before = estimate(plan, caches, tmp_path / "out")
    assert before.images == 8
    assert before.seconds > 0
    # 4 patches a side, 4 layers, 48 numbers of 4 bytes: 8 test images and the supports, less the
    # few that were just measured
    one = 4 * (4 * 4 + 1) * 48 * 4
    assert 0 < before.token_bytes <= 12 * one
    assert before.token_bytes % one == 0
    run(suite, plan, caches, tmp_path / "out")
    assert estimate(plan, caches, tmp_path / "out").images == 0
    next((tmp_path / "out").rglob("*/nut/0000.npz")).unlink()
    after = estimate(plan, caches, tmp_path / "out")
    assert (after.images, after.token_bytes) == (4, 0)


def test_metrics_are_kept_until_the_truth_changes(root: Path, tiny: str, tmp_path: Path) -> None:
    caches = TokenCaches(device="cpu")
    suite = Suite({"mvtec": Source("mvtec", str(root))}, (tiny,))
    plan = make_plan(suite, Request(shots=(1,), runs=1), PAPER_PRESETS, caches, "suite.json")
    first = run(suite, plan, caches, tmp_path / "out").records
    kept = next((tmp_path / "out").rglob("bolt/metrics.json"))
    before = kept.stat().st_mtime_ns
    assert run(suite, plan, caches, tmp_path / "out").records == first
    assert kept.stat().st_mtime_ns == before
    mask = root / "bolt" / "ground_truth" / "spot" / "000_mask.png"
    Image.new("L", (96, 80), 255).save(mask)
    again = run(suite, plan, TokenCaches(device="cpu"), tmp_path / "out").records
    assert again[0].metrics["P-AUROC"] != first[0].metrics["P-AUROC"]
    assert [r for r in again if r.category == "nut"] == [r for r in first if r.category == "nut"]
    kept.write_text("{")
    assert run(suite, plan, TokenCaches(device="cpu"), tmp_path / "out").records == again


def test_a_resolution_that_no_patch_fits_is_left_out(
    root: Path, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hyperfsad.lab.presets import PRESETS

    odd = replace(PRESETS["resolution"], resolutions=(56, 57))
    monkeypatch.setitem(PRESETS, "resolution", odd)
    suite = Suite({"mvtec": Source("mvtec", str(root))}, (tiny,))
    presets, caches = ("resolution", "pooling"), TokenCaches(device="cpu")
    plan = make_plan(suite, Request(shots=(1,), runs=1), presets, caches, "suite.json")
    assert plan.presets == ("pooling",)
    (absent,) = plan.absent
    assert (absent.code, absent.facts["preset"]) == ("absent-preset", "resolution")


def test_items_are_spread_over_all() -> None:
    assert evenly(range(10), 3) == [0, 3, 6]
    assert evenly(range(2), 3) == [0, 1]


def test_table_5_is_estimated_until_it_is_timed(
    root: Path, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = TokenCaches(device="cpu")
    suite = Suite({"mvtec": Source("mvtec", str(root))}, (tiny,))
    request = Request(shots=(1, 2), runs=1)
    plan = make_plan(suite, request, [EFFICIENCY], caches, "suite.json")
    assert estimate(plan, caches, tmp_path).seconds > 0
    encoded: list[int] = []
    encode = Encoder.encode_prepared

    def counted(self: Encoder, images: Sequence[NDArray[np.float32]]) -> Tokens:
        encoded.append(len(images))
        return encode(self, images)

    monkeypatch.setattr(Encoder, "encode_prepared", counted)
    work = tmp_path / EFFICIENCY / "work"
    efficiency_table(plan.categories, (tiny,), shots=(1, 2), device="cpu", work=work)
    about = encoded_images((1, 2))  # ours also looks for rotations
    assert sum(encoded) == pytest.approx(about, rel=0.05)
    assert estimate(plan, caches, tmp_path).seconds == 0
