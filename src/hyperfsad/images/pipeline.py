"""Reading ahead and writing behind: threads that work while the encoder does, in bounded memory.

Decoding, drawing and waiting for the disk need no encoder. Both threads take one item after the
other, so that order and results are those of a plain loop.
"""

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Generic, TypeVar

AHEAD = 2
"""Items that are read before they are asked for: one is ready while the next is being made."""
BEHIND = 2
"""Items that wait to be written: a picture of 12 million pixels takes 48 MB."""
PATIENCE = 5.0
"""Seconds that closing waits for a source which gives nothing, such as a camera without a part."""
Item = TypeVar("Item")
Result = TypeVar("Result")


def ahead(
    work: Callable[[Item], Result], items: Iterable[Item], count: int = AHEAD
) -> Generator[Result, None, None]:
    """As `map(work, items)`, but a thread takes up to `count` items before they are asked for.

    An item is worked on before the next is taken, so a source may use one buffer again and again.
    What the source or the work raises is raised here, after all results before it. The thread
    starts with the first question and ends with the last item or when the iterator is closed.
    """
    done: queue.SimpleQueue[Future[Result] | None] = queue.SimpleQueue()
    room = threading.Semaphore(count)
    closed = threading.Event()

    def read() -> None:
        source = None
        while True:
            room.acquire()
            if closed.is_set():
                return
            outcome: Future[Result] = Future()
            try:
                source = iter(items) if source is None else source
                try:
                    item = next(source)
                except StopIteration:
                    done.put(None)
                    return
                outcome.set_result(work(item))
                del item  # a picture need not wait here for the next one
            except BaseException as error:
                outcome.set_exception(error)
                done.put(outcome)
                return
            done.put(outcome)

    # a daemon, so that an iterator that nobody closes never keeps the program from ending
    thread = threading.Thread(target=read, name="hyperfsad-ahead", daemon=True)
    thread.start()
    try:
        while (outcome := done.get()) is not None:
            room.release()
            yield outcome.result()
    finally:
        closed.set()
        room.release()
        thread.join(PATIENCE)


class Behind(Generic[Item]):
    """Does `work` on items in a thread of its own, in their order, while the caller goes on.

    Leaving the `with` block waits until all is done, also after an interruption. What the work
    raises is raised by the next `put` or on leaving; items after it are passed over.
    """

    def __init__(self, work: Callable[[Item], None], count: int = BEHIND) -> None:
        self._work = work
        self._waiting: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(count)
        self._error: BaseException | None = None
        self._hurry = False
        self._thread = threading.Thread(target=self._run, name="hyperfsad-behind", daemon=True)

    def put(self, item: Item) -> None:
        """Hands an item over; waits while too many are waiting already."""
        self._room.acquire()
        if self._error is not None:
            raise self._error
        self._waiting.put(item)

    def __enter__(self) -> "Behind[Item]":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._waiting.put(None)
        try:
            self._thread.join()
        except KeyboardInterrupt:  # the second: only what is half written is finished
            self._hurry = True
            self._thread.join()
            raise
        if self._error is not None and self._error is not error:
            raise self._error

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            self._room.release()
            if self._error is None and not self._hurry:
                try:
                    self._work(item)
                except BaseException as error:
                    self._error = error
