"""Every command and every program of the pages runs, or says why it does not."""

import contextlib
import os
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from hyperfsad import HyperFSAD, ProductDetector
from hyperfsad.cli.console import ANOMALOUS, DONE, main, parse
from tests.docs.blocks import DOCS, MEASURED, USER_PAGES, Block, blocks, workspace

RUN = ("sh", "python")
SHOWN = ("text", "json", "yaml", "ini", "toml")
"""Languages that do nothing."""
SMALLER = (
    (r"\b(HyperFSAD|ProductDetector)\((?=\))", r"\1(TINY, resolution=84"),
    (r"\b(HyperFSAD|ProductDetector)\((?=\w+=)", r"\1(TINY, resolution=84, "),
    (r"\bmake_peer\((\"\w+\")\)", r"make_peer(\1, TINY)"),
    (r"\badvise\((?=\[)", "advise(make=partial(HyperFSAD, TINY), good="),
)
"""How a program gets the small encoder."""
RUNNABLE = [page for page in USER_PAGES if any(not one.key for one in blocks(page))]


@pytest.fixture(scope="module")
def drawn(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages speak of, with detectors of the small encoder."""
    folder = tmp_path_factory.mktemp("workspace")
    workspace(folder)
    part, products = folder / "part.hfsad", folder / "products.hfsad"
    HyperFSAD(tiny, device="cpu", rotations=1).fit(folder / "good").save(part)
    ProductDetector(tiny, device="cpu", rotations=1).fit(folder / "products").save(products)
    return folder


def with_small_encoder(words: list[str], tiny: str) -> list[str]:
    """The words of a command, with the small encoder where it would load the default one."""
    options = vars(parse([*words]))
    learns = "backbone" in options and options.get("detector") is None
    if not learns or "--config" in words or "--backbone" in words:
        return words
    small = "resolution" in options and "--tiles" not in words
    return [*words, "--backbone", tiny, *(["--resolution", "84"] if small else [])]


def run(block: Block, names: dict[str, object], tiny: str) -> None:
    """One block, as a reader would."""
    if block.key == "file":
        Path(block.reason).write_text(block.text, encoding="utf-8")
    elif block.language == "python":
        text = block.text
        for pattern, small in SMALLER:
            text = re.sub(pattern, small, text)
        exec(compile("\n" * block.line + text, str(block.page), "exec"), names)
    elif block.language == "sh":
        for words in block.commands:
            assert words[0] == "hyperfsad", words
            words, target = (words[1:-2], words[-1]) if ">" in words else (words[1:], os.devnull)
            with open(target, "w") as output, contextlib.redirect_stdout(output):
                assert main(with_small_encoder(words, tiny)) in (DONE, ANOMALOUS), words


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(
    page: Path, drawn: Path, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(drawn, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"TINY": tiny, "partial": partial, "HyperFSAD": HyperFSAD}
    for block in blocks(page):
        if block.key in ("", "file"):
            run(block, names, tiny)


@pytest.mark.parametrize("page", [*USER_PAGES, *MEASURED], ids=lambda page: page.stem)
def test_what_does_not_run_says_why(page: Path) -> None:
    found = blocks(page)
    assert page.read_text(encoding="utf-8").count("```") == 2 * len(found)
    for block in found:
        assert block.language in (*RUN, *SHOWN), block.line
        if block.key in ("not run", "tested"):
            assert len(block.reason.split()) >= 3, block.line


def test_commands_that_do_not_run_exist() -> None:
    """A command that starts a station or needs a data set is at least typed rightly."""
    for page in USER_PAGES:
        for block in blocks(page):
            for words in block.commands if block.language == "sh" and block.key else ():
                if words[0] == "hyperfsad":
                    assert parse(words[1:]).run, (page, words)


def test_no_block_hides_as_an_indented_one() -> None:
    for page in (*DOCS.glob("*.md"), *MEASURED):
        if page.stem == "inventory":
            continue
        lines, fenced, listed = page.read_text(encoding="utf-8").splitlines(), False, False
        for before, line in zip(["", *lines], lines, strict=False):
            fenced ^= line.lstrip().startswith("```")
            listed = line.startswith(("- ", *"123456789")) or (listed and line[:1] in ("", " "))
            assert fenced or listed or before or not line.startswith("    "), (page.name, line)
