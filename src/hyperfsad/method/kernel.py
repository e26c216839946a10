"""The compiled kernel (`_kernel.c`): sparsemax matching without sorting and without dense weights.

A plain shared library, called by pointers into memory whose type, shape and order are checked here
first. While it works, other threads of Python do too.
"""

import ctypes
import sys
from ctypes import c_float, c_int, c_ssize_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

LIBRARY = Path(__file__).with_name(
    {"win32": "_kernel.dll", "darwin": "_kernel.dylib"}.get(sys.platform, "_kernel.so")
)


def available() -> bool:
    """Whether it was compiled when this was installed; without it numpy does the same, slower."""
    return _library() is not None


def instruction_set() -> str | None:
    """What it computes with on this machine: avx512, avx2, sse2, neon or plain; None: no kernel."""
    library = _library()
    return None if library is None else library.set_name(library.best_set()).decode()


class Search:
    """Query patches that look for their active rows in a memory, tile by tile of it."""

    def __init__(self, queries: Floats, memory: Floats, instructions: int | None = None) -> None:
        """`queries` (N, D) and `memory` (M, D); by default with the best instructions there are."""
        library = _library()
        if library is None:
            raise RuntimeError("The kernel was not compiled.")
        self._library, self._handle = library, None
        self._queries, self._memory = _matrix(queries), _matrix(memory)
        self._count, self._size = len(queries), len(memory)
        if not memory.size or queries.shape[1] != memory.shape[1]:
            raise ValueError(MISFIT)
        chosen = library.best_set() if instructions is None else instructions
        self._handle = _enough(
            library.search_begin(
                queries.ctypes.data, len(queries), memory.ctypes.data, memory.shape[1], chosen
            )
        )

    def offer(self, bounds: Floats, first: int, exact: bool, slack: float) -> None:
        """Upper bounds of ⟨q, p⟩ for the rows p of a tile from row `first` on, (N, tile): those of
        the tile that are active are found, with room for rounding. `exact`: they are ⟨q, p⟩."""
        count, size = _matrix(bounds).shape
        if count != self._count or not 0 < size <= self._size - first or first < 0:
            raise ValueError(MISFIT)
        found = self._library.search_offer(
            self._handle, bounds.ctypes.data, first, size, exact, slack
        )
        _enough(found)

    def distances(self) -> Floats:
        """1 − cos(q, ε) of each query, (N,), once all tiles were offered."""
        found = np.empty(self._count, dtype=np.float32)
        _enough(self._library.search_finish(self._handle, found.ctypes.data))
        return found

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.search_end(self._handle)


MISFIT = "the shapes do not fit together"


def _matrix(array: Floats) -> Floats:
    """The array itself, if the library can read it."""
    if array.dtype != np.float32 or array.ndim != 2 or not array.flags.c_contiguous:
        raise ValueError(f"not float32 row after row: {array.dtype}, {array.strides}")
    return array


def _enough(found: Any) -> Any:
    if not found:
        raise MemoryError
    return found


@cache
def _library() -> Any:
    """The library with the types of its functions; None where there is none for this machine."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError:
        return None
    library.best_set.argtypes, library.best_set.restype = (), c_int
    library.set_name.argtypes, library.set_name.restype = (c_int,), ctypes.c_char_p
    begin, offer, finish = library.search_begin, library.search_offer, library.search_finish
    begin.argtypes = c_void_p, c_ssize_t, c_void_p, c_ssize_t, c_int
    begin.restype = c_void_p
    offer.argtypes = c_void_p, c_void_p, c_ssize_t, c_ssize_t, c_int, c_float
    offer.restype = c_int
    finish.argtypes, finish.restype = (c_void_p, c_void_p), c_int
    library.search_end.argtypes, library.search_end.restype = (c_void_p,), None
    return library
