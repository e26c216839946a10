"""Tables: who wins what, and that each format says the same."""

import csv
import io
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad.errors import HyperfsadError
from hyperfsad.lab.published import published
from hyperfsad.lab.tables import (
    Cell,
    Column,
    Mark,
    Table,
    TableRow,
    mark,
    to_csv,
    to_latex,
    to_markdown,
    write_table,
)


def one_column(*values: float | str | None, column: Column | None = None) -> Table:
    rows = (
        TableRow(str(r), (value if isinstance(value, str) or value is None else Cell(value),))
        for r, value in enumerate(values)
    )
    return Table("One", (column or Column("I"),), tuple(rows))


def marks(table: Table) -> list[Mark | None]:
    """The marks of a table's first column."""
    won = mark(table)
    return [won.get((r, 0)) for r in range(len(table.rows))]


COLUMNS = (
    Column("Encoder", better=None),
    Column("I-AUROC", "MVTec AD"),
    Column("P-AUROC", "MVTec AD"),
    Column("I-AUROC", "VisA"),
    Column("ms", better="low", digits=0),
)
TABLE = Table(
    "Few-shot results",
    COLUMNS,
    (
        TableRow(
            "Theirs", ("–", Cell(95.8), Cell(96.2), None, Cell(100.6)), "1-shot", published=True
        ),
        TableRow(
            "Hyper-FSAD",
            ("DINOv3", Cell(96.3, 0.2), Cell(97.7, 0.0), Cell(94.0, 0.1), Cell(52.6)),
            "1-shot",
            ours=True,
            published=True,
        ),
        TableRow(
            "Hyper-FSAD",
            ("DINOv2", Cell(95.91234567890123, 1 / 3), Cell(97.7), Cell(93.5), None),
            "1-shot",
            ours=True,
        ),
        TableRow("Nearest", ("DINOv2", Cell(90), Cell(91), Cell(92), Cell(40)), "2-shot"),
        TableRow("Subspace", ("DINOv2", Cell(89), Cell(93), Cell(92), Cell(50)), "2-shot"),
    ),
    ("Five runs.",),
)
NASTY = r"50% of_a & #1 {x} $y$ ~ ^ \ <b> | *"


@pytest.mark.parametrize(
    ("values", "column", "expected"),
    [
        ((1.0, 3.0, 2.0, 0.5), {}, [None, "best", "second", None]),
        ((38.0, 52.6, 44.2), {"better": "low"}, ["best", None, "second"]),
        ((3.0, 3.0, 2.0, 2.0, 1.0), {}, ["best", "best", "second", "second", None]),
        ((3.0, 3.0), {}, ["best", "best"]),
        ((96.31, 96.29, 96.2), {}, ["best", "best", "second"]),  # what looks equal is equal
        ((96.31, 96.29), {"digits": 2}, ["best", "second"]),
        ((-0.01, 0.01), {}, ["best", "best"]),
        ((None, 1.0, "3.0", 2.0), {}, [None, "second", None, "best"]),
        ((math.nan, 1.0, math.inf, 2.0), {}, [None, "second", None, "best"]),
        ((math.nan, 1.0), {}, [None, None]),  # one alone wins nothing
        ((1.0,), {}, [None]),
        ((1.0, 2.0), {"better": None}, [None, None]),
    ],
)
def test_the_best_and_the_second_best_are_marked(
    values: tuple[Any, ...], column: dict[str, Any], expected: list[Mark | None]
) -> None:
    assert marks(one_column(*values, column=Column("I", **column))) == expected


def test_rows_compete_within_their_group_wherever_they_stand() -> None:
    table = one_column(1.0, 5.0, 2.0, 4.0)
    grouped = tuple(replace(row, group=g) for row, g in zip(table.rows, "abab", strict=True))
    assert marks(replace(table, rows=grouped)) == ["second", "best", "best", "second"]


@pytest.mark.parametrize(
    ("shots", "best", "second"),
    [
        (1, {"DINOv2 ViT-B/14", "DINOv3 ViT-B/16"}, {"SubspaceAD"}),
        (4, {"SubspaceAD"}, {"DINOv2 ViT-B/14"}),
    ],
)
def test_marks_are_those_of_the_paper(shots: int, best: set[str], second: set[str]) -> None:
    """BTAD, image level: two share the first place at 1 shot, and a second is still named."""
    rows = published("main", shots=shots, dataset="btad")
    won = marks(one_column(*(row.metrics["I-AUROC"].mean for row in rows)))
    names = [row.backbone or row.method for row in rows]
    assert {name for name, place in zip(names, won, strict=True) if place == "best"} == best
    assert {name for name, place in zip(names, won, strict=True) if place == "second"} == second


def markdown_cells(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1
    pipes = [[m.start() for m in re.finditer(r"(?<!\\)\|", line)] for line in lines]
    assert all(row == pipes[0] for row in pipes)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_markdown_reads_like_the_table() -> None:
    text = to_markdown(TABLE)
    header, rules, *body = markdown_cells(text)
    assert header == [
        "",
        "",
        "Encoder",
        "MVTec AD I-AUROC",
        "MVTec AD P-AUROC",
        "VisA I-AUROC",
        "ms",
    ]
    assert [rule.endswith(":") for rule in rules] == [False] * 3 + [True] * 4
    assert all(re.fullmatch(":--+|--+:", rule) for rule in rules)
    assert body[0] == [
        "1-shot",
        "Theirs (published)",
        "–",
        "95.8",
        "<u>96.2</u>",
        "–",
        "<u>101</u>",
    ]
    assert body[1] == [
        *("", "Hyper-FSAD (published)", "DINOv3", "**96.3 ± 0.2**", "**97.7 ± 0.0**"),
        *("**94.0 ± 0.1**", "**53**"),
    ]
    assert body[2][1:4] == ["**Hyper-FSAD**", "DINOv2", "<u>95.9 ± 0.3</u>"]
    assert [row[0] for row in body] == ["1-shot", "", "", "2-shot", ""]
    assert text.startswith("### Few-shot results\n\n|")
    assert "\n- Five runs.\n- Bold: the best" in text


def test_markdown_without_groups_has_no_column_for_them_and_no_legend_without_marks() -> None:
    text = to_markdown(one_column(1.0))
    assert markdown_cells(text) == [["", "I"], [":--", "--:"], ["0", "1.0"]]
    assert "Bold" not in text


def test_markdown_keeps_text_plain() -> None:
    table = Table("*T*", (Column("a_b"),), (TableRow("x|y*", (NASTY + "\nz",)),))
    _, _, row = markdown_cells(to_markdown(table))
    assert row[0] == r"x\|y\*"
    assert re.sub(r"\\(.)", r"\1", row[1]) == NASTY + " z"
    assert to_markdown(table).startswith("### \\*T\\*\n")


def test_csv_gives_back_every_figure() -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv(TABLE))))
    for line, row in zip(lines, TABLE.rows, strict=True):
        assert (line["group"], line["label"]) == (row.group, row.label)
        assert line["ours"] == str(row.ours).lower()
        assert line["published"] == str(row.published).lower()
        for column, cell in zip(COLUMNS, row.cells, strict=True):
            if isinstance(cell, str):
                assert line[column.heading] == cell
                continue
            for name, value in (
                (column.heading, cell and cell.mean),
                (f"{column.heading} std", cell and cell.std),
            ):
                assert line[name] == "" if value is None else float(line[name]) == value
    assert "Encoder std" not in lines[0]


def test_csv_keeps_text_among_figures_and_awkward_text() -> None:
    table = Table(
        "T", (Column('a,"b"'),), (TableRow("x,\ny", (Cell(1.5, 0.5),)), TableRow("z", ("OOM",)))
    )
    lines = list(csv.reader(io.StringIO(to_csv(table))))
    assert lines[0][4:] == ['a,"b"', 'a,"b" std']
    assert lines[1] == ["", "x,\ny", "false", "false", "1.5", "0.5"]
    assert lines[2][4:] == ["OOM", ""]


def test_csv_and_markdown_take_numpy_and_what_is_not_finite() -> None:
    cells = (Cell(np.float32(0.5), np.float64(0.1)), Cell(math.nan, 1.0), Cell(1.0, math.nan))
    table = Table("T", (Column("a"), Column("b"), Column("c")), (TableRow("r", cells),))
    assert to_csv(table).splitlines()[1] == ",r,false,false,0.5,0.1,,,1.0,"
    assert markdown_cells(to_markdown(table))[2][1:] == ["0.5 ± 0.1", "–", "1.0"]


def latex_lines(text: str) -> list[list[str]]:
    """The lines of a tabular as cells, a spanning one repeated; checks that TeX would take them."""
    bare = re.sub(r"\\[\\{}$&#_%]", "", text.split("\n", 1)[1])
    assert not re.search("[#%_~^]", bare)
    assert bare.count("$") % 2 == 0
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert re.findall(r"\\(begin|end)\{(\w+)\}", text) == [
        *(("begin", "table"), ("begin", "tabular"), ("end", "tabular"), ("end", "table"))
    ]
    preamble = re.search(r"\\begin\{tabular\}\{([lc]+)\}\n", text)
    assert preamble
    lines = []
    for line in text[preamble.end() : text.index(r"\end{tabular}")].splitlines():
        if not line.endswith(r" \\"):
            assert re.fullmatch(r"\\(top|mid|bottom)rule|(\\cmidrule\(lr\)\{\d+-\d+\})+", line)
            continue
        assert not re.match(r"\s*[*\[]", line)
        cells: list[str] = []
        for cell in re.split(r"(?<!\\)&", line.removesuffix(r" \\")):
            span = re.match(r"\s*\\multicolumn\{(\d+)\}\{c\}", cell)
            cells += [cell.strip()] * (int(span[1]) if span else 1)
        assert len(cells) == len(preamble[1])
        lines.append(cells)
    return lines


def test_latex_reads_like_the_table() -> None:
    text = to_latex(TABLE)
    groups, header, *body = latex_lines(text)
    mvtec, visa = r"\multicolumn{2}{c}{MVTec AD}", r"\multicolumn{1}{c}{VisA}"
    assert groups == ["", "", "", mvtec, mvtec, visa, ""]
    assert r"\cmidrule(lr){4-5}\cmidrule(lr){6-6}" in text
    assert header == ["", "", "Encoder", "I-AUROC", "P-AUROC", "I-AUROC", "ms"]
    assert body[0][:5] == [
        *("1-shot", "Theirs (published)", r"\textendash{}", "95.8", r"\underline{96.2}")
    ]
    assert body[1][3] == r"\textbf{96.3\textsubscript{$\pm$0.2}}"
    assert body[2][1] == r"\textbf{Hyper-FSAD}"
    assert body[0][5] == r"\textendash{}"
    assert text.count(r"\midrule") == 2
    assert r"\begin{tabular}{lllcccc}" in text


def test_latex_without_groups_is_plain() -> None:
    text = to_latex(one_column(1.0, 2.0))
    assert latex_lines(text) == [["", "I"], ["0", r"\underline{1.0}"], ["1", r"\textbf{2.0}"]]
    assert r"\cmidrule" not in text


def test_latex_escapes_what_it_would_misread() -> None:
    row = TableRow(NASTY, ("λ = 0.5, ×, ±",), NASTY)
    table = Table(NASTY, (Column(NASTY, NASTY),), (row, TableRow("[3, 6]", ("* a",))), (NASTY,))
    text = to_latex(table)
    _, header, first, second = latex_lines(text)
    escaped = (
        r"50\% of\_a \& \#1 \{x\} \$y\$ \textasciitilde{} \textasciicircum{} \textbackslash{}"
        r" \textless{}b\textgreater{} \textbar{} {*}"
    )
    assert header[2] == escaped
    assert first == [escaped, escaped, r"$\lambda$ = 0.5, $\times$, $\pm$"]
    assert second[1:] == ["{[}3, 6]", "{*} a"]
    assert text.count(escaped) == 6
    assert (
        latex_lines(to_latex(replace(table, rows=(TableRow("[3, 6]", ("a",)),))))[-1][0]
        == "{[}3, 6]"
    )


def test_three_files_are_written_and_nothing_else(tmp_path: Path) -> None:
    paths = write_table(TABLE, tmp_path / "new", "main.v1")
    assert [path.name for path in paths] == [*("main.v1.md", "main.v1.csv", "main.v1.tex")]
    assert sorted(paths) == sorted((tmp_path / "new").iterdir())
    for path, writer in zip(paths, (to_markdown, to_csv, to_latex), strict=True):
        assert path.read_bytes().decode("utf-8") == writer(TABLE)
    first = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in write_table(TABLE, tmp_path / "new", "main.v1")] == first


def test_a_folder_that_is_a_file_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(
        HyperfsadError, match=r"Cannot write .*taken.*: a part of the path is a file"
    ):
        write_table(TABLE, tmp_path / "taken", "main")
