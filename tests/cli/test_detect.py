"""The commands detect and explain."""

import csv
import json
import os
import re
import shlex
from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cli.console import DONE, INTERRUPTED, NOTHING, SOME_FAILED
from tests.cli.running import command, detect
from tests.conftest import make_picture, read_results
from tests.forks import Forked


def test_fit_detect_extend_info(
    tiny: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    detector, out = tmp_path / "part.hfsad", tmp_path / "out"
    assert command("fit", photos / "0.png", "-o", detector, "--backbone", tiny) == DONE
    assert "1 normal image, in 8 orientations, " in capsys.readouterr().out
    assert command("extend", detector, photos / "1.png") == DONE
    assert command("info", detector) == DONE
    assert "2 images" in capsys.readouterr().out
    assert command("info", detector, "--json") == DONE
    assert len(json.loads(capsys.readouterr().out)["normal_images"]) == 2
    assert detect(photos, detector, out, "--save-maps") == DONE
    assert re.search(r"5 images scored, \d anomalous, 0 failed", capsys.readouterr().out)
    names = [record["image"] for record in read_results(out)]
    assert names == [f"{photos}/{index}.png" for index in range(5)]
    assert len(os.listdir(out / "heatmaps")) == len(os.listdir(out / "maps")) == 5


def test_the_list_says_how_many_it_leaves_out(
    small: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert detect(photos, small, tmp_path / "out", "--no-heatmaps") == DONE
    assert " more: " not in capsys.readouterr().out
    for seed in range(5, 13):
        make_picture(seed).save(photos / f"{seed}.png")
    assert detect(photos, small, tmp_path / "out", "--no-heatmaps") == DONE
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 1 + 10 + 2
    assert rows[-2].strip() == f"and 3 more: {tmp_path / 'out' / 'report.html'}"


def test_detect_can_learn_first(tiny: str, photos: Path, tmp_path: Path) -> None:
    out, learn = tmp_path / "out", ["--backbone", tiny, "--resolution", "84", "--no-heatmaps"]
    assert command("detect", photos, "--normal", photos / "0.png", "-o", out, *learn) == DONE
    assert not (out / "heatmaps").exists()
    assert all(record["heatmap"] is None for record in read_results(out))


def test_small_regions_are_left_out(fitted: Path, photos: Path, tmp_path: Path) -> None:
    detector = HyperFSAD.load(fitted, device="cpu")
    detector.map_threshold_ = 0.3
    detector.save(fitted)

    def areas(*more: str) -> list[float]:
        assert detect(photos, fitted, tmp_path / "out", *more) == DONE
        coco = json.loads((tmp_path / "out" / "coco.json").read_text())
        return sorted(note["area"] for note in coco["annotations"])

    every = areas()
    middle = every[len(every) // 2]
    left = areas("--min-area", str(middle), "--resume")  # not the same run
    assert left == [area for area in every if area >= middle]
    assert len(left) < len(every)


def test_detect_with_either_engine_and_one_thread(
    fitted: Path, photos: Path, tmp_path: Path
) -> None:
    pytest.importorskip("transformers", reason="needs the extra [torch]")
    scores = []
    for engine in ("torch", "openvino"):
        options = ["-o", str(tmp_path / engine), "--engine", engine, "--threads", "1"]
        options += ["--precision", "float32"]
        done = Forked(["detect", photos, "--detector", fitted, *options])
        assert done.returncode == DONE, done.stderr
        scores.append([record["score"] for record in read_results(tmp_path / engine)])
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert scores[0] != scores[1]  # or the engine was not changed


def test_the_same_input_gives_the_same_bytes(tiny: str, photos: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        detector = tmp_path / f"{name}.hfsad"
        assert command("fit", photos, "-o", detector, "--backbone", tiny) == DONE
        assert detect(photos, detector, tmp_path / name, "--save-maps") == DONE
    assert (tmp_path / "a.hfsad").read_bytes() == (tmp_path / "b.hfsad").read_bytes()
    for path in sorted((tmp_path / "a").rglob("*.*")):
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


def test_some_failed_is_3_all_failed_is_1(
    fitted: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos / "2.png").write_bytes(b"")
    (photos / "shortcut.lnk").touch()
    assert detect(photos, fitted, tmp_path / "out") == SOME_FAILED
    streams = capsys.readouterr()
    assert "2.png is empty" in streams.err
    assert "shortcut.lnk" in streams.err
    assert re.search(r"4 images scored, \d anomalous, 1 failed", streams.out)
    assert detect(photos / "2.png", fitted, tmp_path / "out") == NOTHING
    assert read_results(tmp_path / "out")[0]["error"]


def test_names_with_a_leading_dash(fitted: Path, tmp_path: Path) -> None:
    make_picture(1).save(tmp_path / "-part.png")
    words = ["detect", "--detector", fitted, "-o", "out", "--", "-part.png"]
    done = Forked(words, cwd=tmp_path)
    assert done.returncode == DONE
    assert read_results(tmp_path / "out")[0]["image"] == "-part.png"


def test_the_output_folder_is_never_read_as_input(
    fitted: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert detect(photos, fitted, photos / "out") == DONE
    assert len(read_results(photos / "out")) == 5
    assert "will be replaced" in capsys.readouterr().err


def test_resuming_a_finished_run_does_nothing_again(
    products: Path, mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert detect(mixed, products, tmp_path / "out") == DONE
    before = (tmp_path / "out" / "results.jsonl").read_bytes()
    assert detect(mixed, products, tmp_path / "out", "--resume") == DONE
    assert "3 images" in capsys.readouterr().err
    assert (tmp_path / "out" / "results.jsonl").read_bytes() == before


LIMITED = """
import resource, sys
from hyperfsad.cli import main

resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
sys.exit(main(sys.argv[1:]))
"""
"""Runs a command that cannot write a file of more than 2000 bytes."""

PRESS_CTRL_C = """
import os, signal, sys
from hyperfsad.cli import main

def press(event, arguments):
    if event == "open" and str(arguments[0]).endswith("/35.png"):
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(press)
sys.exit(main(sys.argv[1:]))
"""
"""Runs a command that gets Ctrl-C when it opens a certain image."""


@pytest.mark.parametrize(("code", "end"), [(LIMITED, NOTHING), (PRESS_CTRL_C, INTERRUPTED)])
def test_a_run_that_stops_keeps_what_is_done_and_resume_continues(
    code: str, end: int, small: Path, photos: Path, tmp_path: Path
) -> None:
    pytest.importorskip("resource", reason="files cannot be limited on this system")
    for number in range(10, 40):
        make_picture(number % 5).save(photos / f"{number}.png")
    out, whole = tmp_path / "out", tmp_path / "whole"
    words = ["detect", str(photos), "--detector", str(small), "-o", str(out)]
    stopped = Forked(words, code)
    assert stopped.returncode == end
    assert "of 35 images" in stopped.stderr
    assert "--resume" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert not (out / "results.jsonl").exists()
    assert not list(out.rglob("*.tmp"))
    assert detect(photos, small, out, "--resume") == DONE
    assert len(read_results(out)) == 35
    assert detect(photos, small, whole) == DONE
    assert (whole / "results.jsonl").read_bytes() == (out / "results.jsonl").read_bytes()


def test_detect_names_known_and_unknown_products(
    products: Path, mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert detect(mixed, products, out) == DONE
    records = read_results(out)
    assert [record["product"] for record in records] == ["Ölring <b> 1", "bolt", None]
    assert [record["unknown_product"] for record in records] == [False, False, True]
    assert list(records[0])[-1] == "error"
    with (out / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = list(rows[0])
    assert columns[columns.index("error") + 1] == "product"  # later columns follow earlier ones
    assert [row["product"] for row in rows] == ["Ölring <b> 1", "bolt", ""]
    printed = capsys.readouterr().out
    assert "0.png  (Ölring <b> 1)" in printed
    assert "(unknown_product): 1" in printed
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "fit no product" in page
    assert "Thresholds of 2 products" in page
    assert "<h2>Ölring &lt;b&gt; 1</h2>" in page
    assert "<b> 1" not in page  # names are other people's input


def test_explain_prints_and_draws(
    fitted: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["explain", str(photos / "3.png"), "--detector", str(fitted)]
    assert command(*words) == DONE
    printed = capsys.readouterr().out
    assert "unexplained" in printed
    verdict = r"(good|anomalous): .* % of the limit \(score .* %, map .* %; estimate from the"
    assert re.match(verdict, printed)
    image, part = str(photos / "4.png"), str(tmp_path / "my part.hfsad")
    assert command("calibrate", fitted, "--threshold", "0.001", "-o", part) == DONE
    assert command("explain", image, "--detector", part) == DONE
    printed = capsys.readouterr().out
    assert "set by hand" in printed
    assert shlex.join(["hyperfsad", "extend", part, image]) in printed
    picture = tmp_path / "why.png"
    assert command(*words, "--at", "40,30", "--json", "-o", picture) == DONE
    streams = capsys.readouterr()
    figures = json.loads(streams.out)
    assert (figures["x"], figures["y"]) == (40, 30)
    assert str(picture) in streams.err
    assert picture.read_bytes().startswith(b"\x89PNG")
    for name in ("0.png", "1.png"):
        (photos / name).unlink()
    assert command(*words, "-o", picture) == DONE  # the numbers are there without the pictures
    assert re.search(r"photos.[01]\.png", capsys.readouterr().out)
