"""A benchmark on a real Ray writes the same bytes as on one machine."""

from pathlib import Path

import pytest

from hyperfsad.cli import main
from hyperfsad.cli.console import DONE
from tests.lab.trees import mvtec_tree


def test_a_benchmark_on_ray_writes_the_same_bytes(
    cluster: str, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "cache"))
    mvtec_tree(tmp_path / "mvtec", ["bolt", "nut"], test=9)  # two blocks each
    words = [
        "lab",
        "benchmark",
        "--dataset",
        "mvtec",
        "--root",
        str(tmp_path / "mvtec"),
        "--shots",
        "1,2",
    ]
    words += ["--runs", "2", "--backbone", tiny, "--resolution", "84", "--device", "cpu"]
    here, there = tmp_path / "here", tmp_path / "there"
    words += ["--cache-limit", "0"]
    assert main([*words, "-o", str(here)]) == DONE
    assert main([*words, "-o", str(there), "--on", "ray", "--workers", "2"]) == DONE
    written = sorted(path.relative_to(here) for path in here.rglob("*") if path.is_file())
    assert {path.suffix for path in written} >= {".npz", ".json", ".jsonl", ".csv", ".md"}
    assert written == sorted(p.relative_to(there) for p in there.rglob("*") if p.is_file())
    for path in written:
        if path.suffix != ".npz":  # a zip of numpy holds the time
            assert (here / path).read_bytes() == (there / path).read_bytes(), path


def test_times_are_not_taken_on_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mvtec_tree(tmp_path / "mvtec", ["bolt"])
    words = ["lab", "benchmark", "--dataset", "mvtec", "--root", str(tmp_path / "mvtec")]
    words += ["--preset", "efficiency", "--on", "ray", "-o", str(tmp_path / "out")]
    assert main(words) == 1
    assert "leave --on out" in capsys.readouterr().err
