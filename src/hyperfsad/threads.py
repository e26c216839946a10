"""How many CPU threads we take, and work that is shared among them.

The libraries under numpy start threads of their own, which go on spinning for a while after each
product and take the cores from all that follows: on two cores that costs a third of the time. So
while our threads work, each has a core of its own, and those libraries start none.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

POOL_NAME = "hyperfsad-threads"
"""Of the threads that share work; what they ask for in turn they do themselves."""

Item = TypeVar("Item")
Found = TypeVar("Found")

_chosen: int | None = None
_inherited_torch = False


def cores() -> int:
    """The CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def count() -> int:
    """The threads that we take: as many as there are cores, unless `limit` said otherwise."""
    return _chosen or cores()


def for_torch() -> int:
    """The threads for torch: one in a process that was forked from one that had loaded it.

    It would wait for ever for threads that only its parent has.
    """
    return 1 if _inherited_torch else count()


def limit(threads: int | None) -> None:
    """Bounds the threads of all that is computed from now on; None takes all cores."""
    global _chosen
    _chosen = threads


def shared(work: Callable[[slice], None], rows: int, whole: int = 1) -> None:
    """Shares `rows` among our threads: `work` is called once for each of a few slices of them.

    Slices begin at multiples of `whole`: a product of matrices rounds by the number of its rows, so
    that work in such blocks gives the same bits however many threads there are.
    """
    workers = 1 if _is_ours() else count()
    step = whole * -(-rows // (whole * workers))
    each(work, [slice(start, min(start + step, rows)) for start in range(0, rows, step or 1)])


def each(work: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
    """What `work` makes of each item, shared among our threads, in their order."""
    with one_library_thread():
        if _is_ours() or min(count(), len(items)) < 2:
            return list(map(work, items))
        return list(_pool(count(), os.getpid()).map(work, items))


def _is_ours() -> bool:
    """Whether this is one of the threads that share work."""
    return threading.current_thread().name.startswith(POOL_NAME)


@cache
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """A forked process has none of its parent's threads, and makes its own."""
    return ThreadPoolExecutor(workers, thread_name_prefix=POOL_NAME)


_lock = threading.Lock()
_users = 0
_limits: Any = None


@contextmanager
def one_library_thread() -> Iterator[None]:
    """While anybody is inside, products of numpy start no threads of their own."""
    global _users, _limits
    with _lock:
        _users += 1
        if _users == 1:
            _limits = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limits.restore_original_limits()
                _limits = None


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _begin_anew() -> None:
    """A forked process has none of the threads that hold a lock or a limit of its parent."""
    global _lock, _users, _limits, _inherited_torch
    if _users:
        _limits.restore_original_limits()
    _lock, _users, _limits = threading.Lock(), 0, None
    _inherited_torch = "torch" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
