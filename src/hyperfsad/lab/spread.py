"""The benchmark's work on Ray: workers score blocks of images, then measure categories.

A block is sixteen test images of a category with all runs at once, since one encoding serves them
all. All of it is put where a run on one machine keeps it, so that such a run finds it, checks it
and goes on from there.
"""

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cluster.session import Cluster, ray_session
from ..disk.files import write_file
from ..encoders import EncoderSettings
from ..errors import HyperfsadError, first_line
from ..images.loading import batched
from ..messages import Notify, silent
from .datasets import Category
from .protocol import Protocol, block_files, keep_metrics, kept_metrics, measured, scorer_of
from .supports import Draws

if TYPE_CHECKING:
    from .scorer import Scorer
    from .token_cache import TokenCache


@dataclass(frozen=True)
class BenchmarkPass:
    """What every worker needs to know."""

    categories: tuple[Category, ...]
    draws: Draws
    protocol: Protocol
    settings: EncoderSettings
    machine: dict[str, Any]
    """Device, engine and the limit of the tokens on disk."""
    threads: int
    folder: str
    """What relative paths begin at."""

    def enter_folder(self) -> None:
        """Makes relative paths mean what they mean to the driver."""
        if os.path.isdir(self.folder):
            os.chdir(self.folder)


class BlockScorer:
    """Loads the encoder once; called with tables of one row, a block each."""

    def __init__(self, work: BenchmarkPass) -> None:
        from ..encoders.encoder import use_threads
        from .token_cache import TokenCache

        work.enter_folder()
        use_threads(work.threads)
        self._work, self._refusal = work, ""
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
            if not refusal:
                content = self._block(row["category"], row["block"])
        except (HyperfsadError, OSError) as error:
            refusal = first_line(error)
        return pa.Table.from_pylist([{**row, "content": content, "refusal": refusal}])

    def _block(self, category: int, block: int) -> bytes:
        with tempfile.TemporaryDirectory(prefix="hyperfsad-") as folder:
            paths, file = list(block_files(self._work.categories[category], Path(folder)))[block]
            self._scorer(category).stored(paths, file)
            return file.read_bytes()


def measure_category(batch: Any, work: BenchmarkPass) -> Any:
    """The metrics of a category, for each method and support set."""
    import pyarrow as pa

    work.enter_folder()  # where the masks are
    (row,) = batch.to_pylist()
    with np.load(io.BytesIO(row["content"]), allow_pickle=False) as arrays:
        category = work.categories[row["category"]]
        found = measured(category, work.protocol, arrays["scores"], arrays["maps"])
    return pa.Table.from_pylist([{"category": row["category"], "metrics": json.dumps(found)}])


class SpreadOnRay:
    """Called by a benchmark for each pass: lets workers do what is not done yet."""

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
        machine, cores = self._machine, self._cluster.cores
        shared = BenchmarkPass(
            tuple(categories), draws, protocol, cache.settings, machine, cores, os.getcwd()
        )
        if self._ray is None:  # once for all passes, and not at all where nothing is left to do
            self._ray = self._open.enter_context(ray_session(self._cluster, self._notify))
        for row in self._scored(shared, missing):
            if row["refusal"]:
                raise HyperfsadError("benchmark-worker-failed", why=row["refusal"])
            paths, file = blocks[row["category"]][row["block"]]
            write_file(file, row["content"], parents=True)
            if scorers[row["category"]].kept(paths, file) is None:
                raise HyperfsadError("benchmark-worker-differs", encoder=cache.settings.name)
        for row in self._measured(shared, unmeasured, work):
            place, metrics = row["category"], json.loads(row["metrics"])
            keep_metrics(metrics, scorers[place], categories[place], protocol, cache, work)

    def _scored(self, shared: BenchmarkPass, missing: list[dict[str, int]]) -> Iterator[Any]:
        if missing:
            pool = self._cluster.worker_pool(self._ray, len(missing))
            rows = self._ray.data.from_items(missing, override_num_blocks=len(missing))
            found = rows.map_batches(BlockScorer, fn_constructor_args=(shared,), **pool)
            yield from found.iter_rows()

    def _measured(
        self, shared: BenchmarkPass, unmeasured: list[int], work: Path
    ) -> Iterator[dict[str, Any]]:
        """As many categories side by side as there are workers; no more are in memory."""
        for group in batched(unmeasured, self._cluster.pool_size(self._ray)):
            rows = [_scores_and_maps(place, shared.categories[place], work) for place in group]
            yield from (
                self._ray.data.from_items(rows, override_num_blocks=len(rows))
                .map_batches(
                    measure_category,
                    fn_args=(shared,),
                    batch_size=1,
                    batch_format="pyarrow",
                    num_cpus=1,
                )
                .iter_rows()
            )


def _scores_and_maps(place: int, category: Category, work: Path) -> dict[str, Any]:
    """All stored scores and maps of a category."""
    found = []
    for _, file in block_files(category, work):
        with np.load(file, allow_pickle=False) as stored:
            found.append((stored["scores"], stored["maps"]))
    scores, maps = (np.concatenate(arrays, axis=2) for arrays in zip(*found, strict=True))
    content = io.BytesIO()
    np.savez(content, scores=scores, maps=maps)
    return {"category": place, "content": content.getvalue()}
