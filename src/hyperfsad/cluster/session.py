"""A Ray that is there already, or one of our own that ends with us."""

import contextlib
import importlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import HyperfsadError, UsageError, first_line
from ..messages import Notify, silent

ATTEMPTS = 3
"""How often a Ray of our own is started until it answers."""

STORE = 256 << 20
"""Bytes of a local Ray's object store: names and answers pass through it, never pictures."""


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
            raise UsageError("There is at least one worker, with at least one core.")
        if not 0 <= self.gpus <= 64 or (self.gpus > 1 and self.gpus % 1):
            raise UsageError("A worker has a share of a graphics card, or a whole number of them.")

    @property
    def cores(self) -> int:
        """The cores of a worker."""
        return 1 if self.threads is None else self.threads


@contextlib.contextmanager
def started(cluster: Cluster, notify: Notify = silent, store: int = STORE) -> Iterator[Any]:
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
        raise UsageError(
            f"--on ray needs `pip install 'hyperfsad[ray]'`: {first_line(error)}."
        ) from error
    address = cluster.address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        cores = max(os.cpu_count() or 1, (cluster.workers or 1) * cluster.cores)
        options |= {"num_cpus": cores, "include_dashboard": False, "object_store_memory": store}
    joined = ray.is_initialized()
    if not joined:
        _connect(ray, address, options)
    for name in ("ray.data", "ray"):
        logging.getLogger(name).setLevel(logging.ERROR)
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    # One chunk is one block, and a block is what a worker is given; by default a block gathers 128
    # MB, which are a million names.
    context.target_max_block_size = 1
    try:
        _tell(ray, cluster, address, notify)
        yield ray
    finally:
        if not joined:
            ray.shutdown()


def _connect(ray: Any, address: str, options: dict[str, Any]) -> None:
    """Connects, or says why not; a Ray of our own may need several attempts on a busy machine,
    since Ray gives its processes half a minute."""
    for left in reversed(range(ATTEMPTS if address == "local" else 1)):
        try:
            ray.init(address, **options)
            return
        except Exception as error:  # Ray raises what it likes, also a plain Exception
            ray.shutdown()
            if left:
                continue
            if address == "local":
                raise HyperfsadError(f"Ray does not start here: {first_line(error)}.") from error
            raise HyperfsadError(
                f"There is no Ray at {address}: {first_line(error)}; give the --address that"
                " `ray start --head` prints."
            ) from error


def pool_size(ray: Any, cluster: Cluster) -> int:
    """How many workers there are to be."""
    if cluster.workers is not None:
        return cluster.workers
    there = ray.cluster_resources()
    sizes = [there.get("CPU", 1) / cluster.cores]
    if cluster.gpus:
        sizes.append(there.get("GPU", 0) / cluster.gpus)
    return max(1, int(min(sizes)))


def _tell(ray: Any, cluster: Cluster, address: str, notify: Notify) -> None:
    there, workers = ray.cluster_resources(), pool_size(ray, cluster)
    cores, cards = int(there.get("CPU", 0)), there.get("GPU", 0)
    where = "a Ray of its own" if address == "local" else f"the Ray at {address}"
    some = "1 worker" if workers == 1 else f"{workers} workers"
    notify(f"{some} on {where} with {cores} cores{f' and {cards:g} GPUs' if cards else ''}.")
    if workers * cluster.cores > cores or workers * cluster.gpus > cards:
        notify("Ray has room for fewer workers now; the others start as soon as it has more.")
