"""Everything that a user of hyperfsad can name, as one sorted list; and what changed between two.

    python benchmarks/inventory.py list ANSWERS --python /path/to/python > new.txt
    python benchmarks/inventory.py diff old.txt new.txt

ANSWERS is a folder that `same_answers.py record` filled with the same commit: fields of records,
files and answers are read from what was really written, over all kinds of detectors. Options come
from the parsers of the installed commands, Python names from `__all__` and the classes behind it.
"""

import argparse
import contextlib
import csv
import importlib
import inspect
import io
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

AUDIT = re.compile(r'"((?:product|label|labelled|originals|signed) [a-z]+)"')
"""What the station writes into its audit log."""


def walk(place: str, value: Any) -> Iterator[str]:
    """The fields of a JSON value, as dotted paths; lists count as one of their entries."""
    if isinstance(value, dict):
        for key, inner in value.items():
            name = "*" if re.fullmatch(r"\d+|bottle|transistor", key) else key
            yield f"{place}.{name}"
            yield from walk(f"{place}.{name}", inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(place, inner)


def from_answers(folder: Path, python: str) -> Iterator[str]:
    """Fields of what the commands and the station wrote."""
    for path in folder.glob("detect/*/*.jsonl"):
        for row in path.read_text(encoding="utf-8").splitlines():
            yield from walk("record", json.loads(row))
    for path in folder.glob("detect/*/*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            yield from (f"column of {path.name}: {name}" for name in next(csv.reader(file)))
    for path in folder.glob("*.hfsad"):
        command = [python, "-m", "hyperfsad", "info", str(path), "--json"]
        asked = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
        yield from walk("detector file", json.loads(asked.stdout))
    for path in folder.glob("explain/*.json"):
        yield from walk("explain", json.loads(path.read_text(encoding="utf-8")))
    for path in folder.glob("exported-*/model.json"):
        yield from walk("exported", json.loads(path.read_text(encoding="utf-8")))
    for path in folder.glob("benchmark/*/*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            yield from (
                f"column of benchmark {path.name}: {name}" for name in next(csv.reader(file))
            )
    for path in folder.glob("evaluation/*.json"):
        yield from walk(f"evaluation {path.name}", json.loads(path.read_text(encoding="utf-8")))
    api = json.loads((folder / "openapi.json").read_text(encoding="utf-8"))
    for address, methods in api["paths"].items():
        yield from (f"endpoint {method.upper()} {address}" for method in methods)
    for name, schema in api["components"]["schemas"].items():
        yield from (f"schema {name}.{field}" for field in schema.get("properties", {}))
    metrics = (folder / "metrics.txt").read_text(encoding="utf-8")
    yield from (f"metric {name}" for name in re.findall(r"# TYPE (\S+)", metrics))


def options() -> Iterator[str]:
    """The options and files of each command, from the parsers that print the help."""
    waiting = [()]  # type: list[tuple[str, ...]]
    while waiting:
        words = waiting.pop()
        command = " ".join(("hyperfsad", *words))
        yield f"command {command}"
        for action in _parser(words)._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += [(*words, name) for name in action.choices]
            elif "--help" in action.option_strings:
                continue
            elif action.option_strings:
                yield from (f"option {command} {name}" for name in action.option_strings)
            else:
                yield f"argument {command} {action.metavar or action.dest}"


def _parser(words: tuple[str, ...]) -> argparse.ArgumentParser:
    """The parser of a command: the one that prints its help."""
    from hyperfsad.cli import main

    found: list[argparse.ArgumentParser] = []
    ordinary = argparse.ArgumentParser.print_help
    argparse.ArgumentParser.print_help = lambda self, file=None: found.append(self)  # type: ignore
    try:
        with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            main([*words, "--help"])
    finally:
        argparse.ArgumentParser.print_help = ordinary  # type: ignore[method-assign]
    return found[0]


def names() -> Iterator[str]:
    """What `__all__` of the package and of its packages offers, with the members of classes."""
    import hyperfsad

    modules = ["hyperfsad"]
    modules += [
        name
        for _, name, is_package in pkgutil.walk_packages(hyperfsad.__path__, "hyperfsad.")
        if is_package
    ]
    for module in modules:
        loaded = importlib.import_module(module)
        for name in getattr(loaded, "__all__", ()):
            yield f"name {module}.{name}"
            value = getattr(loaded, name)
            if module == "hyperfsad" and inspect.isclass(value):
                for member in dir(value):
                    home = next((c for c in value.__mro__ if member in vars(c)), object)
                    if not member.startswith("_") and home.__module__.startswith("hyperfsad"):
                        yield f"name {module}.{name}.{member}"
                if not issubclass(value, BaseException):
                    parameters = inspect.signature(value).parameters
                    yield from (f"parameter {module}.{name}({key})" for key in parameters)


def sources() -> Iterator[str]:
    import hyperfsad

    for path in Path(hyperfsad.__file__).parent.rglob("serve/**/*.py"):
        yield from (f"audit {action}" for action in AUDIT.findall(path.read_text(encoding="utf-8")))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True, dest="command")
    listing = commands.add_parser("list")
    listing.add_argument("answers")
    listing.add_argument("--python", default=sys.executable)
    commands.add_parser("here")  # what needs the package itself, in the other interpreter
    comparing = commands.add_parser("diff")
    comparing.add_argument("old")
    comparing.add_argument("new")
    given = parser.parse_args()
    if given.command == "here":
        print("\n".join({*options(), *names(), *sources()}))
    elif given.command == "list":
        folder = Path(given.answers)
        inside = [given.python, __file__, "here"]
        asked = subprocess.run(inside, capture_output=True, text=True, check=True, cwd=folder)
        found = {*asked.stdout.splitlines(), *from_answers(folder, given.python)}
        print("\n".join(sorted(found)))
    else:
        old, new = (set(Path(name).read_text().splitlines()) for name in (given.old, given.new))
        print(
            "\n".join(
                sorted(
                    [*(f"- {row}" for row in old - new), *(f"+ {row}" for row in new - old)],
                    key=lambda row: (row[2:], row),
                )
            )
        )
        print(f"{len(old & new)} the same, {len(old - new)} only old, {len(new - old)} only new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
