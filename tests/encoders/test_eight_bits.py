"""Products in 8 bits: what is rounded, how far it moves tokens, and how a CPU is asked."""

from dataclasses import replace

import numpy as np
import pytest

from hyperfsad.encoders import eight_bits
from hyperfsad.encoders.eight_bits import has_eight_bits, rounded
from hyperfsad.encoders.openvino import load_engine
from hyperfsad.encoders.runtime import (
    CompileOptions,
    import_openvino,
    openvino_core,
    openvino_operations,
)
from tests.encoders.test_openvino import loaded, tokens_of

ON_CPU = CompileOptions(1)


def test_each_row_of_a_matrix_is_rounded_on_its_own_scale() -> None:
    matrix = np.random.default_rng(0).standard_normal((5, 64), dtype=np.float32)
    matrix *= np.array([[1e-3], [1], [50], [0], [1e-20]], np.float32)
    ops = openvino_operations()
    given = ops.parameter([64, 64], np.float32)
    product = ops.matmul(given, rounded(matrix), False, True)
    model = import_openvino().Model([product], [given], "")
    found = ON_CPU.compile(openvino_core(), model)(np.eye(64, dtype=np.float32))[0].T
    step = np.abs(matrix).max(axis=1, keepdims=True) / 127
    assert (np.abs(found - matrix) <= 0.501 * step + 1e-12).all()
    assert (np.abs(found - matrix).max(axis=1)[:3] > 0.3 * step[:3, 0]).all()


def test_tokens_in_8_bits_are_near_those_of_float32(tiny: str) -> None:
    if not has_eight_bits(openvino_core()):
        pytest.skip("this CPU has no instructions for 8 bits")
    exact, found = (tokens_of(loaded(tiny, precision=each)) for each in ("float32", "int8"))
    apart = 1 - (exact.patches * found.patches).sum(axis=-1)
    assert 1e-6 < apart.mean() < 0.01
    assert np.allclose(np.linalg.norm(found.patches, axis=-1), 1, atol=1e-5)


def test_a_cpu_that_rounds_no_tokens_has_no_8_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have the matrices alone rounded: it is played by not asking for more."""
    monkeypatch.setattr(eight_bits, "_EIGHT", replace(ON_CPU))
    has_eight_bits.cache_clear()
    assert not has_eight_bits(openvino_core())
    has_eight_bits.cache_clear()


def test_the_fingerprint_names_them(tiny: str) -> None:
    settings = loaded(tiny).settings
    exact, found = (load_engine(settings, precision=each) for each in ("float32", "int8"))
    assert found.fingerprint == f"{exact.fingerprint}+int8"
