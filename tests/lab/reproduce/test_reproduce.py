"""The whole command on a small encoder and small data sets, and what it writes."""

import base64
import hashlib
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperfsad.cli import main
from hyperfsad.disk.files import FOLDER_LOCK
from hyperfsad.lab.presets import PRESETS
from hyperfsad.lab.reproduce import run
from hyperfsad.lab.reproduce.run import PAPER_PRESETS
from tests.disk.holding import FOLDER, held_elsewhere
from tests.forks import Forked
from tests.lab.trees import mvtec_tree

HOSTILE = 'mine <b onclick="x">&_%#'
SMALL = ("--shots", "1,2", "--runs", "2", "--device", "cpu")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Iterator[Path]:
    """Two categories, one of them once more as a set of our own with a name that needs care."""
    root = tmp_path_factory.mktemp("reproduce")
    mvtec_tree(root / "data", ["bolt", "nut"], test=3)
    sources = {"mvtec": "data", HOSTILE: {"layout": "folder", "root": "data/nut"}}
    write_suite(root / "suite.json", sources, [tiny])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPERFSAD_CACHE", str(root / "cache"))
        small = replace(PRESETS["resolution"], resolutions=(56, 84))
        patch.setitem(PRESETS, "resolution", small)
        yield root


@pytest.fixture(scope="module")
def done(home: Path) -> Path:
    """The output of the whole command."""
    assert reproduce(home / "suite.json", home / "out") == 0
    return home / "out"


def write_suite(path: Path, datasets: dict[str, Any], encoders: list[str]) -> None:
    path.write_text(json.dumps({"datasets": datasets, "encoders": encoders}), encoding="utf-8")


def reproduce(suite: Path, out: Path, *more: str) -> int:
    return main(["lab", "reproduce", "--suite", str(suite), "-o", str(out), *SMALL, *more])


def contents(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file() and p.name != FOLDER_LOCK)
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(files)}


def test_every_table_and_figure_of_the_paper_is_there(done: Path) -> None:
    text = (done / "index.html").read_text(encoding="utf-8")
    for number in range(1, 12):
        assert f"Table {number} of the paper" in text
    for words in ("as Figure 1", "as Figure 3", "as Figure 4", "as Figures 5 to 9"):
        assert words in text
    links = re.findall(r'<a href="#([^"]+)"', text)
    assert links == re.findall(r'<section id="([^"]+)"', text)
    assert {"lookup-cross", "layers-cross", "tsne", "maps", "provenance"} < set(links)
    for preset in PAPER_PRESETS:
        assert (done / preset).is_dir()


def test_published_and_measured_rows_are_told_apart(done: Path) -> None:
    text = (done / "index.html").read_text(encoding="utf-8")
    bodies = re.findall(r'<tbody class="(published|here)">(.*?)</tbody>', text, re.DOTALL)
    assert {kind for kind, _ in bodies} == {"published", "here"}
    for kind, body in bodies:
        assert ('badge published">published' in body) == (kind == "published")
        assert ("SubspaceAD" in body) <= (kind == "published")
    assert "1-shot, subset" in text
    assert "does not compete" in text or "do not compete" in text
    peers = text[text.index('<section id="peers"') : text.index('<section id="lookup"')]
    assert "badge published" not in peers
    assert "no difference is significant" in peers  # the sentences of the differences


def test_the_page_needs_nothing_else_and_runs_nothing(done: Path) -> None:
    text = (done / "index.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert not re.search(r"https?://", text)
    addresses = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert all(each.startswith(("data:image/", "#")) for each in addresses)
    assert " style=" not in text
    assert "<b onclick" not in text
    assert "mine &lt;b onclick" in text
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy


def test_provenance_ends_the_page(done: Path, tiny: str) -> None:
    text = (done / "index.html").read_text(encoding="utf-8")
    end = text[text.index('<section id="provenance"') :]
    entries = json.loads((done / "main" / "provenance.json").read_text(encoding="utf-8"))
    (entry,) = entries.values()
    assert entry["weights"] in end
    assert f"openvino {entry['versions']['openvino']}" in end
    assert "--shots 1,2 --runs 2 --seed 0" in end
    assert "Seed of the support images: 0." in end
    assert "56, 84" in end
    supports = json.loads((done / "main" / "supports.json").read_text(encoding="utf-8"))
    assert end.count('<tr><th scope="row">mvtec/') == sum(
        each["dataset"] == "mvtec" for each in supports["supports"]
    )


def test_a_second_run_writes_the_same_bytes(done: Path, home: Path) -> None:
    before = contents(done)
    assert reproduce(home / "suite.json", done) == 0
    assert contents(done) == before


KILLED = """
import os, signal, sys
written = []

def kill(event, arguments):
    if event == "os.rename" and str(arguments[1]).endswith(".npz"):
        written.append(arguments)
        if len(written) == 3:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
from hyperfsad.cli import main
main(sys.argv[1:])
"""
"""The command, killed when it is about to write its third block of scores."""


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(
    home: Path, done: Path, tmp_path: Path
) -> None:
    out, presets = tmp_path / "out", ("--presets", "lambda,pooling")
    command = ["lab", "reproduce", "--suite", home / "suite.json", "-o", out, *SMALL, *presets]
    process = Forked(command, KILLED)
    assert process.returncode == -signal.SIGKILL, process.stderr[-2000:]
    assert len(list(out.rglob("*.npz"))) == 2
    assert not (out / "index.html").exists()
    assert reproduce(home / "suite.json", out, *presets) == 0
    after = contents(out)
    undisturbed = contents(done / "lambda")
    assert {
        f"lambda{os.sep}{name}": undisturbed[name] for name in undisturbed
    }.items() <= after.items()
    assert not [name for name in after if name.endswith(".tmp")]


def test_what_is_not_here_is_told_and_the_rest_is_done(
    home: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite.json"
    few = {"layout": "folder", "root": "few"}
    mvtec_tree(tmp_path / "few", ["pin"], normal=1, test=2)
    sources = {"mvtec": str(home / "data"), "visa": "nowhere", "few": few}
    write_suite(suite, sources, [str(tmp_path / "no-encoder"), tiny])
    assert reproduce(suite, tmp_path / "out", "--presets", "pooling") == 3
    said = capsys.readouterr().err
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    top = text[: text.index('aria-label="Summary"')]
    for place in (said, top):
        assert "data set visa" in place
        assert "Zou et al." in place  # the way to get it
        assert "few/pin has 1 different good images; 2 shots need 2" in place
        assert "no-encoder" in place
    assert "Left out by choice: Comparison with published methods" in text
    records = (tmp_path / "out" / "pooling" / "records.jsonl").read_text(encoding="utf-8")
    assert {json.loads(line)["dataset"] for line in records.splitlines()} == {"mvtec"}


def test_without_any_data_set_or_encoder_nothing_is_done(
    home: Path, tmp_path: Path, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite.json"
    write_suite(suite, {"visa": "nowhere"}, [tiny])
    assert reproduce(suite, tmp_path / "out") == 1
    write_suite(suite, {"mvtec": str(home / "data")}, [str(tmp_path / "no-encoder")])
    assert reproduce(suite, tmp_path / "out") == 1
    assert reproduce(home / "suite.json", tmp_path / "out", "--presets", "magic") == 2
    said = capsys.readouterr().err
    assert "None of the data sets" in said
    assert "None of the encoders" in said
    assert "'magic' is unknown" in said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_two_never_write_to_one_folder(
    home: Path, done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(done)
    with held_elsewhere(FOLDER, done):
        assert reproduce(home / "suite.json", done) == 1
    assert "is writing to" in capsys.readouterr().err
    assert contents(done) == before


def test_supports_and_imports_are_taken(
    home: Path, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "FIGURES", {})
    suite = tmp_path / "suite.json"
    write_suite(suite, {"mvtec": str(home / "data")}, [tiny])
    assert reproduce(suite, tmp_path / "a", "--presets", "main", "--seed", "3") == 0
    first = tmp_path / "a" / "main"
    more = ["--supports", str(first / "supports.json"), "--import", f"Again={first}"]
    assert reproduce(suite, tmp_path / "b", "--presets", "main", *more) == 0
    text = (tmp_path / "b" / "index.html").read_text(encoding="utf-8")
    assert "Again (imported)" in text
    assert "Seed of the support images: 3." in text
    records = (tmp_path / "b" / "main" / "records.jsonl").read_text(encoding="utf-8")
    assert records.startswith((first / "records.jsonl").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_it_fits_a_phone_and_a_desk(
    done: Path, opened: Callable[..., Any], width: int, scheme: str
) -> None:
    shown = opened(done / "index.html", width=width, scheme=scheme)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    outside = """(width) => [...document.querySelectorAll("p, dd, li, .wide, img, figcaption, h2")]
      .filter((node) => node.getBoundingClientRect().right > width).map((node) => node.outerHTML)"""
    assert shown.evaluate(outside, width) == []
    narrow = """() => [...document.querySelectorAll("tbody tr:not(.group) > th")]
      .filter((node) => node.offsetParent && node.getBoundingClientRect().width < 60).length"""
    assert shown.evaluate(narrow) == 0
    broken = """async () => { const images = [...document.images];
      images.forEach((image) => { image.loading = "eager"; });
      await Promise.all(images.map((image) => image.decode()));
      return images.filter((image) => image.naturalWidth < 100).length; }"""
    assert shown.evaluate(broken) == 0
    light = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (light == "rgb(245, 246, 248)") == (scheme == "light")
