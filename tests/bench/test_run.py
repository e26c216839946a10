"""A whole benchmark run through the command line, on a small data set in MVTec's layout."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hyperfsad.bench.illustrate import draw_curves, published_points
from hyperfsad.bench.metrics import image_metrics, pixel_metrics
from hyperfsad.bench.presets import PRESETS, build_tables
from hyperfsad.bench.protocol import Record, upsampled
from hyperfsad.bench.run import Suite
from hyperfsad.cli.main import main
from hyperfsad.errors import UsageError
from hyperfsad.peers import FastReconAuthors, SubspaceADAuthors, make_peer
from hyperfsad.peers.peer import Peer
from tests.bench.trees import mvtec_tree
from tests.peers.clip import save_clip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "cache"))
    mvtec_tree(tmp_path / "data", ["bolt", "nut"])
    return tmp_path / "data"


def benchmark(root: Path, tiny: str, out: Path, *more: str) -> int:
    command = ["benchmark", "--dataset", "mvtec", "--root", str(root), "--backbone", tiny]
    return main([*command, "--shots", "1,2", "--runs", "2", "-o", str(out), *more])


def read_records(path: Path) -> list[Record]:
    """The records that a run has written."""
    lines = path.read_text(encoding="utf-8").splitlines()
    fields = [json.loads(line) for line in lines]
    return [Record(**{**record, "support": tuple(record["support"])}) for record in fields]


@pytest.fixture
def small_authors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The authors' settings at a fraction of their cost."""
    monkeypatch.setattr(SubspaceADAuthors, "RESOLUTION", 84)
    monkeypatch.setattr(SubspaceADAuthors, "angles", (0.0, 40.0, 170.0))
    monkeypatch.setattr(FastReconAuthors, "GRID", 5)


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "resolution"])
@pytest.mark.usefixtures("small_authors")
def test_every_preset_writes_records_and_tables(
    root: Path, tiny: str, tmp_path: Path, preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert benchmark(root, tiny, out, "--preset", preset) == 0
    records = read_records(out / "records.jsonl")
    methods = {record.method for record in records}
    assert len(records) == len(methods) * 2 * 2 * 2
    assert all(len(record.support) == record.shots for record in records)
    printed = capsys.readouterr().out
    for stem in build_tables(preset, records):
        for suffix in (".md", ".csv", ".json", ".tex"):
            assert (out / f"{stem}{suffix}").stat().st_size > 100
        assert (out / f"{stem}.md").read_text(encoding="utf-8").strip() in printed
    assert "(published)" in printed


def test_either_engine_finds_the_same_on_any_number_of_threads(
    root: Path, tiny: str, tmp_path: Path
) -> None:
    before = torch.get_num_threads()
    found = {}
    try:
        for engine, threads in (("torch", 2), ("openvino", 1), ("openvino", 2)):
            out = tmp_path / f"{engine}-{threads}"
            more = ["--engine", engine, "--threads", str(threads), "--cache-limit", "0"]
            assert benchmark(root, tiny, out, *more) == 0
            found[engine, threads] = read_records(out / "records.jsonl")
    finally:
        torch.set_num_threads(before)
    assert found["openvino", 1] == found["openvino", 2]
    for ours, theirs in zip(found["openvino", 1], found["torch", 2], strict=True):
        assert ours.metrics == pytest.approx(theirs.metrics, abs=0.01)


def test_resolutions_are_rows_of_one_table_and_one_curve(
    root: Path, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(PRESETS["resolution"], resolutions=(56, 84))
    monkeypatch.setitem(PRESETS, "resolution", small)
    out = tmp_path / "out"
    assert benchmark(root, tiny, out, "--preset", "resolution") == 0
    records = read_records(out / "records.jsonl")
    assert {record.resolution for record in records} == {56, 84}
    curves = [path.name for path in draw_curves("resolution", records, tmp_path / "figures")]
    metrics = ("i-auroc", "p-auroc")
    assert curves == [
        f"resolution-tiny-{m}{suffix}" for m in metrics for suffix in (".png", ".pdf")
    ]


def test_turned_support_is_a_row_of_its_own(
    root: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert benchmark(root, tiny, out, "--preset", "peers", "--rotations", "8") == 0
    methods = {record.method for record in read_records(out / "records.jsonl")}
    assert {"nearest", "nearest, 8 rotations", "subspace, 8 rotations"} < methods
    assert benchmark(root, tiny, out, "--rotations", "8") == 1
    assert "--preset peers" in capsys.readouterr().err


def assert_same(record: Record, detector: Peer, root: Path) -> None:
    """The record is what the detector finds, fitted and asked on its own."""
    place = root / record.category
    detector.fit([place / "train" / "good" / name for name in record.support])
    images = sorted(place.glob("test/*/*.png"))
    results = list(detector.predict(images))
    anomalous = np.array([image.parent.name != "good" for image in images])
    expected = image_metrics(anomalous, np.array([result.score for result in results]))
    masks = np.zeros((len(images), 256, 256), dtype=bool)
    for index, image in enumerate(images):
        if anomalous[index]:
            mask = place / "ground_truth" / image.parent.name / f"{image.stem}_mask.png"
            masks[index] = np.asarray(Image.open(mask).resize((256, 256), 0)) > 0
    maps = upsampled(np.stack([result.anomaly_map for result in results]), 256, detector.smoothing)
    assert record.metrics == pytest.approx(expected | pixel_metrics(maps, masks), abs=1e-6)


def test_winclip_calls_every_category_by_its_own_name(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tiny-clip"
    save_clip(folder)
    out = tmp_path / "out"
    assert benchmark(root, str(folder), out, "--preset", "peers", "--runs", "1") == 0
    records = [r for r in read_records(out / "records.jsonl") if r.method.startswith("winclip")]
    assert {record.category for record in records} == {"bolt", "nut"}
    assert {record.method for record in records} == {"winclip", "winclip, zero-shot"}
    for record in records:
        options = {"class_name": record.category, "references": record.method == "winclip"}
        assert_same(record, make_peer("winclip", str(folder), device="cpu", **options), root)


@pytest.mark.usefixtures("small_authors")
def test_authors_settings_are_those_of_the_peers(root: Path, tiny: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert benchmark(root, tiny, out, "--preset", "authors", "--runs", "1") == 0
    records = read_records(out / "records.jsonl")
    apart = [record for record in records if "authors' settings" in record.method]
    assert {(r.method.partition(",")[0], r.resolution) for r in apart} == {
        ("subspace", 84),
        ("fastrecon", 70),
    }
    for record in apart:
        name = f"{record.method.partition(',')[0]}-authors"
        assert_same(record, make_peer(name, tiny, device="cpu"), root)


def test_figures_are_drawn(root: Path, tiny: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert benchmark(root, tiny, out, "--preset", "lambda", "--figures") == 0
    folder = out / "figures" / "tiny-56"
    stems = {path.stem for path in folder.glob("*.png")}
    assert stems == {path.stem for path in folder.glob("*.pdf")}
    assert stems == {
        *("lambda-qualitative", "lambda-truth-over-map-1", "tsne-cls", "accuracy-efficiency"),
    }
    curves = {path.name for path in (out / "figures").glob("lambda-*")}
    metrics = ("i-auroc", "i-f1", "i-ap")
    assert curves == {f"lambda-tiny-{m}{suffix}" for m in metrics for suffix in (".png", ".pdf")}


def test_efficiency_times_every_stage(
    root: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark(root, tiny, tmp_path / "out", "--preset", "efficiency") == 0
    table = json.loads((tmp_path / "out" / "efficiency.json").read_text(encoding="utf-8"))
    ours = [row for row in table["rows"] if row["ours"]]
    assert len(ours) == 2
    decode, encode, match, total = (cell["mean"] for cell in ours[0]["cells"][2:6])
    assert 0 < max(decode, encode, match) < total
    assert "RTX 3090" in capsys.readouterr().out


def test_figure_1_shows_the_ten_timed_methods() -> None:
    points = published_points()
    assert len(points) == 10
    ours = next(point for point in points if point.ours)
    assert (ours.i_auroc, ours.p_auroc) == pytest.approx((89.95, 97.0), abs=0.01)
    assert ours.milliseconds == 52.6


def test_the_same_command_gives_the_same_bytes(root: Path, tiny: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert benchmark(root, tiny, tmp_path / name) == 0
    for path in (tmp_path / "a").glob("*.*"):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_suite_names_several_data_sets(root: Path, tiny: str, tmp_path: Path) -> None:
    file = root.parent / "suite.json"
    sources = {"mvtec": "data", "mine": {"layout": "folder", "root": "data/nut"}}
    file.write_text(json.dumps({"datasets": sources, "encoders": [tiny]}))
    out = tmp_path / "out"
    assert (
        main(["benchmark", "--suite", str(file), "--shots", "1", "--runs", "1", "-o", str(out)])
        == 0
    )
    found = {(record.dataset, record.category) for record in read_records(out / "records.jsonl")}
    assert found == {("mvtec", "bolt"), ("mvtec", "nut"), ("mine", "nut")}


@pytest.mark.parametrize("content", ["{", "[]", '{"datasets": 3}', '{"datasets": {"a": {}}}'])
def test_a_bad_suite_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "suite.json").write_text(content)
    with pytest.raises(UsageError, match="should be JSON such as"):
        Suite.read(tmp_path / "suite.json", ())


def test_bad_arguments_are_one_sentence(
    root: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", "--dataset", "mvtec"]) == 1
    assert benchmark(root / "nowhere", tiny, tmp_path / "out") == 1
    assert benchmark(root, tiny, tmp_path / "out", "--preset", "magic") == 1
    assert benchmark(root, tiny, tmp_path / "out", "--runs", "0") == 1
    assert benchmark(root, tiny, tmp_path / "out", "--shots", "99") == 1
    errors = capsys.readouterr().err
    assert errors.count("hyperfsad: ") == 5
    assert "Traceback" not in errors
    assert not (tmp_path / "out" / "records.jsonl").exists()
