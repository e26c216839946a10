r"""All tables and figures as one LaTeX document, `paper.tex`, with the pictures in `figures/`.

It needs the packages booktabs, graphicx, adjustbox and float, and any engine.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...disk.files import encoded, write_file
from ..run import Outcome
from ..tables import latex_table, latex_text
from .page import provenance
from .plan import Plan, lasting
from .sections import PaperFigure, Section, subset_sentences

LATEX = "paper.tex"
_LATEX_HEAD = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage{textcomp}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs}
\usepackage{graphicx}
\usepackage{adjustbox}
\usepackage{float}
\begin{document}
\title{Hyper-FSAD: the paper's tables and figures, measured again}
\author{}
\date{}
\maketitle"""
_PUNCTUATION = "–—‘’“”…"
"""What every engine sets besides Latin letters; the rest is shown by its number."""


def write_latex(
    plan: Plan,
    outcomes: Mapping[str, Outcome],
    sections: Sequence[Section],
    out: Path,
    command: str,
) -> Path:
    """Writes `paper.tex` and the pictures that it includes; returns its path."""
    parts = [_LATEX_HEAD]
    if plan.absent:
        parts += [r"\section*{Not done here}", _list([lasting(each) for each in plan.absent])]
    if found := subset_sentences(outcomes):
        parts.append(latex_text("Measured on parts of data sets: " + " ".join(found)))
    for section in sections:
        parts += [rf"\section{{{latex_text(section.title)}}}", latex_text(section.text)]
        parts += [
            latex_table(table, f"{table.title} ({place}).", f"tab:{section.key}-{number}")
            for number, (table, place) in enumerate(section.tables, start=1)
        ]
        if section.sentences:
            parts.append(_list(section.sentences))
        for number, figure in enumerate(section.figures, start=1):
            name = f"{section.key}-{number}"
            write_file(out / "figures" / f"{name}.pdf", figure.pdf.read_bytes(), parents=True)
            parts.append(_figure(figure, name))
    parts += [*_closing(plan, outcomes, command), r"\end{document}"]
    path = out / LATEX
    write_file(path, encoded(_settable("\n\n".join(parts) + "\n")), parents=True)
    return path


def _figure(figure: PaperFigure, name: str) -> str:
    width = r"0.6\textwidth" if figure.small else r"\textwidth"
    size = rf"width={width}, height=0.8\textheight, keepaspectratio"
    lines = [
        r"\begin{figure}[H]",
        r"\centering",
        rf"\includegraphics[{size}]{{figures/{name}.pdf}}",
        rf"\caption{{{latex_text(figure.caption)}}}",
        rf"\label{{fig:{name}}}",
        r"\end{figure}",
    ]
    return "\n".join(lines)


def _closing(plan: Plan, outcomes: Mapping[str, Outcome], command: str) -> list[str]:
    known = provenance(plan, outcomes)
    facts = [f"Command: {command}", f"Seed of the supports: {known['seed']}."]
    for name, weights, layers, machine, sizes in known["encoders"]:
        facts.append(
            f"Encoder {name}: layers {layers}; {', '.join(sizes)} px; {machine}; weights"
            f" {weights[:16]}…."
        )
    facts += [
        f"Imported {name}: scores.csv with sha256 {h}." for name, h in known["imports"].items()
    ]
    versions = ", ".join(f"{name} {version}" for name, version in known["versions"].items())
    return [r"\section{Provenance}", r"\sloppy", _list([*facts, f"Versions: {versions}."])]


def _list(items: Sequence[str]) -> str:
    # two hyphens would become a dash, and commands have them
    lines = [rf"\item {latex_text(item).replace('--', '-{}-')}" for item in items]
    return "\n".join([r"\begin{itemize}", *lines, r"\end{itemize}"])


def _settable(text: str) -> str:
    """Characters that LaTeX does not know would stop it."""
    return "".join(c if ord(c) < 0x180 or c in _PUNCTUATION else f"(U+{ord(c):04X})" for c in text)
