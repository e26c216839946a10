"""Which good images are the support: drawn by one rule or read from a file, and always written.

The rule does not depend on the order of categories, files or machines: the good images of a
category are ranked by sha256("seed/run/data set/category/file name"), and K shots are the first K.
So the supports of 1, 2 and 4 shots are nested within a run, and every method gets the same ones.
A file may hold any others, such as the support sets of another author.
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

_ENTRY_FIELDS = {"dataset": str, "category": str, "run": int, "shots": int, "images": list}


@dataclass(frozen=True)
class SupportSets:
    """The support images of a whole benchmark, by data set and category."""

    seed: int | None
    """None where they come from a file that names no seed."""
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
    category: Category, run: int, seed: int, content_hash: ContentHash, limit: int | None = None
) -> list[str]:
    """The good images of a category in the order of a run, without copies of one another.

    With `limit` at most that many: no further files are read.
    """

    def rank(path: str) -> str:
        text = f"{seed}/{run}/{category.dataset}/{category.name}/{file_name(path)}"
        return hashlib.sha256(text.encode("utf-8", errors="surrogateescape")).hexdigest()

    distinct: dict[str, str] = {}
    for path in sorted(category.normal, key=rank):
        if limit is not None and len(distinct) == limit:
            break
        distinct.setdefault(content_hash(path), path)
    return list(distinct.values())


def draw_category(
    category: Category, shots: Sequence[int], runs: int, seed: int, content_hash: ContentHash
) -> Supports:
    """The supports of a category by the rule."""
    needed, supports = max(shots), {}
    for run in range(runs):
        order = support_order(category, run, seed, content_hash, needed)
        if len(order) < needed:
            raise UsageError(
                "too-few-good-images",
                dataset=category.dataset,
                category=category.name,
                found=len(order),
                needed=needed,
            )
        for number in sorted(set(shots)):
            supports[run, number] = tuple(order[:number])
    return supports


def draw_supports(
    categories: Sequence[Category],
    shots: Sequence[int],
    runs: int,
    seed: int,
    content_hash: ContentHash,
) -> SupportSets:
    """The supports of all categories by the rule."""
    drawn = {
        (category.dataset, category.name): draw_category(category, shots, runs, seed, content_hash)
        for category in categories
    }
    return SupportSets(seed, drawn)


def write_supports(sets: SupportSets, path: Path) -> None:
    """Writes a file that `read_supports` reads: one line for each support set."""
    lines = ",\n".join(
        json.dumps(
            dict(zip(_ENTRY_FIELDS, (*place, run, shots, [*map(file_name, paths)]), strict=True)),
            ensure_ascii=False,
        )
        for place, supports in sets.supports.items()
        for (run, shots), paths in supports.items()
    )
    content = f'{{"seed": {json.dumps(sets.seed)}, "supports": [\n{lines}\n]}}\n'
    write_file(path, encoded(content), parents=True)


def read_supports(path: Path, categories: Sequence[Category]) -> SupportSets:
    """The supports that a file names for these categories; they need not be nested.

    A name is that of a good image, or as much of the end of its path as tells it from others.
    """
    try:
        with open_regular(path) as file:
            content = json.loads(file.read().decode("utf-8"))
        seed, entries = content.get("seed"), content["supports"]
        if not isinstance(entries, list) or not (seed is None or isinstance(seed, int)):
            raise ValueError("`supports` must be a list, and `seed` a whole number")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise UsageError("supports-file", path=path, reason=reason(error)) from error
    wanted = {(category.dataset, category.name): category for category in categories}
    found: dict[tuple[str, str], Supports] = {place: {} for place in wanted}
    for number, entry in enumerate(entries, start=1):
        at = {"path": path, "entry": number}
        (*place, run, shots), images = _checked(entry, at)
        category = wanted.get((place[0], place[1]))
        if category is None:  # of a data set that is not measured this time
            continue
        sets = found[place[0], place[1]]
        if (run, shots) in sets:
            facts = {"dataset": place[0], "category": place[1], "run": run, "shots": shots}
            raise UsageError("supports-twice", **at, **facts)
        sets[run, shots] = tuple(_resolved(category, images, at))
    expected = {pair for sets in found.values() for pair in sets} or {(0, 1)}
    for (dataset, name), sets in found.items():
        for run, shots in sorted(expected - set(sets))[:1]:
            where = {"dataset": dataset, "category": name, "run": run, "shots": shots}
            raise UsageError("supports-missing", path=path, **where)
    return SupportSets(seed, {place: dict(sorted(sets.items())) for place, sets in found.items()})


def _checked(entry: Any, at: dict[str, Any]) -> tuple[tuple[Any, ...], list[str]]:
    """The fields of an entry; a bool does not count as a number."""
    values = entry if isinstance(entry, dict) else {}
    for name, kind in _ENTRY_FIELDS.items():
        if type(values.get(name)) is not kind:
            raise UsageError("supports-field", **at, name=name, given=brief(values.get(name)))
    *place, images = (values[name] for name in _ENTRY_FIELDS)
    named = {image for image in images if isinstance(image, str)} if images else set()
    if not images or not len(named) == len(images) == values["shots"]:
        raise UsageError("supports-images", **at, shots=values["shots"], given=brief(images))
    return tuple(place), images


def _resolved(category: Category, names: Sequence[str], at: dict[str, Any]) -> Iterator[str]:
    for name in names:
        end = "/" + name.replace("\\", "/").removeprefix("/")
        paths = [p for p in category.normal if f"/{p}".replace("\\", "/").endswith(end)]
        if len(paths) != 1:
            facts = {"dataset": category.dataset, "category": category.name, "name": name}
            raise UsageError("supports-name", **at, **facts, found=len(paths))
        yield paths[0]
