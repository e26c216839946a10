"""Which good images are the support: drawn by one rule or read from a file, and always written.

The rule does not depend on the order of categories, files or machines: the good images of a
category are ranked by sha256("seed/run/data set/category/file name"), and K shots are the first K.
So the supports of 1, 2 and 4 shots are nested within a run, and every method gets the same ones.
A file may hold any others, such as the support sets of another author.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ..disk.files import encoded, open_regular, write_file
from ..errors import UsageError, brief, reason
from .datasets import Category
from .tokens import ContentHash

Supports: TypeAlias = dict[tuple[int, int], tuple[str, ...]]
"""The paths of the support images of a category by run and shots, in the order of the scores."""

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


def draw_supports(
    categories: Sequence[Category],
    shots: Sequence[int],
    runs: int,
    seed: int,
    content_hash: ContentHash,
) -> SupportSets:
    """The supports of all categories by the rule."""
    needed, drawn = max(shots), {}
    for category in categories:
        place = {"dataset": category.dataset, "category": category.name}
        supports: Supports = {}
        for run in range(runs):
            order = support_order(category, run, seed, content_hash, needed)
            if len(order) < needed:
                facts = {"found": len(order), "needed": needed}
                raise UsageError("too-few-good-images", **place, **facts)
            supports |= {(run, number): tuple(order[:number]) for number in sorted(set(shots))}
        drawn[category.dataset, category.name] = supports
    return SupportSets(seed, drawn)


def write_supports(sets: SupportSets, path: Path) -> None:
    """Writes a file that `read_supports` reads: one line for each support set."""
    entries = [
        dict(zip(_ENTRY_FIELDS, (*place, run, shots, [*map(file_name, paths)]), strict=True))
        for place, supports in sets.supports.items()
        for (run, shots), paths in supports.items()
    ]
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
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
        values = entry if isinstance(entry, dict) else {}
        for name, kind in _ENTRY_FIELDS.items():
            if type(values.get(name)) is not kind:  # a bool is not a number
                raise UsageError("supports-field", **at, name=name, given=brief(values.get(name)))
        dataset, category, run, shots, images = (values[name] for name in _ENTRY_FIELDS)
        named = {image for image in images if isinstance(image, str)}
        if not images or not len(named) == len(images) == shots:
            raise UsageError("supports-images", **at, shots=shots, given=brief(images))
        if (dataset, category) not in wanted:  # of a data set that is not measured this time
            continue
        sets = found[dataset, category]
        if (run, shots) in sets:
            facts = {"dataset": dataset, "category": category, "run": run, "shots": shots}
            raise UsageError("supports-twice", **at, **facts)
        sets[run, shots] = tuple(_resolved(wanted[dataset, category], images, at))
    expected = {pair for sets in found.values() for pair in sets} or {(0, 1)}
    for (dataset, category), sets in found.items():
        for run, shots in sorted(expected - set(sets))[:1]:
            where = {"dataset": dataset, "category": category, "run": run, "shots": shots}
            raise UsageError("supports-missing", path=path, **where)
    return SupportSets(seed, {place: dict(sorted(sets.items())) for place, sets in found.items()})


def _resolved(category: Category, names: Sequence[str], at: dict[str, Any]) -> Iterator[str]:
    for name in names:
        end = "/" + name.replace("\\", "/").removeprefix("/")
        paths = [p for p in category.normal if f"/{p}".replace("\\", "/").endswith(end)]
        if len(paths) != 1:
            facts = {"dataset": category.dataset, "category": category.name, "name": name}
            raise UsageError("supports-name", **at, **facts, found=len(paths))
        yield paths[0]
