"""Tests match an error's code and facts, not its sentence."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hyperfsad.errors import HyperfsadError


@contextmanager
def raises(
    kind: type[HyperfsadError], code: str, /, **facts: Any
) -> Iterator[pytest.ExceptionInfo[HyperfsadError]]:
    """Expects an error of a kind with this code, and with these facts among its own.

    The sentence is made as well: an error whose facts do not fit its template fails here.
    """
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert error.code == code, f"{error.code}: {error}"
    assert {name: error.facts.get(name) for name in facts} == facts
    assert str(error)
    del caught, error  # its frames would keep alive what the test deletes


def codes(said: Iterable[object]) -> list[str | None]:
    """The codes of notices, in their order; None for plain text."""
    return [getattr(text, "code", None) for text in said]
