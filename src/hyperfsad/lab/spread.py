"""The benchmark's work on Ray: workers score blocks of images, then measure support sets.

A block is sixteen test images of a category with all runs at once, since one encoding serves them
all; metrics are computed for each category, run and number of shots by itself. All of it is put
where a run on one machine keeps it, so that such a run finds it, checks it and goes on from there.
"""

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cluster.session import Cluster, ray_session
from ..disk.files import write_file
from ..encoders import EncoderSettings
from ..errors import HyperfsadError, first_line
from ..messages import Notify, silent
from .datasets import Category
from .protocol import (
    Metrics,
    Protocol,
    block_files,
    keep_metrics,
    kept_metrics,
    measured,
    scorer_of,
)
from .supports import Draws

if TYPE_CHECKING:
    from .scorer import Scorer
    from .token_cache import TokenCache


TOGETHER = 128 << 20
"""Bytes of scores and maps that wait to be measured."""


@dataclass(frozen=True)
class Pass:
    """What every worker is told."""

    categories: tuple[Category, ...]
    draws: Draws
    protocol: Protocol
    settings: EncoderSettings
    machine: dict[str, Any]
    """Device, engine and the limit of the tokens on disk."""
    threads: int
    folder: str
    """What relative paths begin at."""


class BlockScorer:
    """Loads the encoder once; called with tables of one row, a block each."""

    def __init__(self, work: Pass) -> None:
        from ..encoders.encoder import use_threads
        from .token_cache import TokenCache

        if os.path.isdir(work.folder):
            os.chdir(work.folder)
        use_threads(work.threads)
        self._work, self._refusal = work, None
        try:
            self._cache = TokenCache(work.settings, **work.machine)
        except HyperfsadError as error:
            self._refusal = str(error)
        self._scorer = lru_cache(maxsize=2)(self._made)  # one holds the tokens of all its supports

    def _made(self, number: int) -> "Scorer":
        category = self._work.categories[number]
        supports = self._work.draws.of(category)
        return scorer_of(category, self._work.protocol, self._cache, supports)

    def __call__(self, batch: Any) -> Any:
        """The file of the block, or why there is none."""
        import pyarrow as pa

        (row,) = batch.to_pylist()
        content, refusal = b"", self._refusal
        try:
            if refusal is None:
                content = self._block(row["category"], row["block"])
        except (HyperfsadError, OSError) as error:
            refusal = first_line(error)
        row = {"category": row["category"], "block": row["block"]}
        return pa.Table.from_pylist([{**row, "content": content, "refusal": refusal or ""}])

    def _block(self, category: int, block: int) -> bytes:
        with tempfile.TemporaryDirectory(prefix="hyperfsad-") as folder:
            blocks = list(block_files(self._work.categories[category], Path(folder)))
            paths, file = blocks[block]
            self._scorer(category).stored(paths, file)
            return file.read_bytes()


def measure(batch: Any, categories: Sequence[Category], protocol: Protocol, folder: str) -> Any:
    """The metrics of one support set of a category, for each method."""
    import pyarrow as pa

    if os.path.isdir(folder):
        os.chdir(folder)  # where the masks are
    (row,) = batch.to_pylist()
    with np.load(io.BytesIO(row["content"]), allow_pickle=False) as arrays:
        found = measured(categories[row["category"]], protocol, arrays["scores"], arrays["maps"])
    place = {"category": row["category"], "place": row["place"]}
    return pa.Table.from_pylist([{**place, "metrics": json.dumps([of for (of,) in found])}])


class SpreadOnRay:
    """Called by a benchmark for each pass: has others do what is not done yet."""

    def __init__(self, cluster: Cluster, *, notify: Notify = silent, **machine: Any) -> None:
        """`machine`: device, engine and limit of a `TokenCache`."""
        self._cluster, self._notify, self._machine = cluster, notify, machine
        self._open = contextlib.ExitStack()
        self._ray: Any = None

    def __enter__(self) -> "SpreadOnRay":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def __call__(
        self,
        categories: Sequence[Category],
        draws: Draws,
        protocol: Protocol,
        cache: "TokenCache",
        work: Path,
    ) -> None:
        """Leaves all blocks and metrics of the categories in the folder of the pass."""
        scorers = [scorer_of(each, protocol, cache, draws.of(each)) for each in categories]
        blocks = [list(block_files(category, work)) for category in categories]
        missing = [
            {"category": place, "block": number}
            for place, scorer in enumerate(scorers)
            for number, (paths, file) in enumerate(blocks[place])
            if scorer.kept(paths, file) is None
        ]
        unmeasured = [
            place
            for place, (scorer, category) in enumerate(zip(scorers, categories, strict=True))
            if kept_metrics(scorer, category, protocol, cache, work) is None
        ]
        if not missing and not unmeasured:
            return
        told = Pass(
            tuple(categories),
            draws,
            protocol,
            cache.settings,
            self._machine,
            self._cluster.cores,
            os.getcwd(),
        )
        if self._ray is None:  # once for all passes, and not at all where nothing is left to do
            self._ray = self._open.enter_context(ray_session(self._cluster, self._notify))
        for row in self._scored(told, missing):
            if row["refusal"]:
                raise HyperfsadError(f"A worker cannot go on: {row['refusal']}")
            paths, file = blocks[row["category"]][row["block"]]
            write_file(file, row["content"], parents=True)
            if scorers[row["category"]].kept(paths, file) is None:
                raise HyperfsadError(
                    "A worker has another version of hyperfsad, other weights of"
                    f" {cache.settings.name} or another engine than this machine; install the"
                    " same on all."
                )
        found: dict[int, dict[int, list[dict[str, float | None]]]] = {}
        for row in self._measured(told, unmeasured, work):
            sets = found.setdefault(row["category"], {})
            sets[row["place"]] = json.loads(row["metrics"])
        for place, sets in found.items():
            ordered = [sets[number] for number in sorted(sets)]
            metrics: Metrics = [list(of) for of in zip(*ordered, strict=True)]
            keep_metrics(metrics, scorers[place], categories[place], protocol, cache, work)

    def _scored(self, told: Pass, missing: list[dict[str, int]]) -> Iterator[Any]:
        if not missing:
            return
        pool = self._cluster.worker_pool(self._ray, len(missing))
        rows = self._ray.data.from_items(missing, override_num_blocks=len(missing))
        yield from rows.map_batches(BlockScorer, fn_constructor_args=(told,), **pool).iter_rows()

    def _measured(self, told: Pass, unmeasured: list[int], work: Path) -> Iterator[dict[str, Any]]:
        """The support sets of a few categories are measured side by side; no more are in memory."""
        options = {"categories": told.categories, "protocol": told.protocol, "folder": told.folder}
        for rows in _groups(
            _support_sets(place, told.categories[place], work) for place in unmeasured
        ):
            items = self._ray.data.from_items(rows, override_num_blocks=len(rows))
            yield from items.map_batches(
                measure, fn_kwargs=options, batch_size=1, batch_format="pyarrow", num_cpus=1
            ).iter_rows()


def _groups(
    categories: Iterable[Iterable[dict[str, Any]]],
) -> Iterator[list[dict[str, Any]]]:
    """Rows of several categories, as many as fit into memory."""
    gathered: list[dict[str, Any]] = []
    for rows in categories:
        gathered += rows
        if sum(len(row["content"]) for row in gathered) > TOGETHER:
            yield gathered
            gathered = []
    if gathered:
        yield gathered


def _support_sets(place: int, category: Category, work: Path) -> Iterator[dict[str, Any]]:
    """The scores and maps of each support set of a category by itself."""
    found = []
    for _, file in block_files(category, work):
        with np.load(file, allow_pickle=False) as stored:
            found.append((stored["scores"], stored["maps"]))
    scores, maps = (np.concatenate(arrays, axis=2) for arrays in zip(*found, strict=True))
    for number in range(scores.shape[1]):
        content = io.BytesIO()
        np.savez(content, scores=scores[:, [number]], maps=maps[:, [number]])
        yield {"category": place, "place": number, "content": content.getvalue()}
