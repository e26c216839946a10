"""A whole benchmark run through the command line, on a small data set in MVTec's layout."""

import contextlib
import csv
import functools
import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hyperfsad import threads
from hyperfsad.cli import main
from hyperfsad.errors import UsageError
from hyperfsad.lab.comparisons import build_tables
from hyperfsad.lab.drawing import figures
from hyperfsad.lab.drawing.charts import Point, accuracy_efficiency
from hyperfsad.lab.drawing.figures import draw_curves, measured_points, published_points
from hyperfsad.lab.peers import SAME_TOKENS, FastReconAuthors, SubspaceADAuthors, make_peer
from hyperfsad.lab.peers.peer import Peer
from hyperfsad.lab.presets import PRESETS
from hyperfsad.lab.records import Record
from hyperfsad.lab.run import Suite
from hyperfsad.lab.timing import RunTimes, Timing
from hyperfsad.quality.metrics import image_metrics, pixel_metrics, upsampled
from hyperfsad.wording import COMMAND_LINE, worded
from tests.codes import raises
from tests.lab.peers.clip import save_clip
from tests.lab.trees import mvtec_tree


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two categories; nobody may change them."""
    folder = tmp_path_factory.mktemp("run")
    mvtec_tree(folder / "data", ["bolt", "nut"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPERFSAD_CACHE", str(folder / "cache"))
        yield folder / "data"


def benchmark(root: Path, tiny: str, out: Path, *more: str) -> int:
    command = ["lab", "benchmark", "--dataset", "mvtec", "--root", str(root), "--backbone", tiny]
    return main([*command, "--shots", "1,2", "--runs", "2", "-o", str(out), *more])


def read_records(path: Path) -> list[Record]:
    """The records that a run has written."""
    lines = path.read_text(encoding="utf-8").splitlines()
    fields = [json.loads(line) for line in lines]
    return [Record(**{**record, "support": tuple(record["support"])}) for record in fields]


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def small_authors() -> Iterator[None]:
    """The authors' settings at a fraction of their cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SubspaceADAuthors, "RESOLUTION", 84)
        patch.setattr(SubspaceADAuthors, "angles", (0.0, 40.0, 170.0))
        patch.setattr(FastReconAuthors, "GRID", 5)
        yield


@pytest.fixture(scope="module")
def done(
    root: Path, tiny: str, small_authors: None, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Path, str]]:
    """What a run of a preset wrote and printed; each runs once, and nobody may change it."""

    @functools.cache
    def run(preset: str) -> tuple[Path, str]:
        out = tmp_path_factory.mktemp(preset) / "out"
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert benchmark(root, tiny, out, "--preset", preset) == 0
        return out, printed.getvalue()

    return run


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "resolution"])
def test_every_preset_writes_records_and_tables(
    done: Callable[[str], tuple[Path, str]], preset: str
) -> None:
    out, printed = done(preset)
    records = read_records(out / "records.jsonl")
    methods = {record.method for record in records}
    assert len(records) == len(methods) * 2 * 2 * 2
    assert all(len(record.support) == record.shots for record in records)
    for stem in build_tables(preset, records):
        for suffix in (".md", ".csv", ".tex"):
            assert (out / f"{stem}{suffix}").stat().st_size > 100
        assert (out / f"{stem}.md").read_text(encoding="utf-8").strip() in printed
    assert "(published)" in printed


def test_either_engine_finds_the_same_on_any_number_of_threads(
    root: Path, tiny: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="compares with torch: hyperfsad[torch]")
    found = {}
    try:
        for engine, count in (("torch", 2), ("openvino", 1), ("openvino", 2)):
            out = tmp_path / f"{engine}-{count}"
            more = ["--engine", engine, "--threads", str(count), "--cache-limit", "0"]
            assert benchmark(root, tiny, out, *more) == 0
            found[engine, count] = read_records(out / "records.jsonl")
    finally:
        threads.limit(None)
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
    file = out / "resolution-i-auroc-p-auroc.csv"
    written = file.read_bytes()
    times = {(row["group"], row["label"]): float(row["ms"] or "nan") for row in read_csv(file)}
    assert times["1-shot", "448 (DINOv3 ViT-B/16)"] == 52.6
    assert times["2-shot", "672 (DINOv3 ViT-B/16)"] == 195.1
    for shots in (1, 2):
        for side in (56, 84):
            assert times[f"{shots}-shot, subset", f"{side} ({tiny})"] > 0
    notes = file.with_suffix(".md").read_text(encoding="utf-8")
    assert "CPU with openvino in float32, batches of 1" in notes
    assert benchmark(root, tiny, out, "--preset", "resolution") == 0  # times are kept
    assert file.read_bytes() == written
    damaged = next((out / "work").glob("*-84/times.json"))
    damaged.write_text("{")
    assert benchmark(root, tiny, out, "--preset", "resolution") == 0  # and measured again
    assert json.loads(damaged.read_text(encoding="utf-8"))["timings"]
    curves = [path.name for path in draw_curves("resolution", records, tmp_path / "figures")]
    metrics = ("i-auroc", "p-auroc")
    assert curves == [
        f"resolution-tiny-{m}{suffix}" for m in metrics for suffix in (".png", ".pdf")
    ]
    twins = [replace(record, encoder=f"elsewhere/{Path(tiny).name}") for record in records]
    both = draw_curves("resolution", records + twins, tmp_path / "twins")
    assert len(set(both)) == 2 * len(curves)  # two folders of one name are told apart


def assert_same(record: Record, detector: Peer, root: Path) -> None:
    """The record is what the detector finds, fitted and asked on its own."""
    place = root / record.category
    detector.fit([place / "train" / "good" / name for name in record.support])
    images = sorted(place.glob("test/*/*.png"))
    results = list(detector.predict_many(images))
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


def test_authors_settings_are_those_of_the_peers(
    root: Path, tiny: str, done: Callable[[str], tuple[Path, str]]
) -> None:
    records = read_records(done("authors")[0] / "records.jsonl")
    apart = [r for r in records if "authors' settings" in r.method and r.run == 0]
    assert {(r.method.partition(",")[0], r.resolution) for r in apart} == {
        ("subspace", 84),
        ("fastrecon", 70),
    }
    for record in apart:
        name = f"{record.method.partition(',')[0]}-authors"
        assert_same(record, make_peer(name, tiny, device="cpu"), root)


@pytest.fixture(scope="module")
def cut(root: Path, tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with figures on a part of a public set."""
    folder = tmp_path_factory.mktemp("cut")
    mvtec_tree(folder / "data", ["bottle", "tile"], normal=2, test=2)
    out = folder / "out"
    assert benchmark(folder / "data", tiny, out, "--preset", "lambda", "--figures") == 0
    return out


def test_figures_are_drawn(cut: Path) -> None:
    out = cut
    folder = out / "figures" / "tiny-56"
    stems = {path.stem for path in folder.glob("*.png")}
    assert stems == {path.stem for path in folder.glob("*.pdf")}
    assert stems == {
        *("lambda-qualitative", "lambda-truth-over-map-1", "tsne-cls", "accuracy-efficiency"),
    }
    curves = {path.name for path in (out / "figures").glob("lambda-*")}
    metrics = ("i-auroc", "i-f1", "i-ap")
    assert curves == {f"lambda-tiny-{m}{suffix}" for m in metrics for suffix in (".png", ".pdf")}


def test_efficiency_times_every_stage_of_every_method(
    root: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark(root, tiny, tmp_path / "out", "--preset", "efficiency") == 0
    rows = read_csv(tmp_path / "out" / "efficiency.csv")
    here = [row for row in rows if row["published"] == "false"]
    groups = dict.fromkeys(row["group"] for row in here)
    assert list(groups) == [
        f"CPU with openvino in float32, {shots}-shot, batch {batch}, here"
        for shots in (1, 2)
        for batch in (1, 8)
    ]
    for group in groups:
        mine = [row for row in here if row["group"] == group]
        assert [row["label"] for row in mine] == ["Hyper-FSAD", *SAME_TOKENS]
        assert [row["ours"] for row in mine] == ["true", *["false"] * len(SAME_TOKENS)]
        for row in mine:
            stages = [float(row[f"{name} ms"]) for name in ("decode", "encode", "match", "total")]
            assert 0 < max(stages[:3]) < stages[3]
            assert row["decode ms"] == mine[0]["decode ms"]  # the same images, the same tokens
            assert row["encode ms"] == mine[0]["encode ms"]
    assert {row["peak GB"] for row in here} == {""}  # of one method only a GPU knows it
    assert "RTX 3090" in capsys.readouterr().out


def test_figure_1_shows_the_ten_timed_methods() -> None:
    points = published_points()
    assert len(points) == 10
    ours = next(point for point in points if point.ours)
    assert (ours.i_auroc, ours.p_auroc) == pytest.approx((89.95, 97.0), abs=0.01)
    assert ours.milliseconds == 52.6


def test_figure_1_shows_what_was_measured_beside_it(
    root: Path, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[Point], str]] = []

    def drawn(points: list[Point], note: str) -> object:
        seen.append((points, note))
        return accuracy_efficiency(points, note)

    monkeypatch.setattr(figures, "accuracy_efficiency", drawn)
    assert benchmark(root, tiny, tmp_path / "out", "--preset", "peers", "--figures") == 0
    ((points, note),) = seen
    published, here = (
        [p for p in points if not p.measured],
        [p for p in points if p.measured],
    )
    assert published == published_points()
    assert [point.name for point in here] == ["Hyper-FSAD", *SAME_TOKENS]
    assert [point.ours for point in here] == [True, *[False] * len(SAME_TOKENS)]
    assert all(point.milliseconds > 0 for point in here)
    assert note == "1-shot, 2 runs, on mvtec (bolt, nut); tiny, 56 px; CPU with openvino in float32"
    records = read_records(tmp_path / "out" / "records.jsonl")
    mine = [r for r in records if r.method == "nearest" and r.shots == 1]
    mean = 100 * sum(r.metrics["I-AUROC"] or 0 for r in mine) / len(mine)
    assert here[1].i_auroc == pytest.approx(mean)


def test_a_method_without_masks_has_no_place_in_figure_1() -> None:
    record = Record("a", "x", "e", 56, "nearest", 1, 0, ("0.png",), {"I-AUROC": 0.9})
    timing = Timing("nearest", 1, 1, 1.0, 2.0, 3.0, 6.0, 0)
    times = RunTimes("e", 56, "CPU with openvino in float32", (timing,))
    assert measured_points([record], times) == []
    whole = replace(record, metrics={"I-AUROC": 0.9, "P-AUROC": 0.8})
    other = replace(whole, dataset="b", metrics={"I-AUROC": 0.7, "P-AUROC": None})
    (point,) = measured_points([whole, other], times)
    assert (point.i_auroc, point.p_auroc) == pytest.approx((80, 80))  # of the sets that have it
    assert point.milliseconds == 6


def test_a_run_goes_on_from_what_is_there_and_writes_the_same_bytes(
    root: Path, tiny: str, done: Callable[[str], tuple[Path, str]], tmp_path: Path
) -> None:
    first, _ = done("peers")
    shutil.copytree(first / "work", tmp_path / "b" / "work")
    blocks = sorted((tmp_path / "b" / "work").rglob("*.npz"))
    blocks[0].unlink()
    blocks[1].write_bytes(blocks[1].read_bytes()[:100])
    assert benchmark(root, tiny, tmp_path / "b", "--preset", "peers") == 0
    files = [path.name for path in first.iterdir() if path.is_file()]
    expected = {"records.jsonl", "provenance.json", "supports.json", "scores.csv"}
    assert expected < set(files)
    for name in files:
        assert (first / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_written_supports_replay_with_the_same_bytes(
    root: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark(root, tiny, tmp_path / "a", "--seed", "3") == 0
    written = tmp_path / "a" / "supports.json"
    assert benchmark(root, tiny, tmp_path / "b", "--supports", str(written), "--shots", "4") == 0
    for name in ("records.jsonl", "supports.json", "scores.csv", "provenance.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    records = read_records(tmp_path / "a" / "records.jsonl")
    entries = json.loads(written.read_text(encoding="utf-8"))["supports"]
    of_file = {(e["category"], e["run"], e["shots"]): tuple(e["images"]) for e in entries}
    assert of_file == {(r.category, r.run, r.shots): r.support for r in records}
    written.write_text(written.read_text().replace("000.png", "gone.png"))
    assert benchmark(root, tiny, tmp_path / "c", "--supports", str(written)) == 2
    assert "gone.png" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_every_record_can_be_traced(root: Path, tiny: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert benchmark(root, tiny, out, "--preset", "lookup", "--seed", "5") == 0
    entries = json.loads((out / "provenance.json").read_text(encoding="utf-8"))
    for record in read_records(out / "records.jsonl"):
        entry = entries[record.provenance]
        assert record.method in entry["methods"]
        assert (entry["encoder"], entry["resolution"]) == (record.encoder, record.resolution)
        assert record.counts == {"normal": 4, "good": 4, "bad": 4, "masks": 4}
    (entry,) = entries.values()
    assert (entry["preset"], entry["recipe"], entry["seed"]) == ("lookup", "paper-offline", 5)
    assert (entry["engine"], entry["precision"]) == ("openvino", "float32")
    assert (entry["eval_size"], len(entry["weights"])) == (256, 64)
    assert entry["layers"] == [1, 2, 3, 4]
    assert {"hyperfsad", "openvino", "numpy", "python"} <= set(entry["versions"])
    assert entry["versions"]["numpy"] == np.__version__


def test_scores_have_names_and_give_the_metrics_back(
    root: Path, tiny: str, done: Callable[[str], tuple[Path, str]]
) -> None:
    out, _ = done("peers")
    with (out / "scores.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    records = read_records(out / "records.jsonl")
    assert len(rows) == sum(record.counts["good"] + record.counts["bad"] for record in records)
    assert all((root / row["image"]).is_file() for row in rows)
    for record in records:
        mine = [
            row
            for row in rows
            if (row["category"], row["method"], row["shots"], row["run"], row["encoder"])
            == (record.category, record.method, str(record.shots), str(record.run), tiny)
        ]
        truth = [row["anomalous"] == "true" for row in mine]
        found = image_metrics(truth, np.array([float(row["score"]) for row in mine]))
        assert {name: record.metrics[name] for name in found} == found


def test_scores_of_one_method_can_be_imported_again(
    root: Path,
    tiny: str,
    done: Callable[[str], tuple[Path, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, _ = done("main")
    more = ["--import", f"Again={first}", "--import", f"Same={first}"]
    assert benchmark(root, tiny, tmp_path / "b", *more) == 0
    records = read_records(tmp_path / "b" / "records.jsonl")
    ours = [record for record in records if not record.imported]
    again = [record for record in records if record.method == "Again"]
    assert len(ours) == len(again) == len(records) / 3
    by_place = {(r.category, r.shots, r.run): r for r in ours}
    for record in again:
        original = by_place[record.category, record.shots, record.run]
        assert record.metrics == {name: original.metrics[name] for name in record.metrics}
    printed = capsys.readouterr().out
    assert "Again (imported)" in printed
    assert "no maps, so no pixel metrics" in printed
    table = (tmp_path / "b" / "differences.md").read_text(encoding="utf-8")
    assert "Again (imported) against Same (imported)" in table
    assert "no difference is significant" in table
    assert "one pair needs 6 categories" in table
    with pytest.raises(SystemExit):
        benchmark(root, tiny, tmp_path / "c", "--import", "Nobody")
    assert benchmark(root, tiny, tmp_path / "c", "--import", f"No={tmp_path}") == 2
    twice = ["--import", f"A={first}", "--import", f"A={tmp_path / 'b'}"]
    assert benchmark(root, tiny, tmp_path / "c", *twice) == 2
    errors = capsys.readouterr().err
    assert "such as PatchCore=scores/" in errors
    assert "scores.csv cannot be read" in errors
    assert worded("import-name-twice", {"name": "A"}, COMMAND_LINE) in errors


def test_a_subset_is_marked_wherever_it_is_shown(cut: Path) -> None:
    out = cut
    told = "subset: 2 of 15 categories, 8 of 1,725 images"
    for stem in ("lambda-i-auroc-i-f1-i-ap", "differences"):
        for suffix in (".md", ".tex"):
            assert told in (out / f"{stem}{suffix}").read_text(encoding="utf-8")
    for stem in ("lambda-i-auroc-i-f1-i-ap", "differences", "categories-i-auroc"):
        assert "1-shot, subset" in (out / f"{stem}.csv").read_text(encoding="utf-8")
    by_category = (out / "categories-i-auroc.md").read_text(encoding="utf-8")
    assert "mvtec bottle: subset: 4 of 83 images." in by_category


def test_two_encoders_of_one_name_are_told_apart(root: Path, tiny: str, tmp_path: Path) -> None:
    other = tmp_path / "other" / "tiny"
    shutil.copytree(tiny, other)
    more = ["--backbone", str(other), "--shots", "1", "--runs", "1"]
    assert benchmark(root, tiny, tmp_path / "out", *more) == 0
    assert len(list((tmp_path / "out" / "work").iterdir())) == 2


def test_a_suite_names_several_data_sets(root: Path, tiny: str, tmp_path: Path) -> None:
    file = tmp_path / "suite.json"
    sources = {"mvtec": str(root), "mine": {"layout": "folder", "root": str(root / "nut")}}
    file.write_text(json.dumps({"datasets": sources, "encoders": [tiny]}))
    out = tmp_path / "out"
    command = ["lab", "benchmark", "--suite", str(file), "--shots", "1", "--runs", "1"]
    assert main([*command, "-o", str(out)]) == 0
    found = {(record.dataset, record.category) for record in read_records(out / "records.jsonl")}
    assert found == {("mvtec", "bolt"), ("mvtec", "nut"), ("mine", "nut")}


@pytest.mark.parametrize("content", ["{", "[]", '{"datasets": 3}', '{"datasets": {"a": {}}}'])
def test_a_bad_suite_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "suite.json").write_text(content)
    with raises(UsageError, "suite-file"):
        Suite.read(tmp_path / "suite.json", ())


def test_bad_arguments_are_one_sentence(
    root: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "benchmark", "--dataset", "mvtec"]) == 2
    assert benchmark(root / "nowhere", tiny, tmp_path / "out") == 2
    assert benchmark(root, tiny, tmp_path / "out", "--preset", "magic") == 2
    assert benchmark(root, tiny, tmp_path / "out", "--runs", "0") == 2
    assert benchmark(root, tiny, tmp_path / "out", "--shots", "99") == 2
    errors = capsys.readouterr().err
    assert errors.count("hyperfsad: ") == 5
    assert "Traceback" not in errors
    assert not (tmp_path / "out" / "records.jsonl").exists()
