"""Work that is shared among threads: all of it is done once, whoever asks."""

import multiprocessing
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from hyperfsad import threads


@pytest.fixture(autouse=True)
def _all_cores_after() -> Iterator[None]:
    yield
    threads.limit(None)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 100])
def test_every_row_is_done_once(count: int, rows: int) -> None:
    threads.limit(count)
    assert threads.count() == count
    done = np.zeros(rows, dtype=int)

    def work(part: slice) -> None:
        done[part] += 1

    threads.shared(work, rows)
    assert (done == 1).all()
    assert threads.each(lambda item: item * 2, list(range(rows))) == [2 * n for n in range(rows)]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_slices_begin_at_multiples(count: int) -> None:
    threads.limit(count)
    begun: list[int] = []
    threads.shared(lambda part: begun.extend(range(part.start, part.stop, 30)), 100, 30)
    assert sorted(begun) == [0, 30, 60, 90]


def test_what_our_threads_ask_for_they_do_themselves() -> None:
    threads.limit(2)
    inner: list[tuple[str, str]] = []

    def outer(_: slice) -> None:
        own = threading.current_thread().name
        threads.shared(lambda _: inner.append((own, threading.current_thread().name)), 10)

    threads.shared(outer, 2)
    assert len(inner) == 2
    assert all(one == other and one.startswith(threads.POOL_NAME) for one, other in inner)


def test_an_error_comes_back_and_the_next_work_is_done() -> None:
    threads.limit(2)

    def fail(part: slice) -> None:
        raise ValueError(part.start)

    with pytest.raises(ValueError, match="0"):
        threads.shared(fail, 4)
    assert threads.each(str, [1, 2, 3]) == ["1", "2", "3"]


def test_library_threads_come_back_after_the_last_user() -> None:
    from threadpoolctl import threadpool_info

    def blas() -> list[int]:
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    before = blas()
    with threads.one_library_thread():
        with threads.one_library_thread():
            assert set(blas()) <= {1}
        assert set(blas()) <= {1}
    assert blas() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_process_makes_threads_of_its_own() -> None:
    threads.limit(2)
    threads.each(str, [1, 2])
    fork = multiprocessing.get_context("fork")
    with threads.one_library_thread():  # as if another thread were at work
        process = fork.Process(target=threads.each, args=(str, [1, 2]))
        process.start()
    process.join(20)
    assert process.exitcode == 0
