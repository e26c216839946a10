"""One real browser for all tests of the page."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import started_browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with started_browser() as found:
        yield found
