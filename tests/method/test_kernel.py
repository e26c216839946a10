"""The compiled kernel: which instructions it takes, and what it refuses."""

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad.method import kernel
from hyperfsad.method.lookups import sparsemax

from .kinds import cosine, noise, unit

pytestmark = pytest.mark.skipif(not kernel.available(), reason="the kernel was not compiled")


def test_the_best_instructions_of_the_machine_are_chosen() -> None:
    if platform.machine() in ("aarch64", "arm64"):
        assert kernel.instruction_set() == "neon"
        return
    flags: set[str] = set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        flags.update(line.split() if line.startswith("flags") else ())
    best = "sse2"
    if {"avx2", "fma"} <= flags:
        best = "avx512" if "avx512f" in flags else "avx2"
    assert kernel.instruction_set() == best


@pytest.mark.parametrize("instructions", range(3))
def test_all_instruction_sets_find_the_same(instructions: int) -> None:
    names = ("sse2", "avx2", "avx512")
    if instructions and kernel.instruction_set() not in names[instructions:]:
        pytest.skip(f"this machine has no {names[instructions]}")
    queries, memory = unit(noise(20, 100, seed=0)), unit(noise(700, 100, seed=1))
    search = kernel.Search(queries, memory, instructions)
    for first in (0, 300):
        tile = memory[first : first + 400]
        search.offer(queries @ tile[: 300 if first == 0 else 400].T, first, True, 1e-5)
    expected = 1 - cosine(queries, sparsemax(queries @ memory.T) @ memory)
    assert search.distances() == pytest.approx(expected, abs=1e-6)


def test_what_does_not_fit_together_is_refused() -> None:
    tokens, bounds = np.zeros((4, 8), dtype=np.float32), np.zeros((4, 4), dtype=np.float32)
    for memory in (tokens[:0], np.ascontiguousarray(tokens[:, :7])):
        with pytest.raises(ValueError, match="do not fit"):
            kernel.Search(tokens, memory)
    search = kernel.Search(tokens, tokens)
    for part, first in (
        (np.ascontiguousarray(bounds[:, :0]), 0),
        (bounds[:3], 0),
        (bounds, 1),
        (bounds, -1),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            search.offer(part, first, False, 1e-5)


def test_memory_that_cannot_be_read_is_refused() -> None:
    tokens = np.zeros((4, 8), dtype=np.float32)
    wrongs: tuple[Any, ...] = (
        tokens.astype(np.float64),
        tokens.astype(np.float16),
        tokens[:, ::2],
        tokens.T,
        tokens[0],
    )
    for wrong in wrongs:
        with pytest.raises(ValueError, match="float32"):
            kernel.Search(wrong, tokens)
        with pytest.raises(ValueError, match="float32"):
            kernel.Search(tokens, wrong)


def test_a_machine_without_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernel._library.cache_clear()
    try:
        monkeypatch.setattr(kernel, "LIBRARY", tmp_path / "none.so")
        assert not kernel.available()
        assert kernel.instruction_set() is None
    finally:
        kernel._library.cache_clear()
