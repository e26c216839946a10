"""Who leads whom: pairs, corrections, sentences, and imports that name no run."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hyperfsad.lab.comparisons import (
    category_tables,
    differences_table,
    find_differences,
    sentences,
)
from hyperfsad.lab.records import Record
from hyperfsad.lab.tables import Cell, to_csv, to_latex, to_markdown


def records(
    method: str,
    figure: Callable[[int, int], float | None],
    categories: int = 9,
    runs: int = 3,
    shots: int = 1,
) -> list[Record]:
    return [
        Record("d", f"c{c}", "e", 448, method, shots, run, (), {"I-AUROC": figure(c, run)})
        for c in range(categories)
        for run in range(runs)
    ]


def test_a_clear_lead_is_told_and_a_draw_is_not() -> None:
    found = find_differences(
        [
            *records("good", lambda c, r: 0.90 + 0.01 * c),
            *records("worse", lambda c, r: 0.88 + 0.01 * c - 0.002 * c),
            *records("same", lambda c, r: 0.90 + 0.01 * c + 0.001 * (-1) ** (c + r)),
        ],
        ["I-AUROC", "P-AUROC"],
    )
    assert [(each.first, each.second) for each in found] == [
        *(("good", "worse"), ("good", "same"), ("worse", "same")),
    ]
    lead, _, behind = found
    assert lead.mean == pytest.approx(2.8)
    assert lead.low < 2.8 < lead.high
    assert lead.p == pytest.approx(2 / 2**9)
    assert lead.corrected == pytest.approx(3 * lead.p)
    assert (lead.categories, lead.runs) == (9, 3)
    assert [each.significant for each in found] == [True, False, True]
    low, high = sorted((-behind.low, -behind.high))
    assert sentences(found) == [
        f"I-AUROC, 1-shot: good leads worse by 2.8 (95 % interval {lead.low:.1f} to"
        f" {lead.high:.1f}; p = 0.012 after Holm).",
        f"I-AUROC, 1-shot: same leads worse by {-behind.mean:.1f} (95 % interval"
        f" {low:.1f} to {high:.1f}; p = 0.012 after Holm).",
        "I-AUROC, 1-shot: no significant difference between good and same.",
    ]


def test_nothing_is_said_twice() -> None:
    few = [*records("a", lambda c, r: 0.9, 2), *records("b", lambda c, r: 0.8, 2)]
    found = find_differences(few, ["I-AUROC"])
    (only,) = sentences(found)
    assert only.startswith("With 2 categories, p after Holm is at least 0.5, whatever the figures")
    assert only.endswith("(one pair needs 6 categories): no difference is significant.")
    many = [*records("a", lambda c, r: 0.9, shots=4), *records("b", lambda c, r: 0.8, shots=4)]
    found = find_differences([*few, *many], ["I-AUROC"])
    first, second = sentences(found)
    assert first.endswith("no difference is significant (I-AUROC, 1-shot).")
    assert second.startswith("I-AUROC, 4-shot: a leads b by 10.0")


def test_the_correction_is_within_a_metric_and_number_of_shots() -> None:
    both = [
        record
        for shots in (1, 2)
        for method, level in (("a", 0.9), ("b", 0.8), ("c", 0.7))
        for record in records(method, lambda c, r, v=level: v, shots=shots)  # type: ignore[misc]
    ]
    found = find_differences(both, ["I-AUROC"])
    assert len(found) == 6
    assert [each.corrected for each in found] == pytest.approx([3 * 2 / 2**9] * 6)
    assert {each.group for each in found} == {"I-AUROC, 1-shot", "I-AUROC, 2-shot"}


def test_encoders_are_named_where_there_are_several() -> None:
    ours = records("a", lambda c, r: 0.9)
    other = [replace(record, encoder="f") for record in ours]
    (found,) = find_differences([*ours, *other], ["I-AUROC"])
    assert (found.first, found.second) == ("a (e)", "a (f)")


def test_only_what_both_have_is_compared() -> None:
    ours = records("a", lambda c, r: 0.9)
    theirs = records("b", lambda c, r: 0.8 if c < 7 else None, runs=2)
    (found,) = find_differences([*ours, *theirs], ["I-AUROC"])
    assert (found.categories, found.runs) == (7, 2)
    assert find_differences([*ours[:3], *theirs[4:6]], ["I-AUROC"]) == []
    assert find_differences(ours, ["I-AUROC"]) == []


def test_an_import_without_runs_is_compared_with_every_run() -> None:
    ours = records("a", lambda c, r: 0.9 + 0.01 * r)
    theirs = [
        replace(record, encoder="imported", imported=True, every_run=True)
        for record in records("x", lambda c, r: 0.8, runs=1)
    ]
    (found,) = find_differences([*ours, *theirs], ["I-AUROC"])
    assert found.runs == 3
    assert found.mean == pytest.approx(11)
    assert found.second == "x (imported)"


def test_many_pairs_need_more_categories() -> None:
    levels = {name: 0.9 - 0.01 * place for place, name in enumerate("abcd")}
    all_ = [r for n, v in levels.items() for r in records(n, lambda c, _, v=v: v, 6)]  # type: ignore[misc]
    table = differences_table(find_differences(all_, ["I-AUROC"]))
    assert any(
        "With 6 categories and 6 pairs, p after Holm is at least 0.188" in n for n in table.notes
    )


def test_the_table_says_the_same_in_every_format() -> None:
    both = [*records("a", lambda c, r: 0.9 + 0.01 * c), *records("b", lambda c, r: 0.8)]
    table = differences_table(find_differences(both, ["I-AUROC"]), ["d, subset: 1 of 2 images."])
    (row,) = table.rows
    assert row.label == "a against b"
    assert row.group == "I-AUROC, 1-shot"
    for writer in (to_markdown, to_csv, to_latex):
        assert "a against b" in writer(table)
    assert "seed 0" in to_markdown(table)
    assert "d, subset: 1 of 2 images." in to_markdown(table)
    assert "**" not in to_markdown(table)


def test_categories_stand_side_by_side() -> None:
    def record(category: str, run: int, value: float, **counts: int) -> Record:
        figures: dict[str, float | None] = {"I-AUROC": value}
        return Record("mvtec", category, "e", 448, "m", 1, run, (), figures, counts)

    found = [
        record("bottle", 0, 0.5, good=20, bad=22, masks=22),
        record("bottle", 1, 0.7, good=20, bad=22, masks=22),
        record("tile", 0, 0.8, good=33, bad=84, masks=84),
        record("tile", 1, 0.8, good=33, bad=84, masks=84),
    ]
    tables = category_tables("Lookup", ["I-AUROC", "PRO"], found)
    assert list(tables) == ["categories-i-auroc"]
    table = tables["categories-i-auroc"]
    assert [column.heading for column in table.columns] == ["mvtec bottle", "mvtec tile"]
    (row,) = table.rows
    bottle, tile = row.cells
    assert isinstance(bottle, Cell)
    assert bottle.mean == pytest.approx(60)
    assert bottle.std == pytest.approx(14.142, abs=0.001)
    assert tile == Cell(80.0, 0.0)
    assert table.notes[0] == "mvtec bottle: subset: 42 of 83 images."
    assert not any("tile" in note for note in table.notes)
    assert row.group == "1-shot, subset"
    (whole,) = category_tables("Lookup", ["I-AUROC"], found[2:])["categories-i-auroc"].rows
    assert whole.group == "1-shot"
    other = [replace(record, method="n") for record in found]
    (pair,) = find_differences([*found, *other], ["I-AUROC"])
    assert pair.group == "I-AUROC, 1-shot, subset"
