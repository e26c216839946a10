"""Presets: which recipes they run, and what their tables lay beside each other."""

from dataclasses import replace
from pathlib import Path

import pytest

from hyperfsad.errors import UsageError
from hyperfsad.lab.comparisons import build_tables
from hyperfsad.lab.presets import Variant, passes, with_recipe
from hyperfsad.lab.published import SIX_SETS
from hyperfsad.lab.records import Record
from hyperfsad.lab.tables import Cell, mark
from tests.codes import raises
from tests.lab.peers.clip import save_clip


@pytest.mark.parametrize("recipe", ["paper", "paper-offline"])
def test_both_recipes_of_the_paper_run_its_algorithm(recipe: str) -> None:
    variants = (Variant("top-1", lookup="top-1"), Variant("sparsemax"))
    assert with_recipe("lookup", variants, recipe) == variants


def test_our_recipe_is_a_row_of_its_own_and_has_no_ablation() -> None:
    ours, peer = with_recipe(
        "peers", (Variant("Hyper-FSAD"), Variant("rad", peer="rad")), "default"
    )
    assert (ours.label, ours.recipe) == ("Hyper-FSAD, default recipe", "default")
    assert peer == Variant("rad", peer="rad")
    with raises(UsageError, "preset-recipe", preset="lookup", given="default"):
        with_recipe("lookup", (Variant("sparsemax"),), "default")


def record(dataset: str, category: str, **counts: int) -> Record:
    figures: dict[str, float | None] = {"I-AUROC": 1.0, "P-AUROC": 1.0}
    return Record(dataset, category, "e", 448, "Hyper-FSAD", 1, 0, (), figures, counts)


RESC = {"good": 1041, "bad": 764, "masks": 764}


def test_a_part_of_a_data_set_does_not_compete_with_published_figures() -> None:
    part = [record("mvtec", "tile", good=33, bad=84, masks=84)]
    table = build_tables("main", part)["main-i-auroc-p-auroc"]
    assert {row.group for row in table.rows if row.published} == {"1-shot"}
    assert {row.group for row in table.rows if row.ours} == {"1-shot, subset"}
    assert "mvtec, subset: 1 of 15 categories, 117 of 1,725 images." in table.notes
    assert any("do not compete" in note for note in table.notes)
    table = build_tables("main", [record("resc", "resc", **RESC)])["main-i-auroc-p-auroc"]
    assert {row.group for row in table.rows} == {"1-shot"}
    assert not any("subset" in note for note in table.notes)


def test_four_images_in_the_layout_of_a_data_set_win_nothing() -> None:
    few = [record("brats", "brats", good=2, bad=2, masks=2)]
    for table in build_tables("main", few).values():
        won = {row for row, _ in mark(table)}
        assert all(table.rows[row].published for row in won)
        assert "brats, subset: 4 of 3,715 images." in table.notes


def test_records_without_counts_win_nothing() -> None:
    table = build_tables("main", [record("resc", "resc")])["main-i-auroc-p-auroc"]
    assert {row.group for row in table.rows if row.ours} == {"1-shot, subset"}


def test_a_data_set_of_ones_own_is_no_subset_and_competes_with_nobody() -> None:
    table = build_tables("main", [record("parts", "bolt", good=2, bad=2, masks=2)])
    (ours,) = table["main-i-auroc-p-auroc"].rows
    assert ours.group == "1-shot, here"


def test_an_import_that_covers_a_data_set_in_part_has_no_mean() -> None:
    def import_of(category: str) -> Record:
        mine = record("parts", category)
        return replace(mine, method="Theirs", encoder="imported", imported=True)

    ours = [record("parts", "bolt"), record("parts", "nut")]
    for known, expected in ((["bolt"], None), (["bolt", "nut"], Cell(100.0))):
        table = build_tables("main", [*ours, *map(import_of, known)])["main-i-auroc-p-auroc"]
        row = next(row for row in table.rows if row.label == "Theirs (imported)")
        assert row.cells == (expected, expected)
        assert not row.ours


def test_the_average_needs_all_six_data_sets() -> None:
    def records(names: tuple[str, ...]) -> list[Record]:
        return [record(name, "c") for name in names]

    table = build_tables("main", records(SIX_SETS))["main-i-auroc-p-auroc"]
    assert [column.group for column in table.columns][-2:] == ["six-set mean"] * 2
    dinov3 = next(row for row in table.rows if "DINOv3" in row.label)
    shown = [getattr(cell, "mean", None) for cell in dinov3.cells[-2:]]
    assert shown == pytest.approx([89.95, 97.0], abs=0.01)
    fewer = build_tables("main", records(SIX_SETS[:2]))["main-i-auroc-p-auroc"]
    assert len(fewer.columns) == 4


def test_winclip_needs_an_encoder_that_reads(tiny: str, tmp_path: Path) -> None:
    assert [settings.form for settings, _ in passes("peers", tiny, None, "paper-offline")] == [
        "unit"
    ]
    save_clip(tmp_path / "clip")
    shared, windows = passes("peers", str(tmp_path / "clip"), None, "paper-offline")
    assert (shared[0].form, windows[0].form) == ("unit", "windows")
    assert [variant.label for variant in windows[1]] == ["winclip", "winclip, zero-shot"]


def test_authors_settings_are_rows_beside_those_on_the_same_tokens() -> None:
    plan = passes("authors", "dinov2-vits14", 448, "paper-offline")
    assert [(s.form, s.resolution) for s, _ in plan] == [("unit", 448), ("mean", 672), ("raw", 392)]
    labels = [variant.label for _, variants in plan for variant in variants]
    assert labels == [
        "Hyper-FSAD",
        "subspace",
        "fastrecon",
        "subspace, authors' settings on another encoder",
        "fastrecon, authors' settings on another encoder",
    ]
