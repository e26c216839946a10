"""The benchmark's work on Ray: each worker evaluates whole categories.

Data sets and the output folder lie at the same path on all machines. Workers leave scores and
metrics where a run on one machine keeps them, so that such a run finds them, checks them and goes
on from there.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cluster.session import Cluster, ray_session
from ..encoders import EncoderSettings
from ..errors import HyperfsadError
from ..messages import Notify, silent
from .datasets import Category
from .protocol import Protocol, block_files, evaluate, read_metrics, scorer_of
from .supports import SupportSets

if TYPE_CHECKING:
    from .token_cache import TokenCache


@dataclass(frozen=True)
class BenchmarkPass:
    """What every worker needs to know."""

    categories: tuple[Category, ...]
    supports: SupportSets
    protocol: Protocol
    settings: EncoderSettings
    machine: dict[str, Any]
    """Device, engine and the limit of the tokens on disk."""
    threads: int
    folder: str
    """What relative paths begin at."""
    work: Path
    """Where scores and metrics go."""


class CategoryEvaluator:
    """Loads the encoder once; called with tables of one row, a category each."""

    def __init__(self, work: BenchmarkPass) -> None:
        from ..encoders.encoder import use_threads
        from .token_cache import TokenCache

        if os.path.isdir(work.folder):
            os.chdir(work.folder)
        use_threads(work.threads)
        self._work, self._refusal = work, ""
        try:
            self._cache = TokenCache(work.settings, **work.machine)
        except HyperfsadError as error:
            self._refusal = str(error)

    def __call__(self, batch: Any) -> Any:
        """Why the category could not be evaluated, or nothing."""
        import pyarrow as pa

        (row,) = batch.to_pylist()
        category, refusal = self._work.categories[row["category"]], self._refusal
        try:
            if not refusal:
                supports = self._work.supports.of(category)
                target = self._cache, self._work.work, lambda _: None
                evaluate(category, self._work.protocol, *target, supports=supports)
        except (HyperfsadError, OSError) as error:
            refusal = str(error)
        return pa.Table.from_pylist([{"refusal": refusal}])


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
        supports: SupportSets,
        protocol: Protocol,
        cache: "TokenCache",
        work: Path,
    ) -> None:
        """Leaves the scores and metrics of all categories in the folder of the pass."""

        def is_done(category: Category) -> bool:
            scorer = scorer_of(category, protocol, cache, supports.of(category))
            return read_metrics(scorer, category, protocol, cache, work) is not None and all(
                scorer.read(paths, file) is not None for paths, file in block_files(category, work)
            )

        left = [place for place, category in enumerate(categories) if not is_done(category)]
        if not left:
            return
        shared = BenchmarkPass(
            tuple(categories),
            supports,
            protocol,
            cache.settings,
            self._machine,
            self._cluster.cores,
            os.getcwd(),
            work.absolute(),
        )
        if self._ray is None:  # once for all passes, and not at all where nothing is left to do
            self._ray = self._open.enter_context(ray_session(self._cluster, self._notify))
        rows = [{"category": place} for place in left]
        pool = self._cluster.worker_pool(self._ray, len(rows))
        found = self._ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            CategoryEvaluator, fn_constructor_args=(shared,), **pool
        )
        for row in found.iter_rows():
            if row["refusal"]:
                raise HyperfsadError("benchmark-worker-failed", why=row["refusal"])
        if not all(is_done(categories[place]) for place in left):
            raise HyperfsadError("benchmark-worker-differs", encoder=cache.settings.name, work=work)
