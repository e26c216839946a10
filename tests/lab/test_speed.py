"""The command `speed`: real stages on real files, and figures that fit together."""

import json

import numpy as np
import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.demo.drawing import draw
from hyperfsad.errors import UsageError
from hyperfsad.lab import speed
from hyperfsad.lab.speed import (
    INSPECTED_PARTS,
    measure_speed,
    textbook_distances,
)
from hyperfsad.method.matching import MemoryLayer
from tests.codes import raises

COMMAND = ("lab", "speed", "--rounds", "1", "--device", "cpu", "--backbone")


def test_the_report_holds_every_stage_and_ratio(
    tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*COMMAND, tiny, "--shots", "3,1"]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [cost["shots"] for cost in report["costs"]] == [1, 3]
    for cost in report["costs"]:
        assert min(cost["match"], cost["textbook"], cost["encode"], cost["end_to_end"]) > 0
        assert cost["over_encoder"] == pytest.approx(cost["end_to_end"] / cost["encode"])
        assert cost["textbook_over_ours"] == pytest.approx(cost["textbook"] / cost["match"])
    small, large = report["costs"]
    assert large["bank_bytes"] == 3 * small["bank_bytes"]
    assert large["peak_bytes"] >= small["peak_bytes"] > 10_000_000
    assert (report["engine"], report["precision"]) == ("openvino", "float32")
    assert min(report["decode"], report["prepare"]) > 0
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "end to end ms" in printed
    assert len(printed.strip().splitlines()) == 6 + 2 + 2 * 4
    for cost in report["costs"]:
        assert [peer["name"] for peer in cost["peers"]] == [
            *("ours", "nearest", "patchcore", "subspace")
        ]
        assert min(peer["match"] for peer in cost["peers"]) > 0


def test_peers_are_those_that_are_named(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*COMMAND, tiny, "--shots", "1"]
    assert main([*command, "--peers", "none"]) == 0
    assert "over ours" not in capsys.readouterr().out
    assert main([*command, "--peers", "winclip"]) == 2
    assert "not 'winclip'" in capsys.readouterr().err


def test_a_large_memory_is_too_much_for_peers(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "PEER_ROWS", 10)
    report = measure_speed(HyperFSAD(tiny, device="cpu", rotations=1), [1], rounds=1)
    assert report.costs[0].peers == ()


def test_the_bank_is_that_of_a_fitted_detector(tiny: str) -> None:
    """What is timed is the real thing: two drawn parts learnt in place, as by `fit`."""
    timed = HyperFSAD(tiny, device="cpu", rotations=1)
    measure_speed(timed, [2], rounds=1)
    fitted = HyperFSAD(tiny, device="cpu", rotations=1)
    fitted.fit(
        [draw("plate", seed=INSPECTED_PARTS + place).image for place in range(2)], threshold=False
    )
    for ours, expected in zip(timed.memory_.patches, fitted.memory_.patches, strict=True):
        assert np.array_equal(ours, expected)
    assert np.array_equal(timed.memory_.cls, fitted.memory_.cls)


def test_the_textbook_gives_the_same_distances() -> None:
    tokens = np.random.default_rng(0).standard_normal((900, 48), dtype=np.float32)
    tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    expected = textbook_distances(tokens[:100], tokens[100:])
    assert np.allclose(MemoryLayer(tokens[100:]).distances(tokens[:100]), expected, atol=1e-5)


def test_no_shots_are_refused(tiny: str) -> None:
    with raises(UsageError, "shots-rounds", shots=[0]):
        measure_speed(HyperFSAD(tiny), [0])
