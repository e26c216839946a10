"""One table, and its writers: Markdown to read, CSV to compute with, LaTeX to print."""

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ..disk.files import encoded, write_file
from ..report.records import guarded

MISSING = "–"

Mark: TypeAlias = Literal["best", "second"]


@dataclass(frozen=True)
class Cell:
    """A figure and its standard deviation over runs, in percent where the column is a metric."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Column:
    """A heading; `group` is the heading above it, `better` which end wins (None: neither)."""

    name: str
    group: str = ""
    better: Literal["high", "low"] | None = "high"
    digits: int = 1

    @property
    def heading(self) -> str:
        """Both headings in one line."""
        return f"{self.group} {self.name}".strip()


@dataclass(frozen=True)
class TableRow:
    """A label and its cells: a figure, plain text, or None for what was not measured."""

    label: str
    cells: tuple[Cell | str | None, ...]
    group: str = ""
    """Rows compete within their group, as within one number of shots."""
    ours: bool = False
    published: bool = False
    """Whether the figures are the paper's and not measured here."""


@dataclass(frozen=True)
class Table:
    """Rows under columns. All text is plain: each writer escapes what its format would misread."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()

    def is_text(self, column: int) -> bool:
        """Whether a column holds text and no figure: aligned left, without deviations."""
        kinds = {type(row.cells[column]) for row in self.rows}
        return str in kinds and Cell not in kinds

    @property
    def lead(self) -> int:
        """Columns before the first cell: the row's group, if any row has one, and its label."""
        return 2 if any(row.group for row in self.rows) else 1

    @property
    def column_groups(self) -> list[tuple[str, int]]:
        """The headings above the headings, with the number of columns below each; none without."""
        groups = itertools.groupby(self.columns, key=lambda column: column.group)
        found = [(name, len(list(columns))) for name, columns in groups]
        return found if any(name for name, _ in found) else []

    @property
    def all_notes(self) -> list[str]:
        """The notes, and what the marks mean if there are any."""
        legend = "Bold: the best of its group; underlined: the second best."
        return [*self.notes, *([legend] if mark(self) else [])]


def mark(table: Table) -> dict[tuple[int, int], Mark]:
    """The best and second-best figures as (row, column), for each row group and column.

    What is compared is what is shown, so equal looks share a mark. A figure that has no rival in
    its group wins nothing.
    """
    marks: dict[tuple[int, int], Mark] = {}
    names: tuple[Mark, Mark] = ("best", "second")
    for c, column in enumerate(table.columns):
        groups: dict[str, dict[int, float]] = {}
        for r, row in enumerate(table.rows):
            mean, _ = _finite(row.cells[c])
            if column.better is not None and mean is not None:
                groups.setdefault(row.group, {})[r] = float(_digits(mean, column))
        for values in groups.values():
            if len(values) > 1:
                ranks = sorted(set(values.values()), reverse=column.better == "high")
                wins = dict(zip(ranks, names, strict=False))
                marks |= {(r, c): wins[value] for r, value in values.items() if value in wins}
    return marks


def to_markdown(table: Table) -> str:
    """A GitHub table: best in bold, second best underlined, our measured rows with bold labels."""
    lead = table.lead
    header = [*[""] * lead, *(markdown_text(column.heading) for column in table.columns)]
    lines = [header, *_body(table, _MARKDOWN)]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    left = [True] * lead + [table.is_text(c) for c in range(len(table.columns))]
    rules = [
        ":" + "-" * (width - 1) if to_left else "-" * (width - 1) + ":"
        for width, to_left in zip(widths, left, strict=True)
    ]

    def line(cells: list[str]) -> str:
        padded = (
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(cells, widths, left, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    notes = [f"- {markdown_text(note)}" for note in table.all_notes]
    parts = [f"### {markdown_text(table.title)}", "", *map(line, [header, rules, *lines[1:]])]
    return "\n".join([*parts, *([""] if notes else []), *notes]) + "\n"


def to_csv(table: Table) -> str:
    """Full precision, mean and deviation in columns of their own; what is missing is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    header = ["group", "label", "ours", "published"]
    for c, column in enumerate(table.columns):
        header += [column.heading, f"{column.heading} std"][: 1 if table.is_text(c) else 2]
    writer.writerow(header)
    for row in table.rows:
        line: list[str | float | None] = [row.group, row.label]
        line += ["true" if flag else "false" for flag in (row.ours, row.published)]
        for c, cell in enumerate(row.cells):
            figure = (cell, None) if isinstance(cell, str) else _finite(cell)
            line += figure[:1] if table.is_text(c) else figure
        writer.writerow(map(guarded, line))
    return text.getvalue()


def to_latex(table: Table) -> str:
    r"""A `table` with booktabs: \textbf for the best, \underline for the second best."""
    lead, names = table.lead, [latex_text(column.name) for column in table.columns]
    kinds = "".join("l" if table.is_text(c) else "c" for c in range(len(table.columns)))
    heads, rules, start = [""] * lead, "", lead + 1
    for group, count in table.column_groups:
        heads += (
            [rf"\multicolumn{{{count}}}{{c}}{{{latex_text(group)}}}"] if group else [""] * count
        )
        rules += rf"\cmidrule(lr){{{start}-{start + count - 1}}}" if group else ""
        start += count
    lines = [_latex_line(heads), rules] if rules else []
    lines += [_latex_line([*[""] * lead, *names]), r"\midrule"]
    previous = table.rows[0].group if table.rows else ""
    for row, cells in zip(table.rows, _body(table, _LATEX), strict=True):
        lines += [r"\midrule"] if row.group != previous else []
        lines.append(_latex_line(cells))
        previous = row.group
    parts = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{latex_text(table.title)}}}",
        rf"\begin{{tabular}}{{{'l' * lead}{kinds}}}",
        r"\toprule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par{{\footnotesize {latex_text(note)}}}" for note in table.all_notes),
        r"\end{table}",
    ]
    return "\n".join(parts) + "\n"


def write_table(table: Table, folder: Path, stem: str) -> list[Path]:
    """Writes stem.md, stem.csv and stem.tex, and returns their paths."""
    texts = {".md": to_markdown(table), ".csv": to_csv(table), ".tex": to_latex(table)}
    for suffix, text in texts.items():
        write_file(folder / f"{stem}{suffix}", encoded(text), parents=True)
    return [folder / f"{stem}{suffix}" for suffix in texts]


def cell_text(cell: Cell | str | None, column: Column) -> tuple[str, str]:
    """What a table shows of a cell: text, and the deviation of a figure or nothing."""
    mean, std = _finite(cell)
    if mean is None:
        return (cell if isinstance(cell, str) else MISSING), ""
    return _digits(mean, column), "" if std is None else _digits(std, column)


def _finite(cell: Cell | str | None) -> tuple[float | None, float | None]:
    """Mean and deviation of a cell; None for what is missing, text or not finite."""
    if not isinstance(cell, Cell) or not math.isfinite(cell.mean):
        return None, None
    std = math.nan if cell.std is None else float(cell.std)
    return float(cell.mean), std if math.isfinite(std) else None


def _digits(value: float, column: Column) -> str:
    shown = f"{value:.{column.digits}f}"
    return shown if float(shown) else shown.removeprefix("-")


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    escaped = "".join(f"\\{c}" if c in "\\`*_|<[" else c for c in text)
    return " ".join(escaped.splitlines())


_NAMES = {"\\": "textbackslash", "~": "textasciitilde", "^": "textasciicircum", "|": "textbar"}
_SIGNS = {"<": "textless", ">": "textgreater", "–": "textendash", "†": "dag", "‡": "ddag"}
_MATHS = {"±": "pm", "×": "times", "→": "to", "≤": "le", "≥": "ge", "≈": "approx", "∗": "ast"}
_GREEK = {"α": "alpha", "ε": "varepsilon", "λ": "lambda", "ρ": "rho", "σ": "sigma", "τ": "tau"}
_ESCAPES = str.maketrans(
    {character: rf"\{character}" for character in "{}$&#_%"}
    | {character: rf"\{name}{{}}" for character, name in (_NAMES | _SIGNS).items()}
    | {character: rf"$\{name}$" for character, name in (_MATHS | _GREEK).items()}
    | {character: f"{{{character}}}" for character in "[*"}  # else arguments of the \\ before them
)


def latex_text(text: str) -> str:
    """Text that LaTeX shows as it is, on one line."""
    return " ".join(text.translate(_ESCAPES).splitlines())


def _latex_line(cells: list[str]) -> str:
    return rf"{' & '.join(cells)} \\"


@dataclass(frozen=True)
class _Format:
    """How a format writes text, and a figure's deviation and marks around `{}`."""

    text: Callable[[str], str]
    deviation: str
    best: str
    second: str


_MARKDOWN = _Format(markdown_text, " ± {}", "**{}**", "<u>{}</u>")
_LATEX = _Format(latex_text, r"\textsubscript{{$\pm${}}}", r"\textbf{{{}}}", r"\underline{{{}}}")


def _body(table: Table, shown: _Format) -> Iterator[list[str]]:
    """The rows as a format shows them; a group is named where it begins."""
    marks, previous = mark(table), None
    for r, row in enumerate(table.rows):
        label = shown.text(f"{row.label} (published)" if row.published else row.label)
        cells = [shown.best.format(label) if row.ours and not row.published else label]
        if table.lead == 2:
            cells.insert(0, shown.text(row.group) if row.group != previous else "")
        previous = row.group
        for c, (cell, column) in enumerate(zip(row.cells, table.columns, strict=True)):
            text, deviation = cell_text(cell, column)
            if not isinstance(cell, Cell) or text == MISSING:
                cells.append(shown.text(text))
                continue
            figure = text + (shown.deviation.format(deviation) if deviation else "")
            won = marks.get((r, c))
            cells.append(getattr(shown, won).format(figure) if won else figure)
        yield cells
