"""How commands are parsed and how they end."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cli.main import COMMANDS, main, parse
from tests.conftest import make_picture

HEAVY = {"torch", "transformers", "numpy", "PIL", "onnx", "tqdm"}


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
    ("command", "words"),
    [
        ("", "required"),
        ("polish", "invalid choice: 'polish'"),
        ("fit {photos} -o x.hfsad --shine", "unknown option --shine; see hyperfsad fit --help"),
        ("detect {photos} --detectr {part}", "unknown option --detectr (did you mean --detector?)"),
        ("detect {photos} --detect {part}", "--detect (did you mean --detector?)"),
        ("fit {photos} -output x.hfsad", "-output (did you mean --output?)"),
        ("fit {photos} -o x.hfsad --false_alarm_rate=0.1", "did you mean --false-alarm-rate?"),
        ("encoders fetch clip-vitb16 --form x", "--form (did you mean --from?)"),
        ("--versoin", "--versoin (did you mean --version?); see hyperfsad --help"),
        ("info {part} {photos}", "unrecognized arguments"),
        ("fit {photos}", "required: -o/--output"),
        ("fit -o x.hfsad", "Give either images of good parts, or --categories"),
        ("fit {photos} --categories {photos} -o x.hfsad", "Give either images of good parts"),
        ("fit {empty} -o x.hfsad", "holds no images"),
        ("fit {nowhere} -o x.hfsad", "does not exist"),
        ("fit {photos} -o x.hfsad --backbone resnet", "neither a known encoder"),
        ("fit {photos} -o x.hfsad --backbone {tiny} --layers 99", "layers 1 to 4"),
        (
            "fit {photos} -o {photos} --backbone {tiny} --resolution 56 --rotations 1",
            "it is a folder",
        ),
        ("detect {photos}", "--detector --normal"),
        ("detect {photos} --detector {nowhere}", "no detector file"),
        ("detect {photos} --detector {photo}", "no detector file"),
        ("detect {empty} --detector {part}", "holds no images"),
        ("detect {photos} --detector {part} --resolution 56", "fixed in a saved"),
        ("detect {photos} --detector {part} --lambda 1", "--lambda is fixed"),
        ("detect {photos} --detector {part} --false-alarm-rate 0.1", "has its threshold"),
        ("detect {photos} --detector {part} --calibrate {photos}", "has its threshold"),
        ("detect --normal {photos} {photos}", "put the images before --normal"),
        ("detect {photos} --detector {part} --engine jax", "choose from"),
        ("detect {photos} --detector {part} --threads 0", "threads is 1 to "),
        ("calibrate {part} --threshold 1 --false-alarm-rate 0.1", "Give either --threshold"),
        ("info {photo}", "no detector file"),
        ("encoders fetch resnet", "not one of"),
        ("explain {photo} --detector {part} --at 999,1", "lies outside"),
        ("explain {nowhere} --detector {part}", "does not exist"),
        ("explain {photo} --detector {part} -o x.xyz", "ends with .jpg"),
        ("lab benchmark --dataset mvtec", "Give --dataset and --root"),
    ],
)
def test_a_wrong_command_is_one_sentence_and_exit_1(
    command: str,
    words: str,
    places: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = Path(places["root"])
    monkeypatch.chdir(root)
    before = sorted(os.listdir(root)), (root / "part.hfsad").read_bytes()
    try:
        code = main([word.format_map(places) for word in command.split()])
    except SystemExit as end:  # of the parser
        code = int(end.code or 0)
    streams = capsys.readouterr()
    assert code == 1
    assert words in streams.err
    assert streams.err.startswith("hyperfsad: ")
    assert streams.err.count("\n") == 1
    assert streams.out == ""
    assert (sorted(os.listdir(root)), (root / "part.hfsad").read_bytes()) == before


def test_images_may_stand_before_and_after_the_options() -> None:
    options = parse(["detect", "a.png", "--detector", "part.hfsad", "--resume", "b.png"])
    assert options.images == ["a.png", "b.png"]


def test_what_only_looks_like_a_mistyped_option_is_taken_as_it_is() -> None:
    options = parse(["detect", "--detector", "part.hfsad", "-oout", "--", "--detectr"])
    assert (options.images, options.output) == (["--detectr"], "out")
    assert parse(["calibrate", "part.hfsad", "--threshold", "-0.5"]).threshold == -0.5


@pytest.mark.parametrize("command", COMMANDS)
def test_help_can_be_written_to_any_console(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    console = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(console, "ascii", write_through=True))
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert console.getvalue().startswith(f"usage: hyperfsad {command} ".encode())


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, hyperfsad.cli as cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        f"heavy = {HEAVY} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_nothing_heavy_before_it_runs(command: str) -> None:
    """In one process all tests share the modules, so each parser is made in another."""
    code = (
        "import sys\n"
        "from hyperfsad.cli.main import make_parser\n"
        f"make_parser({command!r})\n"
        f"heavy = {HEAVY} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_full_output_is_one_sentence(places: dict[str, str]) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hyperfsad", "info", places["part"]],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_left_is_no_error(places: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "hyperfsad", "info", places["part"]],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
