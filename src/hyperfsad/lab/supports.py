"""Which good images are the support: drawn by one rule, or read from a file; always written.

The rule does not depend on the order of categories, files or machines: the good images of a
category are ranked by sha256("seed/run/data set/category/file name"), and K shots are the first K.
So the supports of 1, 2 and 4 shots are nested within a run, and every method gets the same ones.
A file may hold any others, such as the draws of another author.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ..disk.files import encoded, open_regular, write_file
from ..errors import UsageError, brief, reason
from .datasets import Category

Supports: TypeAlias = dict[tuple[int, int], tuple[str, ...]]
"""The paths of the support images of a category by run and shots, in the order of the scores."""

ContentHash: TypeAlias = Callable[[str], str]
"""From the path of an image to the hash of its file: copies count once."""

_EXAMPLE = (
    '{"supports": [{"dataset": "mvtec", "category": "bottle", "run": 0, "shots": 1,'
    ' "images": ["003.png"]}]}'
)


@dataclass(frozen=True)
class Draws:
    """The support sets of a whole run, by data set and category."""

    seed: int | None
    """None: they come from a file that names none."""
    supports: Mapping[tuple[str, str], Supports]

    @property
    def shots(self) -> tuple[int, ...]:
        """The numbers of support images that occur."""
        return tuple(sorted({shots for sets in self.supports.values() for _, shots in sets}))

    @property
    def runs(self) -> tuple[int, ...]:
        """The runs that occur."""
        return tuple(sorted({run for sets in self.supports.values() for run, _ in sets}))

    def of(self, category: Category) -> Supports:
        """Those of a category."""
        return self.supports[category.dataset, category.name]


def file_name(path: str) -> str:
    """The last part of a path."""
    return path.replace("\\", "/").rpartition("/")[2]


def support_order(
    category: Category, run: int, seed: int, content_hash: ContentHash, most: int | None = None
) -> list[str]:
    """The good images of a category in the order of a run, without copies of one another.

    With `most`, only so many: no more files are read than that takes.
    """

    def rank(path: str) -> str:
        text = f"{seed}/{run}/{category.dataset}/{category.name}/{file_name(path)}"
        return hashlib.sha256(text.encode("utf-8", errors="surrogateescape")).hexdigest()

    distinct: dict[str, str] = {}
    for path in sorted(category.normal, key=rank):
        if most is not None and len(distinct) == most:
            break
        distinct.setdefault(content_hash(path), path)
    return list(distinct.values())


def draw_category(
    category: Category, shots: Sequence[int], runs: int, seed: int, content_hash: ContentHash
) -> Supports:
    """The supports of a category by the rule."""
    most = max(shots)
    supports = {}
    for run in range(runs):
        order = support_order(category, run, seed, content_hash, most)
        if len(order) < most:
            raise UsageError(
                f"{category.dataset}/{category.name} has {len(order)} different good images;"
                f" {most} shots need {most}."
            )
        for number in sorted(set(shots)):
            supports[run, number] = tuple(order[:number])
    return supports


def draw(
    categories: Sequence[Category],
    shots: Sequence[int],
    runs: int,
    seed: int,
    content_hash: ContentHash,
) -> Draws:
    """The supports of all categories by the rule."""
    drawn = {
        (category.dataset, category.name): draw_category(category, shots, runs, seed, content_hash)
        for category in categories
    }
    return Draws(seed, drawn)


def write_draws(draws: Draws, path: Path) -> None:
    """A file that `read_draws` takes: a line for each support set."""
    entries = [
        {"dataset": dataset, "category": category, "run": run, "shots": shots, "images": names}
        for (dataset, category), sets in draws.supports.items()
        for (run, shots), paths in sets.items()
        if (names := list(map(file_name, paths)))
    ]
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    content = f'{{"seed": {json.dumps(draws.seed)}, "supports": [\n{lines}\n]}}\n'
    write_file(path, encoded(content), parents=True)


def read_draws(path: Path, categories: Sequence[Category]) -> Draws:
    """The supports that a file names, for these categories; K sets need not be nested.

    A name is that of a good image, or as much of the end of its path as tells it from others.
    """
    try:
        with open_regular(path) as file:
            content = json.loads(file.read().decode("utf-8"))
        seed, entries = content.get("seed"), content["supports"]
        if not isinstance(entries, list) or not (seed is None or isinstance(seed, int)):
            raise ValueError("supports is no list, or the seed no number")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise UsageError(f"{path} should be JSON such as {_EXAMPLE}: {reason(error)}.") from error
    wanted = {(category.dataset, category.name): category for category in categories}
    found: dict[tuple[str, str], Supports] = {}
    for number, entry in enumerate(entries, start=1):
        place = f"{path}, entry {number}"
        (dataset, name, run, shots), images = _checked(entry, place)
        category = wanted.get((dataset, name))
        if category is None:  # of a data set that is not measured this time
            continue
        sets = found.setdefault((dataset, name), {})
        if (run, shots) in sets:
            raise UsageError(
                f"{place}: {dataset}/{name} has another list for run {run} and {shots} shots; keep"
                " one."
            )
        sets[run, shots] = tuple(_resolved(category, images, place))
    ordered = {key: dict(sorted(found.get(key, {}).items())) for key in wanted}
    expected = {pair for sets in ordered.values() for pair in sets}
    for (dataset, name), sets in ordered.items():
        missing = sorted(expected - set(sets))
        if missing or not sets:
            which = f" for run {missing[0][0]} and {missing[0][1]} shots" if missing else ""
            raise UsageError(
                f"{path} names no supports of {dataset}/{name}{which}; add them, or leave the"
                " category out."
            )
    return Draws(seed, ordered)


def _checked(entry: Any, place: str) -> tuple[tuple[str, str, int, int], list[str]]:
    """What an entry says; bool is no number here."""
    values = entry if isinstance(entry, dict) else {}
    kinds = {"dataset": str, "category": str, "run": int, "shots": int, "images": list}
    for name, kind in kinds.items():
        if type(values.get(name)) is not kind:
            raise UsageError(
                f"{place}: {name} is {brief(values.get(name))}; an entry is as in {_EXAMPLE}."
            )
    images = values["images"]
    if not all(isinstance(image, str) for image in images) or len(images) != values["shots"]:
        raise UsageError(
            f"{place}: {values['shots']} shots need so many names of images, not {brief(images)}."
        )
    if not images or len(set(images)) < len(images):
        raise UsageError(f"{place}: name at least one image, and each of them once.")
    return (values["dataset"], values["category"], values["run"], values["shots"]), images


def _resolved(category: Category, names: Sequence[str], place: str) -> Iterator[str]:
    for name in names:
        end = "/" + name.replace("\\", "/").removeprefix("/")
        paths = [p for p in category.normal if f"/{p}".replace("\\", "/").endswith(end)]
        if len(paths) != 1:
            what = "has no good image" if not paths else f"has {len(paths)} good images"
            raise UsageError(
                f"{place}: {category.dataset}/{category.name} {what} named {name}; name one that"
                " is there."
            )
        yield paths[0]
