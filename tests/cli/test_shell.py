"""What people of the shell expect: exit codes, JSON, quiet, logs, a file of options, completion."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from hyperfsad.cli.console import (
    ANOMALOUS,
    COMMANDS,
    DONE,
    NOTHING,
    SOME_FAILED,
    WITHOUT_WORK,
    make_parser,
    parse,
)
from hyperfsad.cli.lab import LAB
from hyperfsad.cli.parser import USAGE, options_of
from hyperfsad.messages import LOGGER
from hyperfsad.wording import sentences
from tests.cli.running import command, refusal
from tests.conftest import make_picture, read_results

SILENT = {"serve", "completion", "lab benchmark", "lab reproduce"}
"""Commands that find no facts, or write them to files."""


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A part that is anomalous whatever the threshold."""
    path = tmp_path / "odd.png"
    make_picture(7).point(lambda value: 255 - value).save(path)
    return path


@pytest.fixture
def strict(small: Path) -> Path:
    """A detector that lets nothing but its own parts pass."""
    assert command("calibrate", small, "--threshold", "1e-4") == DONE
    return small


def test_a_line_can_stop_at_an_anomalous_part(
    strict: Path, odd: Path, photos: Path, tmp_path: Path
) -> None:
    use = ("--detector", strict, "--no-heatmaps", "-o", tmp_path / "out")
    assert command("detect", odd, *use) == DONE
    assert command("detect", odd, *use, "--fail-on-anomalous") == ANOMALOUS
    (photos / "torn.png").write_bytes(b"torn")
    assert command("detect", odd, photos / "torn.png", *use) == SOME_FAILED
    both = (odd, photos / "torn.png", *use, "--fail-on-anomalous")
    assert command("detect", *both) == ANOMALOUS
    assert command("calibrate", strict, "--threshold", "100") == DONE
    assert command("detect", odd, *use, "--fail-on-anomalous") == DONE
    assert command("detect", photos / "torn.png", *use, "--fail-on-anomalous") == NOTHING


def test_what_was_typed_wrongly_ends_with_2(small: Path, photos: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert command("detect", empty, "--detector", small) == NOTHING  # well typed
    assert command("detect", "--normal", empty) == USAGE
    assert command("info", tmp_path / "none.hfsad") == NOTHING
    assert (
        command(
            "fit", photos, "-o", tmp_path / "x.hfsad", "--lookup", "top-p", "--memory", "compact"
        )
        == USAGE
    )
    assert sentences().keys() >= WITHOUT_WORK


def test_every_command_that_finds_something_prints_it_as_json() -> None:
    for name in [*COMMANDS, *(f"lab {below}" for below in LAB)]:
        words = name.split()
        parser = make_parser(words[0])
        actions = [each for each in parser.chosen._actions if each.choices and words[1:]]
        chosen = actions[0].choices[words[1]] if words[1:] else parser.chosen  # type: ignore[index]
        if name != "lab":
            assert ("--json" in options_of(chosen)) == (name not in SILENT), name


def test_facts_are_json(
    small: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*words: str | Path) -> Any:
        capsys.readouterr()
        assert command(*words, "--json") == DONE
        return json.loads(capsys.readouterr().out)

    saved = told("calibrate", small)
    (product,) = saved["products"]
    assert saved["normal_images"] == 2
    assert saved["detector"] == str(small)
    assert saved["bytes"] == os.path.getsize(small)
    assert product["threshold"] == saved["threshold_before"]
    assert told("extend", small, photos / "2.png")["normal_images"] == 3
    run = told("detect", photos, "--detector", small, "-o", tmp_path / "out", "--no-heatmaps")
    assert (run["images"], run["scored"], run["failed"]) == (5, 5, 0)
    worst = run["worst"]
    scores = {row["image"]: row["score"] for row in read_results(tmp_path / "out")}
    assert {row["image"]: row["score"] for row in worst} == scores
    figures = told(
        "evaluate", "--good", photos / "3.png", "--detector", small, "-o", tmp_path / "found"
    )
    assert figures == json.loads(
        (tmp_path / "found" / "evaluation.json").read_text(encoding="utf-8")
    )
    encoders = told("encoders")
    assert "dinov2-vits14" in [one["name"] for one in encoders]


def test_a_watch_prints_records(
    small: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    use = ("--detector", small, "-o", tmp_path / "out", "--once", "--settle", "0")
    assert command("watch", photos, *use, "--json") == DONE
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    stored = read_results(tmp_path / "out")
    assert [row["score"] for row in rows] == [row["score"] for row in stored]


def test_quiet_leaves_warnings_and_verbose_says_more(
    tiny: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit: list[str | Path] = ["fit", photos / "0.png", photos / "1.png"]
    fit += ["-o", tmp_path / "x.hfsad"]
    fit += ["--backbone", tiny, "--device", "cpu", "--rotations", "1", "--max-cost", "2"]
    assert command(*fit) == DONE
    usual = capsys.readouterr()
    (photos / "1.png").write_bytes(b"torn")
    assert command(*fit, "-q") == SOME_FAILED
    quiet = capsys.readouterr()
    assert "threshold" in quiet.out
    assert all(row.startswith("hyperfsad: ") for row in quiet.err.splitlines())
    assert str(photos / "1.png") in quiet.err
    assert command(*fit, "-v") == SOME_FAILED
    verbose = capsys.readouterr().err.splitlines()
    assert len(verbose) > len(usual.err.splitlines())
    assert all(re.match(r" *\d+\.\d\d s  ", row) for row in verbose)
    assert any("encoder" in row and "openvino" in row for row in verbose)


def test_a_log_file_holds_all_messages(
    small: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.log"
    (photos / "1.png").write_bytes(b"torn")
    use = ("--detector", small, "-o", tmp_path / "out", "--log-file", log)
    assert command("detect", photos, *use, "-q") == SOME_FAILED
    assert command("detect", tmp_path / "none.png", *use) == NOTHING
    rows = log.read_text(encoding="utf-8").splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d .* (DEBUG|INFO|WARNING) hyperfsad: ", r) for r in rows)
    assert sum(str(photos / "1.png") in row for row in rows if " WARNING " in row) == 1
    assert str(tmp_path / "none.png") in rows[-1]
    assert any(" DEBUG " in row for row in rows)
    nowhere = tmp_path / "none" / "run.log"
    assert command("info", small, "--log-file", nowhere) == USAGE
    assert str(nowhere) in capsys.readouterr().err


def test_options_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        'detector = "part.hfsad"\nfail-on-anomalous = true\nno-heatmaps = false\n'
        'min-area = 5\noutput = "here"\n',
        encoding="utf-8",
    )
    words = ["detect", "a.png", "--config", str(file)]
    options = parse(words)
    assert (options.images, options.detector) == (["a.png"], "part.hfsad")
    assert (options.fail_on_anomalous, options.no_heatmaps) == (True, False)
    assert (options.min_area, options.output) == (5.0, "here")
    given = parse(["detect", *words[2:], "--min-area", "7", "-othere", "--", "--c.png"])
    assert (given.min_area, given.output) == (7.0, "there")
    assert given.images == ["--c.png"]
    file.write_text(
        'calibrate = ["good/", "more/"]\nlayers = [2, 4]\nlambda = 0.5\ntiles = false\n'
        'false-alarm-rate = 0.01\noutput = "x.hfsad"\n',
        encoding="utf-8",
    )
    options = parse(["fit", f"--config={file}", "a.png"])
    assert (options.normal, options.calibrate) == (["a.png"], ["good/", "more/"])
    assert (options.layers, options.lam, options.tiles) == ((2, 4), 0.5, False)
    assert options.false_alarm_rate == 0.01
    file.write_text('webhook-header = ["A: b", "C: d"]\ndetector = "x"\n', encoding="utf-8")
    assert parse(["watch", "in/", "--config", str(file)]).webhook_header == ["A: b", "C: d"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("detectr = 'x'", "config-key"),
        ("config = 'other.toml'", "config-key"),
        ("[detect]\nresume = true", "config-key"),
        ("resume = 'yes'", "config-value"),
        ("min-area = [[1]]", "config-value"),
        ("min-area = {a = 1}", "config-value"),
        ("min-area = ", "config-unreadable"),
    ],
)
def test_a_wrong_file_of_options_is_refused(
    content: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(content, encoding="utf-8")
    words = ("detect", "a.png", "--detector", "x", "--config", file)
    assert command(*words) == USAGE
    said = capsys.readouterr().err
    assert said.startswith(f"hyperfsad: {file}")
    assert said.count("\n") == 1
    with pytest.raises(Exception, match=re.escape(str(file))) as caught:
        parse(list(map(str, words)))
    assert getattr(caught.value, "code", "") == code
    assert command("detect", "a.png", "--config", tmp_path / "none.toml") == USAGE


def test_no_file_is_obeyed_that_nobody_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hyperfsad.toml", ".hyperfsad.toml", "pyproject.toml"):
        (tmp_path / name).write_text("[tool.hyperfsad]\nresume = true\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert parse(["detect", "a.png", "--detector", "x"]).resume is False


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(
    shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("completion", shell) == DONE
    script = capsys.readouterr().out
    for word in (*COMMANDS, *LAB, "fail-on-anomalous", "paper-offline", "log-file"):
        assert word in script, word
    monkeypatch.setattr("hyperfsad.cli.completion.find_spec", lambda name: None)
    assert refusal("completion", shell) == "completion-package"


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("completion", "bash") == DONE
    script = tmp_path / "complete.bash"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    ask = """source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); f=$(complete -p hyperfsad)
    f=${f##*-F }; ${f%% *}; echo "${COMPREPLY[@]}" """

    def completed(*words: str) -> list[str]:
        run = ["bash", "-c", ask, str(script), *words]
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()

    assert completed("hyperfsad", "cali") == ["calibrate"]
    assert "--fail-on-anomalous" in completed("hyperfsad", "detect", "--fa")
    assert completed("hyperfsad", "fit", "--recipe", "paper-") == ["paper-offline"]


def test_a_run_may_be_a_table(small: Path, photos: Path, tmp_path: Path) -> None:
    use = ("--detector", small, "--no-heatmaps", "-o", tmp_path / "out")
    assert command("detect", photos, *use, "--parquet") == DONE
    rows = pyarrow.parquet.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    assert rows == read_results(tmp_path / "out")


def test_nothing_is_coloured(small: Path, photos: Path, tmp_path: Path) -> None:
    """So there is nothing that NO_COLOR would have to take away, not even on a terminal."""
    if os.name != "posix":
        pytest.skip("a terminal of POSIX")
    import pty

    master, slave = pty.openpty()
    words = [sys.executable, "-m", "hyperfsad", "detect", str(photos), "--detector", str(small)]
    words += ["-o", str(tmp_path / "out")]
    with subprocess.Popen(words, stdout=slave, stderr=slave, env={**os.environ, "NO_COLOR": "1"}):
        os.close(slave)
        shown = b""
        while True:
            try:
                more = os.read(master, 4096)
            except OSError:
                break
            if not more:
                break
            shown += more
    os.close(master)
    assert b"5 images scored" in shown
    assert not re.search(rb"\x1b\[[0-9;]*m", shown)


def test_the_example_of_the_docs_is_toml() -> None:
    text = (Path(__file__).parents[2] / "docs" / "usage.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    known = options_of(make_parser("detect").chosen)
    assert all(f"--{key}" in known for key in re.findall(r"^([a-z-]+) =", example, re.M))


def test_a_command_leaves_logging_as_it_was(small: Path, tmp_path: Path) -> None:
    logger = logging.getLogger(LOGGER)
    before = logger.level, logger.propagate, list(logger.handlers), logger.isEnabledFor(10)
    assert command("info", small, "-v", "--log-file", tmp_path / "run.log") == DONE
    after = logger.level, logger.propagate, list(logger.handlers), logger.isEnabledFor(10)
    assert after == before


@pytest.mark.parametrize("flag", ["-q", "--quiet", "-v"])
def test_flags_of_every_command_may_stand_before_it(small: Path, flag: str) -> None:
    plain = parse(["info", str(small), flag])
    assert parse([flag, "info", str(small)]) == plain
    assert parse([flag, "-q", "info", "--", str(small)]).quiet
    with pytest.raises(SystemExit) as ended:
        parse([flag])
    assert ended.value.code == USAGE


def test_learning_from_the_line_says_that_it_begins_and_ends(
    small: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("adapt", small, photos / "2.png", photos / "3.png", "-o", tmp_path / "b.hfsad")

    def told(*more: str) -> list[str]:
        assert command(*words, *more) == DONE
        rows = capsys.readouterr().err.splitlines()
        return [row.split()[0] for row in rows if row.startswith("learn")]

    assert told() == ["learning", "learnt"]
    assert told("-q") == []
