"""How commands are parsed and how they end."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cli.console import COMMANDS, DONE, NOTHING, SOME_FAILED, main, parse
from hyperfsad.cli.lab import LAB
from hyperfsad.cli.parser import USAGE
from tests.cli.running import refusal
from tests.conftest import make_picture, read_results

HEAVY = {"torch", "transformers", "openvino", "numpy", "PIL", "onnx", "tqdm"}


@pytest.fixture(scope="module")
def places(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the wrong commands name; none of them may change it."""
    root = tmp_path_factory.mktemp("places")
    for name in ("empty", "photos"):
        (root / name).mkdir()
    for seed in range(2):
        make_picture(seed).save(root / "photos" / f"{seed}.png")
    HyperFSAD(tiny, device="cpu").fit(root / "photos").save(root / "part.hfsad")
    return {
        "root": str(root),
        "tiny": tiny,
        **{name: str(root / name) for name in ("empty", "photos", "nowhere")},
        "part": str(root / "part.hfsad"),
        "photo": str(root / "photos" / "0.png"),
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "required"),
        ("polish", "invalid choice: 'polish'"),
        ("fit {photos} -o x.hfsad --glitter", "unknown option --glitter; see hyperfsad fit --help"),
        ("detect {photos} --detectr {part}", "unknown option --detectr (did you mean --detector?)"),
        ("detect {photos} --detect {part}", "--detect (did you mean --detector?)"),
        ("fit {photos} -output x.hfsad", "-output (did you mean --output?)"),
        ("fit {photos} -o x.hfsad --false_alarm_rate=0.1", "did you mean --false-alarm-rate?"),
        ("encoders fetch clip-vitb16 --form x", "--form (did you mean --from?)"),
        ("--versoin", "--versoin (did you mean --version?); see hyperfsad --help"),
        ("info {part} {photos}", "unrecognized arguments"),
        ("fit {photos}", "required: -o/--output"),
        ("detect {photos}", "--detector --normal"),
        ("detect {photos} --detector {part} --engine jax", "choose from"),
        ("lab", "required: COMMAND"),
        ("lab benchmark", "--dataset --suite"),
        ("lab benchmark --dataset mvtec --suite x.json", "not allowed with argument --dataset"),
        ("lab stability {photos}", "--detector --normal"),
    ],
)
def test_what_cannot_be_parsed_is_one_sentence_and_exit_2(
    words: str, told: str, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([word.format_map(places) for word in words.split()])
    streams = capsys.readouterr()
    assert end.value.code == USAGE
    assert told in streams.err
    assert streams.err.startswith("hyperfsad: ")
    assert streams.err.count("\n") == 1
    assert streams.out == ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("fit -o x.hfsad", "either-or"),
        ("fit {photos} --categories {photos} -o x.hfsad", "either-or"),
        ("fit {empty} -o x.hfsad", "no-images"),
        ("fit {nowhere} -o x.hfsad", "no-images"),
        ("fit {photos} -o x.hfsad --backbone resnet", "encoder-unknown"),
        ("fit {photos} -o x.hfsad --backbone {tiny} --layers 99", "layers-range"),
        ("fit {photos} -o {photos} --backbone {tiny} --resolution 56", "write-failed"),
        ("detect {photos} --detector {nowhere}", "file-missing"),
        ("detect {photos} --detector {photo}", "file-damaged"),
        ("detect {empty} --detector {part}", "no-images"),
        ("detect {photos} --detector {part} --resolution 56", "setting-fixed"),
        ("detect {photos} --detector {part} --lambda 1", "setting-fixed"),
        ("detect {photos} --detector {part} --false-alarm-rate 0.1", "detector-has-threshold"),
        ("detect {photos} --detector {part} --calibrate {photos}", "detector-has-threshold"),
        ("detect --normal {photos} {photos}", "no-image-named"),
        ("detect {photos} --detector {part} --workers 2", "cluster-option"),
        ("detect {photos} --detector {part} --threads 0", "threads-range"),
        ("calibrate {part} --threshold 1 --false-alarm-rate 0.1", "either-or"),
        ("info {photo}", "file-damaged"),
        ("encoders fetch resnet", "encoder-not-listed"),
        ("explain {photo} --detector {part} --at 999,1", "place-outside"),
        ("explain {nowhere} --detector {part}", "image-missing"),
        ("explain {photo} --detector {part} -o x.xyz", "picture-suffix"),
        ("watch {photos} --detector {part} --webhook-on all", "webhook-missing"),
        ("lab benchmark --dataset mvtec", "dataset-without-root"),
    ],
)
def test_a_wrong_command_is_refused_and_changes_nothing(
    words: str, code: str, places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(places["root"])
    monkeypatch.chdir(root)
    before = sorted(os.listdir(root)), (root / "part.hfsad").read_bytes()
    assert refusal(*(word.format_map(places) for word in words.split())) == code
    assert (sorted(os.listdir(root)), (root / "part.hfsad").read_bytes()) == before


def test_a_refusal_is_one_sentence_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "-o", "x.hfsad"]) == USAGE
    streams = capsys.readouterr()
    assert streams.err.startswith("hyperfsad: Give either GOOD or --categories.")
    assert streams.err.count("\n") == 1
    assert streams.out == ""


def test_files_may_stand_anywhere_and_look_like_options() -> None:
    options = parse(["detect", "a.png", "--detector", "part.hfsad", "--resume", "b.png"])
    assert options.images == ["a.png", "b.png"]
    options = parse(["detect", "--detector", "part.hfsad", "-oout", "--", "--detectr"])
    assert (options.images, options.output) == (["--detectr"], "out")
    assert parse(["calibrate", "part.hfsad", "--threshold", "-0.5"]).threshold == -0.5


@pytest.mark.parametrize("command", [*COMMANDS, *(f"lab {name}" for name in LAB)])
def test_help_can_be_written_to_any_console(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    console = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(console, "ascii", write_through=True))
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--help"])
    assert end.value.code == DONE
    assert console.getvalue().startswith(f"usage: hyperfsad {command} ".encode())


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_nothing_heavy(command: str) -> None:
    """In one process all tests share the modules, so each help is printed in another."""
    code = (
        "import sys, hyperfsad.cli as cli\n"
        f"try: cli.main([*{command!r}.split(), '--help'])\n"
        "except SystemExit: pass\n"
        f"heavy = {HEAVY} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert command or all(f"\n  {name} " in done.stdout for name in COMMANDS)


def test_output_that_nobody_takes(places: dict[str, str]) -> None:
    """A full disk is one sentence; a reader that has left, as `| head` does, is not an error."""
    words = [sys.executable, "-m", "hyperfsad", "info", places["part"]]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (DONE, "")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                words, stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert done.returncode == NOTHING
        assert "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="a shell closes streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_cost_nothing(closed: str, places: dict[str, str], tmp_path: Path) -> None:
    """The work is done, the exit code is right, and no file takes the place of a stream."""
    out, damaged = tmp_path / "out", tmp_path / "damaged.png"
    damaged.write_bytes(b"no picture")
    words = [sys.executable, "-m", "hyperfsad", "detect", places["photos"], str(damaged)]
    words += ["--detector", places["part"], "-o", str(out)]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *words]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=300)
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == SOME_FAILED
    assert len(read_results(out)) == 3
