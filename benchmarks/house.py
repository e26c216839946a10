"""How large the house is, and how far a call travels in it.

    python benchmarks/house.py                                  # this source tree
    python benchmarks/house.py OTHER --python OTHER/.venv/bin/python

Counts lines and files; the files in which a function runs during one `fit` and one `detect` of two
drawn parts (all threads, imports apart); calls into a higher layer of the import contract, for each
image (a run of four images minus one of two, halved); the classes of ours that `HyperFSAD` inherits
from; classes and constants of one name in two modules; places that refuse combinations of a
detector's choices elsewhere than in the table of `Settings`.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = "hyperfsad"
TRACED = "--traced"
FUNCTION = 1
"""The flag of code that is a function's, not a module's or a class's."""


class Tracer:
    """A profile hook: which files run, and which calls go to a higher layer."""

    def __init__(self, home: Path, layers: Mapping[str, int]) -> None:
        self.prefix, self.layers = f"{home}{os.sep}", layers
        self.files: Counter[str] = Counter()
        self.upwards: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not self._ours(frame.f_code) or not frame.f_code.co_flags & FUNCTION:
            return
        callers = list(self._callers(frame))
        if not all(code.co_flags & FUNCTION for code in callers):
            return  # while a module is imported
        self.files[self._place(frame.f_code)] += 1
        if callers and self._layer(frame.f_code) > self._layer(callers[0]):
            self.upwards[f"{self._name(callers[0])} → {self._name(frame.f_code)}"] += 1

    def _callers(self, frame: FrameType) -> Iterator[CodeType]:
        """Our own callers, the nearest first; other libraries between them do not count."""
        back = frame.f_back
        while back is not None:
            if self._ours(back.f_code):
                yield back.f_code
            back = back.f_back

    def _ours(self, code: CodeType) -> bool:
        return code.co_filename.startswith(self.prefix) and code.co_filename.endswith(".py")

    def _place(self, code: CodeType) -> str:
        return code.co_filename[len(self.prefix) :]

    def _name(self, code: CodeType) -> str:
        return f"{self._place(code)}:{code.co_name}"

    def _layer(self, code: CodeType) -> int:
        return self.layers.get(self._place(code).split(os.sep)[0].removesuffix(".py"), 0)


def trace(tree: Path, target: Path, words: list[str]) -> None:
    """Runs a command under the tracer, in this process, and writes what it saw."""
    from hyperfsad.cli import main as command

    tracer = Tracer(tree / "src" / PACKAGE, layers(tree))
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        code = command(words)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if code:
        raise SystemExit(code)
    found = {"files": tracer.files, "upwards": tracer.upwards}
    target.write_text(json.dumps(found), encoding="utf-8")


def layers(tree: Path) -> dict[str, int]:
    """The layer of each package, from the contract of import-linter; the lowest is 1."""
    text = (tree / "pyproject.toml").read_text(encoding="utf-8")
    (rows,) = re.findall(r"^layers = (\[.*?^\])", text, re.MULTILINE | re.DOTALL)
    found = ast.literal_eval(rows)
    return {
        name.strip().removeprefix(f"{PACKAGE}."): len(found) - number
        for number, row in enumerate(found)
        for name in row.split("|")
    }


class Tree:
    """A source tree and an interpreter for it."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.python = folder.absolute(), python
        self.source = self.folder / "src" / PACKAGE
        self._environment = {**os.environ, "PYTHONPATH": str(self.folder / "src")}

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [self.python, *words], env=self._environment, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(words)[:200]} ended with {done.returncode}")
        return done.stdout

    def size(self, folder: str) -> tuple[int, int]:
        """Lines and files of Python below a folder."""
        files = list((self.folder / folder).rglob("*.py"))
        return sum(len(path.read_bytes().splitlines()) for path in files), len(files)

    def traced(self, *words: str) -> dict[str, dict[str, int]]:
        """What runs during a command, in a process of its own."""
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "trace.json"
            self.run(__file__, TRACED, str(self.folder), str(target), *words)
            found: dict[str, dict[str, int]] = json.loads(target.read_text(encoding="utf-8"))
            return found

    def chain(self) -> list[str]:
        """The classes of ours that a detector is made of."""
        code = "import json, hyperfsad; print(json.dumps([f'{c.__module__}.{c.__name__}' for c in"
        code += " hyperfsad.HyperFSAD.__mro__ if c.__module__.startswith('hyperfsad')]))"
        found: list[str] = json.loads(self.run("-c", code))
        return found

    def clashes(self) -> dict[str, list[str]]:
        """Classes and constants of one name that several modules define."""
        found: dict[str, set[str]] = defaultdict(set)
        for path in self.source.rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                for name in _defined(node):
                    found[name].add(str(path.relative_to(self.source)))
        return {name: sorted(paths) for name, paths in sorted(found.items()) if len(paths) > 1}

    def refusals(self) -> dict[str, int]:
        """For each file, the places that refuse a combination of a detector's choices, beside the
        one table: sentences that name two of them, or ask to leave one out."""
        sentences, choices = self._sentences(), _choices()
        found: Counter[str] = Counter()
        for path in self.source.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and node.exc is not None:
                    kind = getattr(getattr(node.exc, "func", None), "id", "")
                    words = " ".join(_texts(node.exc))
                    sentence = sentences.get(words.split(" ")[0], words)
                    if kind == "UsageError" and _joins(sentence, choices):
                        found[str(path.relative_to(self.source))] += 1
        return dict(sorted(found.items()))

    def _sentences(self) -> dict[str, str]:
        """The sentences by their codes, where the tree has a package for them."""
        found = {}
        for path in (self.source / "wording").glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Dict):
                    for key, value in zip(node.keys, node.values, strict=True):
                        if isinstance(key, ast.Constant):
                            found[str(key.value)] = " ".join(_texts(value))
        return found


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef):
        return [node.name]
    targets: list[Any] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if name.replace("_", "").isupper()]


def _texts(node: ast.AST) -> list[str]:
    constants = [found for found in ast.walk(node) if isinstance(found, ast.Constant)]
    return [found.value for found in constants if isinstance(found.value, str)]


def _choices() -> set[str]:
    """The choices of a detector: the fields of `Settings` in this tree, whichever is counted."""
    path = Path(__file__).parents[1] / "src" / PACKAGE / "detector" / "settings.py"
    (found,) = (
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "Settings"
    )
    fields = (node.target for node in found.body if isinstance(node, ast.AnnAssign))
    return {target.id for target in fields if isinstance(target, ast.Name)}


def _joins(sentence: str, choices: set[str]) -> bool:
    """Whether a sentence is about choices that do not go together."""
    named = re.findall(r"--([a-z][a-z0-9-]+)|\{option\[(\w+)\]\}", sentence)
    names = {(flag or name).replace("-", "_") for flag, name in named}
    settings = {"lam" if name == "lambda" else name for name in names} & choices
    turned_down = r"leave .* out|either|together|with one another|does not go with|do not go"
    return len(settings) > 1 or bool(settings and re.search(turned_down, sentence))


def draw(tree: Tree, folder: Path) -> None:
    """Good parts to fit on, and two and four parts to inspect."""
    code = "import sys; from pathlib import Path; from hyperfsad.demo.drawing import draw;"
    code += "folder = Path(sys.argv[1]); folder.mkdir();"
    code += "[draw('plate', seed=int(n)).image.save(folder / f'{n}.png') for n in sys.argv[2:]]"
    for name, seeds in (("good", "01"), ("two", "89"), ("four", "6789")):
        tree.run("-c", code, str(folder / name), *seeds)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tree", nargs="?", default=Path(__file__).parents[1], type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--files", action="store_true", help="name all that was counted")
    options = parser.parse_args()
    tree = Tree(options.tree, options.python)

    def row(label: str, value: object, names: "list[str] | None" = None) -> None:
        print(f"{label:48} {value}")
        for name in names or () if options.files else ():
            print(f"    {name}")

    for folder in ("src", "benchmarks", "tests"):
        lines, files = tree.size(folder)
        row(f"{folder}: lines, files", f"{lines:,}, {files}")
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        draw(tree, root)
        detector = str(root / "part.hfsad")
        fit = tree.traced("fit", str(root / "good"), "-o", detector)
        two, four = (
            tree.traced("detect", str(root / n), "--detector", detector, "-o", str(root / f"o{n}"))
            for n in ("two", "four")
        )
    row("files that run during detect", len(two["files"]), sorted(two["files"]))
    row("files that run during fit", len(fit["files"]), sorted(fit["files"]))
    more = {
        name: (four["upwards"].get(name, 0) - two["upwards"].get(name, 0)) / 2
        for name in sorted(four["upwards"])
    }
    calls = [f"{number:g} {name}" for name, number in more.items() if number]
    row("calls into a higher layer, for each image", f"{sum(more.values()):g}", calls)
    chain = tree.chain()
    row("classes of ours in HyperFSAD", len(chain), chain)
    clashes = tree.clashes()
    row("names that two modules define", len(clashes), [f"{n}: {p}" for n, p in clashes.items()])
    refusals = tree.refusals()
    places = [f"{number} {name}" for name, number in refusals.items()]
    row(
        "refusals of combinations: places, files",
        f"{sum(refusals.values())}, {len(places)}",
        places,
    )
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == [TRACED]:
        trace(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
    else:
        sys.exit(main())
