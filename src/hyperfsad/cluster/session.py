"""A connection to a Ray cluster, or to a Ray of our own that ends with us."""

import contextlib
import importlib
import logging
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import HyperfsadError, UsageError, first_line
from ..messages import Notice, Notify, log

START_ATTEMPTS = 3
"""How often a Ray of our own is started until it answers."""

OBJECT_STORE_BYTES = 256 << 20
"""The object store of a Ray of our own: names and answers pass through it, never pictures."""

CHUNKS_IN_FLIGHT = 2
"""Chunks of a worker: one is worked on while the next one waits."""


@dataclass(frozen=True)
class Cluster:
    """Where the work is done, and by how many."""

    address: str | None = None
    """None: that of the environment variable RAY_ADDRESS, or a new Ray on this machine."""
    workers: int | None = None
    """None: as many as there are cores for, or graphics cards."""
    threads: int | None = None
    """Cores of a worker; None: one."""
    gpus: float = 0.0
    """Graphics cards of a worker; several may share one."""

    def __post_init__(self) -> None:
        if (self.workers is not None and self.workers < 1) or self.cores < 1:
            raise UsageError("cluster-workers")
        if not 0 <= self.gpus <= 64 or (self.gpus > 1 and self.gpus % 1):
            raise UsageError("cluster-gpus", given=self.gpus)

    @property
    def cores(self) -> int:
        """The cores of a worker."""
        return 1 if self.threads is None else self.threads

    def pool_size(self, ray: Any) -> int:
        """How many workers there are to be."""
        if self.workers is not None:
            return self.workers
        there = ray.cluster_resources()
        sizes = [there.get("CPU", 1) / self.cores]
        if self.gpus:
            sizes.append(there.get("GPU", 0) / self.gpus)
        return max(1, int(min(sizes)))

    def worker_pool(self, ray: Any) -> dict[str, Any]:
        """How `map_batches` calls a worker, with one row at a time."""
        return {
            "batch_size": 1,
            "batch_format": "pyarrow",
            "num_cpus": self.cores,
            "num_gpus": self.gpus or None,
            "compute": ray.data.ActorPoolStrategy(
                size=self.pool_size(ray), max_tasks_in_flight_per_actor=CHUNKS_IN_FLIGHT
            ),
        }


@contextlib.contextmanager
def ray_session(
    cluster: Cluster, notify: Notify = log, store: int = OBJECT_STORE_BYTES
) -> Iterator[Any]:
    """The module `ray`, connected; a Ray of our own has an object store of `store` bytes."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # ours says what has happened
    os.environ.setdefault("RAY_worker_niceness", "0")  # else any other process goes first
    # an environment manager that starts the driver need not start the workers anew
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        ray = importlib.import_module("ray")
        data = importlib.import_module("ray.data")
    except ImportError as error:
        raise UsageError("ray-not-installed", why=first_line(error)) from error
    address = cluster.address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        cores = max(os.cpu_count() or 1, (cluster.workers or 1) * cluster.cores)
        options |= {"num_cpus": cores, "include_dashboard": False, "object_store_memory": store}
    with contextlib.ExitStack() as ending:
        if not ray.is_initialized():
            private = ending.enter_context(tempfile.TemporaryDirectory(prefix="hyperfsad-"))
            with _working_in(private):  # Ray lets its workers import from the working folder
                _connect(ray, address, options)
            ending.callback(ray.shutdown)
        _make_quiet(data.DataContext.get_current())
        there = ray.cluster_resources()
        cores, gpus = int(there.get("CPU", 0)), there.get("GPU", 0)
        facts = {"workers": cluster.pool_size(ray), "address": address}
        notify(Notice("ray-started", cores=cores, gpus=gpus, **facts))
        yield ray


def _make_quiet(context: Any) -> None:
    for name in ("ray.data", "ray"):
        logging.getLogger(name).setLevel(logging.ERROR)
    context.enable_progress_bars = False
    # One chunk is one block, and a block is what a worker is given; by default a block gathers 128
    # MB, which are a million names.
    context.target_max_block_size = 1


@contextlib.contextmanager
def _working_in(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _connect(ray: Any, address: str, options: dict[str, Any]) -> None:
    """Connects; a Ray of our own may need several attempts on a busy machine, since Ray gives its
    processes half a minute."""
    for left in reversed(range(START_ATTEMPTS if address == "local" else 1)):
        try:
            ray.init(address, **options)
            return
        except Exception as error:  # Ray raises what it likes, also a plain Exception
            ray.shutdown()
            if left:
                continue
            why = first_line(error)
            if address == "local":
                raise HyperfsadError("ray-not-started", why=why) from error
            raise HyperfsadError("ray-not-found", address=address, why=why) from error
