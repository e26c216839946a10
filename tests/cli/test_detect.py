"""The commands detect and explain."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.cli.console import DONE
from hyperfsad.cli.main import main
from hyperfsad.detector.file import open_file
from tests.cli.running import run
from tests.conftest import make_picture, read_results
from tests.detector.test_file import rewritten


def test_fit_detect_extend_info(
    tiny: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    detector, out = tmp_path / "part.hfsad", tmp_path / "out"
    assert main(["fit", str(photos / "0.png"), "-o", str(detector), "--backbone", tiny]) == 0
    assert "1 normal image in 8 orientations, " in capsys.readouterr().out
    assert main(["extend", str(detector), str(photos / "1.png")]) == 0
    assert main(["info", str(detector)]) == 0
    assert "2 images" in capsys.readouterr().out
    assert main(["info", str(detector), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["normal_images"]) == 2
    command = ["detect", str(photos), "--detector", str(detector), "-o", str(out), "--save-maps"]
    assert main(command) == 0
    assert re.search(r"5 images scored, \d anomalous, 0 failed", capsys.readouterr().out)
    records = read_results(out)
    assert [record["image"] for record in records] == [
        f"{photos}/{index}.png" for index in range(5)
    ]
    assert len(os.listdir(out / "heatmaps")) == len(os.listdir(out / "maps")) == 5


def test_the_list_says_how_many_it_leaves_out(
    small: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["detect", str(photos), "--detector", str(small), "-o", str(tmp_path / "out")]
    assert main([*command, "--no-heatmaps"]) == DONE
    assert " more: " not in capsys.readouterr().out
    for seed in range(5, 13):
        make_picture(seed).save(photos / f"{seed}.png")
    assert main([*command, "--no-heatmaps"]) == DONE
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 1 + 10 + 2
    assert rows[-2].strip() == f"and 3 more: {tmp_path / 'out' / 'report.html'}"


def test_detect_can_learn_first(tiny: str, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["detect", str(photos), "--normal", str(photos / "0.png"), "-o", str(out)]
    assert main([*command, "--backbone", tiny, "--resolution", "84", "--no-heatmaps"]) == 0
    assert not (out / "heatmaps").exists()
    assert all(record["heatmap"] is None for record in read_results(out))


def test_small_regions_are_left_out(fitted: Path, photos: Path, tmp_path: Path) -> None:
    detector = HyperFSAD.load(fitted, device="cpu")
    detector.map_threshold_ = 0.3
    detector.save(fitted)
    command = ["detect", str(photos), "--detector", str(fitted), "-o", str(tmp_path / "out")]

    def areas() -> list[float]:
        coco = json.loads((tmp_path / "out" / "coco.json").read_text())
        return sorted(note["area"] for note in coco["annotations"])

    assert main(command) == 0
    every = areas()
    middle = every[len(every) // 2]
    assert main([*command, "--min-area", str(middle), "--resume"]) == 0  # not the same run
    assert areas() == [area for area in every if area >= middle]
    assert len(areas()) < len(every)


def test_detect_with_either_engine_and_one_thread(
    fitted: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "cache"))
    scores = []
    for engine in ("torch", "openvino"):
        out = tmp_path / engine
        options = ["-o", str(out), "--engine", engine, "--threads", "1"]
        done = run("detect", photos, "--detector", fitted, *options)
        assert done.returncode == 0, done.stderr
        assert ("Preparing tiny for OpenVINO (once)." in done.stderr) == (engine == "openvino")
        scores.append([record["score"] for record in read_results(out)])
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert scores[0] != scores[1]  # or the engine was not changed


def test_the_same_input_gives_the_same_bytes(tiny: str, photos: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        detector = str(tmp_path / f"{name}.hfsad")
        assert main(["fit", str(photos), "-o", detector, "--backbone", tiny]) == 0
        out = str(tmp_path / name)
        assert main(["detect", str(photos), "--detector", detector, "-o", out, "--save-maps"]) == 0
    assert (tmp_path / "a.hfsad").read_bytes() == (tmp_path / "b.hfsad").read_bytes()
    for path in sorted((tmp_path / "a").rglob("*.*")):
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


def test_some_failed_is_3_all_failed_is_1(
    fitted: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos / "2.png").write_bytes(b"")
    (photos / "shortcut.lnk").touch()
    out = ["--detector", str(fitted), "-o", str(tmp_path / "out")]
    assert main(["detect", str(photos), *out]) == 3
    streams = capsys.readouterr()
    assert "2.png is empty (0 bytes)." in streams.err
    assert "ignored that is not an image: shortcut.lnk" in streams.err
    assert re.search(r"4 images scored, \d anomalous, 1 failed", streams.out)
    assert main(["detect", str(photos / "2.png"), *out]) == 1
    assert read_results(tmp_path / "out")[0]["error"]


def test_another_encoder_for_a_saved_detector_is_refused(
    fitted: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewritten(fitted, encoder={**open_file(fitted).header["encoder"], "name": "clip-vitb16"})
    command = ["detect", str(photos), "--detector", str(fitted), "--backbone", "dinov2-vits14"]
    assert main(command) == 1
    assert "was made with clip-vitb16" in capsys.readouterr().err


def test_names_with_a_leading_dash(fitted: Path, tmp_path: Path) -> None:
    make_picture(1).save(tmp_path / "-part.png")
    done = run("detect", "--detector", fitted, "-o", "out", "--", "-part.png", cwd=tmp_path)
    assert done.returncode == 0
    assert read_results(tmp_path / "out")[0]["image"] == "-part.png"


def test_the_output_folder_is_never_read_as_input(
    fitted: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        command = ["detect", str(photos), "--detector", str(fitted), "-o", str(photos / "out")]
        assert main(command) == 0
    assert len(read_results(photos / "out")) == 5
    assert "will be replaced" in capsys.readouterr().err


def test_resuming_a_finished_run_does_nothing_again(
    fitted: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["detect", str(photos), "--detector", str(fitted), "-o", str(tmp_path / "out")]
    assert main(command) == 0
    before = (tmp_path / "out" / "results.jsonl").read_bytes()
    assert main([*command, "--resume"]) == 0
    assert "5 images done before" in capsys.readouterr().err
    assert (tmp_path / "out" / "results.jsonl").read_bytes() == before


def test_a_run_that_cannot_write_says_how_to_continue(
    fitted: Path, photos: Path, tmp_path: Path
) -> None:
    pytest.importorskip("resource", reason="files cannot be limited on this system")
    limited = (
        "import resource, sys; from hyperfsad.cli import main;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY));"
        "sys.exit(main(sys.argv[1:]))"
    )
    rest = ["detect", str(photos), "--detector", str(fitted), "-o", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", limited, *rest], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "of 5 images; run it again with --resume to continue." in done.stderr
    assert "Traceback" not in done.stderr
    assert main([*rest, "--resume"]) == 0
    assert len(read_results(tmp_path / "out")) == 5


PRESS_CTRL_C = """
import os, signal, sys
from hyperfsad.cli import main

def press(event, arguments):
    if event == "open" and str(arguments[0]).endswith("/35.png"):
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs are deaf to it
sys.addaudithook(press)
sys.exit(main(sys.argv[1:]))
"""
"""Runs a command that gets Ctrl-C when it opens a certain image."""


def test_ctrl_c_keeps_what_is_done_and_resume_continues(
    small: Path, photos: Path, tmp_path: Path
) -> None:
    for number in range(10, 40):
        make_picture(number % 5).save(photos / f"{number}.png")
    out = tmp_path / "out"
    detect = ["detect", str(photos), "--detector", str(small), "-o", str(out)]
    stopped = subprocess.run(
        [sys.executable, "-c", PRESS_CTRL_C, *detect], capture_output=True, text=True, check=False
    )
    assert stopped.returncode == 130
    assert "run it again with --resume" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert not (out / "results.jsonl").exists()
    assert not list(out.rglob("*.tmp"))

    done = run(*detect, "--resume")
    assert done.returncode == 0
    assert "done before" in done.stderr
    assert len(read_results(out)) == 35
    whole = tmp_path / "whole"
    assert main([*detect[:-1], str(whole)]) == 0
    assert (whole / "results.jsonl").read_bytes() == (out / "results.jsonl").read_bytes()


def test_detect_names_known_and_unknown_products(
    products: Path, mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["detect", str(mixed), "--detector", str(products), "-o", str(out)]) == DONE
    records = read_results(out)
    assert [record["product"] for record in records] == ["Ölring <b> 1", "bolt", None]
    assert [record["unknown_product"] for record in records] == [False, False, True]
    assert list(records[0])[-1] == "error"
    with (out / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = list(rows[0])
    assert columns[columns.index("error") + 1] == "product"  # later columns follow earlier ones
    assert [row["product"] for row in rows] == ["Ölring <b> 1", "bolt", ""]
    told = capsys.readouterr().out
    assert "0.png  (Ölring <b> 1)" in told
    assert "1 image fits no product" in told
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "fit no product" in page
    assert "Thresholds of 2 products" in page
    assert "<h2>Ölring &lt;b&gt; 1</h2>" in page
    assert "<b> 1" not in page  # names are other people's input


def test_a_run_of_products_is_resumed(
    products: Path, mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["detect", str(mixed), "--detector", str(products), "-o", str(tmp_path / "out")]
    assert main(arguments) == DONE
    assert main([*arguments, "--resume"]) == DONE
    assert "3 images done before" in capsys.readouterr().err


def test_explain_prints_and_draws(
    fitted: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["explain", str(photos / "3.png"), "--detector", str(fitted)]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "unexplained" in told
    verdict = r"(good|anomalous)( by a region)?: .* times its threshold of .* \(estimate from the"
    assert re.match(verdict, told)
    image, part = str(photos / "4.png"), str(tmp_path / "my part.hfsad")
    assert main(["calibrate", str(fitted), "--threshold", "0.001", "-o", part]) == 0
    assert main(["explain", image, "--detector", part]) == 0
    told = capsys.readouterr().out
    assert "set by hand" in told
    assert (
        f"If this is a good part, teach it: {shlex.join(['hyperfsad', 'extend', part, image])}"
        in told
    )
    picture = tmp_path / "why.png"
    assert main([*command, "--at", "40,30", "--json", "-o", str(picture)]) == 0
    streams = capsys.readouterr()
    told = json.loads(streams.out)
    assert (told["x"], told["y"]) == (40, 30)
    assert str(picture) in streams.err
    assert picture.read_bytes().startswith(b"\x89PNG")
    for name in ("0.png", "1.png"):
        (photos / name).unlink()
    assert main([*command, "-o", str(picture)]) == 0  # the numbers are there without the pictures
    streams = capsys.readouterr()
    assert re.search(r"photos.[01]\.png", streams.out)
    assert re.search(r"not on disk any more .*photos.[01]\.png.*--normal DIR", streams.err)


def test_explain_goes_to_the_product_first(
    products: Path, mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "why.png"
    arguments = ["explain", str(mixed / "1.png"), "--detector", str(products)]
    assert main([*arguments, "-o", str(picture)]) == DONE
    assert "product bolt, similarity 0.9" in capsys.readouterr().out
    assert Image.open(picture).size[0] > 100
    assert main(["explain", str(mixed / "wall.png"), "--detector", str(products), "--json"]) == DONE
    assert json.loads(capsys.readouterr().out)["unknown_product"] is True
