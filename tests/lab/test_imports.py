"""Another system's scores: how images are named, every mistake by its code, our metrics."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hyperfsad.errors import HyperfsadError, UsageError
from hyperfsad.lab.datasets import Category
from hyperfsad.lab.imports import Import, read_import
from hyperfsad.lab.records import Record
from hyperfsad.lab.run import Source, Suite
from hyperfsad.quality.metrics import image_metrics, pixel_metrics, upsampled
from hyperfsad.quality.test_set import load_mask
from tests.codes import raises
from tests.lab.trees import mvtec_tree

Name = Callable[[Category, str], str]


@pytest.fixture
def categories(tmp_path: Path) -> list[Category]:
    mvtec_tree(tmp_path / "data" / "mvtec", ["bolt", "nut"], normal=1, test=3)
    return Suite({"mvtec": Source("mvtec", str(tmp_path / "data" / "mvtec"))}, ()).load()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "theirs").mkdir()
    return tmp_path / "theirs"


def below(category: Category, path: str) -> str:
    return category.name_of(path)


def names(categories: list[Category], name: Name = below) -> list[str]:
    return [name(category, image.path) for category in categories for image in category.test]


def write(folder: Path, rows: list[list[Any]], header: str = "image,score") -> None:
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    (folder / "scores.csv").write_text("\n".join(lines) + "\n")


def scored(categories: list[Category], name: Name = below) -> list[list[Any]]:
    return [[each, 0.25 * place] for place, each in enumerate(names(categories, name))]


def records(found: Import, *shots: int) -> list[Record]:
    return list(found.records(shots or (1,), 64))


@pytest.mark.parametrize(
    "name",
    [
        below,
        lambda category, path: path,
        lambda category, path: f"/elsewhere/MVTec/{category.name_of(path)}",
        lambda category, path: f"mvtec/{category.name_of(path)}",
        lambda category, path: category.name_of(path).replace("/", "\\"),
        lambda category, path: f"./{category.name_of(path)}",
        lambda category, path: f"'{category.name_of(path)}",
    ],
)
def test_images_may_be_named_in_several_ways(
    categories: list[Category], folder: Path, name: Name
) -> None:
    write(folder, scored(categories, name))
    found = records(read_import("X", folder, categories))
    assert [(r.category, r.shots, r.run, r.label) for r in found] == [
        *(("bolt", 1, 0, "X (imported)"), ("nut", 1, 0, "X (imported)")),
    ]
    for record, category in zip(found, categories, strict=True):
        anomalous = [image.anomalous for image in category.test]
        assert record.metrics == image_metrics(anomalous, np.arange(6.0))
        assert record.counts == {"normal": 1, "good": 3, "bad": 3, "masks": 3}


def test_the_same_files_in_two_data_sets_are_scored_once(
    categories: list[Category], folder: Path, tmp_path: Path
) -> None:
    twice = [
        *categories,
        *Suite({"mine": Source("folder", str(tmp_path / "data" / "mvtec" / "nut"))}, ()).load(),
    ]
    write(folder, scored(categories, lambda category, path: f"/x/MVTec/{below(category, path)}"))
    found = records(read_import("X", folder, twice))
    assert [(r.dataset, r.category) for r in found] == [
        *(("mvtec", "bolt"), ("mvtec", "nut"), ("mine", "nut")),
    ]
    assert found[1].metrics == found[2].metrics


def test_shots_and_runs_are_those_of_the_table(categories: list[Category], folder: Path) -> None:
    rows = [
        [name, (place * (run + 1)) % 5, shots, run]
        for shots in (1, 4)
        for run in (0, 3)
        for place, name in enumerate(names(categories))
    ]
    write(folder, rows, "image,score,shots,run")
    read = read_import("X", folder, categories)
    found = records(read, 1, 2)
    assert [(r.category, r.shots, r.run) for r in found] == [
        *(("bolt", 1, 0), ("bolt", 1, 3), ("nut", 1, 0), ("nut", 1, 3)),
    ]
    assert not any(record.every_run for record in found)
    assert found[0].metrics != found[1].metrics
    notes = read.notes((1, 2), found)
    assert any("with 4 shots were not asked for" in note for note in notes)


def test_without_shots_it_counts_for_all_and_says_so(
    categories: list[Category], folder: Path
) -> None:
    train = Path(categories[0].normal[0])
    write(folder, [*scored(categories[:1]), ["bolt/train/good/" + train.name, 1], ["other.png", 2]])
    read = read_import("X", folder, categories)
    found = records(read, 1, 2, 4)
    assert [(r.category, r.shots, r.every_run) for r in found] == [
        ("bolt", shots, True) for shots in (1, 2, 4)
    ]
    said = " ".join(read.notes((1, 2, 4), found))
    assert "names no shots, so its figures stand for every number of them" in said
    assert "covers 1 of 2 categories" in said
    assert "2 of its images are not tested here" in said
    assert "no maps, so no pixel metrics" in said
    rows = list(read.rows())
    assert len(rows) == 6
    assert rows[1] == {
        "dataset": "mvtec",
        "category": "bolt",
        "image": "bolt/test/good/001.png",
        "anomalous": "false",
        "method": "X",
        "encoder": "imported",
        "resolution": "",
        "shots": "",
        "run": "",
        "score": 0.25,
    }


def save_maps(
    categories: list[Category], folder: Path, change: Callable[[Any], Any], suffix: str = ".npy"
) -> list[Path]:
    """A map for each image: its mask, with noise."""
    random = np.random.default_rng(0)
    paths = []
    for category in categories:
        for image in category.test:
            values = 0.5 * load_mask(image, 40) + random.random((40, 40))
            path = (folder / category.name_of(image.path)).with_suffix(suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            if suffix == ".npy":
                np.save(path, change(values))
            else:
                Image.fromarray((100 * values).astype(np.uint8)).save(path)
            paths.append(path)
    return paths


def write_with_maps(folder: Path, categories: list[Category], paths: list[Path]) -> None:
    rows = scored(categories)
    named = [[*row, path.relative_to(folder)] for row, path in zip(rows, paths, strict=True)]
    write(folder, named, "image,score,map")


@pytest.mark.parametrize("suffix", [".npy", ".png"])
def test_maps_are_measured_with_our_metrics(
    categories: list[Category], folder: Path, suffix: str
) -> None:
    paths = save_maps(categories, folder, lambda values: values[None].astype(np.float32), suffix)
    write_with_maps(folder, categories, paths)
    found = records(read_import("X", folder, categories))
    for number, category in enumerate(categories):
        mine = paths[6 * number : 6 * number + 6]
        maps = [
            np.load(path)[0] if suffix == ".npy" else np.asarray(Image.open(path)) for path in mine
        ]
        shown = upsampled(np.stack(maps).astype(np.float32), 64)
        masks = np.stack([load_mask(image, 64) for image in category.test])
        expected = pixel_metrics(shown, masks)
        assert {name: found[number].metrics[name] for name in expected} == expected


def test_a_column_names_the_maps_of_each_run(categories: list[Category], folder: Path) -> None:
    paths = save_maps(categories[:1], folder, lambda values: values)
    worst = folder / "flat.npy"
    np.save(worst, np.zeros((4, 4)))
    rows = [
        [name, place, run, path.relative_to(folder) if run else worst.name]
        for run in (0, 1)
        for place, (name, path) in enumerate(zip(names(categories[:1]), paths, strict=True))
    ]
    write(folder, rows, "image,score,run,map")
    flat, good = records(read_import("X", folder, categories))
    assert flat.metrics["P-AUROC"] == 0.5
    assert (good.metrics["P-AUROC"] or 0) > 0.7
    write(folder, [row[:3] for row in rows], "image,score,run")
    without = records(read_import("X", folder, categories))
    assert all("P-AUROC" not in record.metrics for record in without)
    (folder / "flat.npy").unlink()
    write(folder, rows, "image,score,run,map")
    with raises(UsageError, "import-map-missing", map=folder / "flat.npy"):
        records(read_import("X", folder, categories))


def changed(rows: list[list[Any]], place: int, *values: Any) -> list[list[Any]]:
    return [*rows[:place], list(values), *rows[place + 1 :]]


@pytest.mark.parametrize(
    ("edit", "header", "code", "facts"),
    [
        (lambda rows: rows[:-1], "", "import-incomplete", {"category": "nut", "missing": 1}),
        (lambda rows: rows[:-2], "", "import-incomplete", {"category": "nut", "missing": 2}),
        (lambda rows: [*rows, rows[2]], "", "import-twice", {"line": 14, "first": 4}),
        (lambda rows: changed(rows, 1, rows[1][0], "nan"), "", "import-score", {"line": 3}),
        (lambda rows: changed(rows, 1, rows[1][0], "inf"), "", "import-score", {"given": "inf"}),
        (lambda rows: changed(rows, 1, rows[1][0], "high"), "", "import-score", {}),
        (lambda rows: changed(rows, 1, rows[1][0]), "", "import-score", {"given": ""}),
        (lambda rows: changed(rows, 1, "", 3), "", "import-unnamed", {"line": 3}),
        (lambda rows: changed(rows, 1, "good/001.png", 3), "", "import-ambiguous", {"line": 3}),
        (lambda rows: [["else.png", 1]], "", "import-no-image", {}),
        (lambda rows: [["/x/pin/test/good/001.png", 1]], "", "import-no-image", {}),
        (lambda rows: rows, "image,points", "import-unreadable", {}),
        (
            lambda rows: [[*row, "few"] for row in rows],
            "image,score,shots",
            "import-whole-number",
            {"name": "shots", "given": "few"},
        ),
        (
            lambda rows: [[*row, 4] for row in rows[:-1]],
            "image,score,shots",
            "import-incomplete",
            {"shots": 4, "run": None},
        ),
    ],
)
def test_a_mistake_in_the_table_is_named(
    categories: list[Category],
    folder: Path,
    edit: Callable[[list[list[Any]]], list[list[Any]]],
    header: str,
    code: str,
    facts: dict[str, Any],
) -> None:
    write(folder, edit(scored(categories)), header or "image,score")
    with raises(UsageError, code, file=folder / "scores.csv", **facts):
        read_import("X", folder, categories)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_folder_without_a_table_is_refused(
    categories: list[Category], folder: Path, content: bytes | None
) -> None:
    if content is not None:
        (folder / "scores.csv").write_bytes(content)
    with raises(UsageError, "import-unreadable", file=folder / "scores.csv"):
        read_import("X", folder, categories)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda values: values[..., None].repeat(3, axis=-1), "the shape (40, 40, 3)"),
        (lambda values: values[0], "the shape (40,)"),
        (lambda values: values[:0], "the shape (0, 40)"),
        (lambda values: values * np.nan, "NaN or infinity"),
        (lambda values: values.astype(str), "values of type <U32"),
        (lambda values: np.array([[{}]]), None),
    ],
)
def test_a_bad_map_is_refused(
    categories: list[Category], folder: Path, change: Callable[[Any], Any], problem: str | None
) -> None:
    paths = save_maps(categories, folder, change)
    write_with_maps(folder, categories, paths)
    code = "import-map-unreadable" if problem is None else "import-map"
    with raises(UsageError, code, map=paths[0], **({"problem": problem} if problem else {})):
        records(read_import("X", folder, categories))


def test_a_missing_map_and_a_coloured_one_are_refused(
    categories: list[Category], folder: Path
) -> None:
    paths = save_maps(categories, folder, lambda values: values)
    picture = paths[2].with_suffix(".png")
    write_with_maps(folder, categories, [*paths[:2], picture, *paths[3:]])
    with raises(UsageError, "import-map-missing", map=picture):
        records(read_import("X", folder, categories))
    Image.new("RGB", (8, 8)).save(picture)
    with raises(UsageError, "import-map", map=picture, problem="colours (RGB)"):
        records(read_import("X", folder, categories))
    picture.write_bytes(b"no picture")
    with pytest.raises(HyperfsadError):
        records(read_import("X", folder, categories))
