"""The OpenAPI document against a real station: no 5xx, and no answer that it does not name.

schemathesis makes the requests, from a fixed seed; half of them have real ids and real pictures, so
that they get past the first check.
"""

import contextlib
import http.client
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serve.conftest import png
from tests.serve.stations import Running

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    allow_header_conformance,
]
EXAMPLES = 5
"""Requests for each operation and mode."""


@pytest.fixture(scope="module")
def real(station: Running) -> dict[str, str]:
    """Ids that there are."""
    client = station.client()
    product = client.create_product("contract", [png(0), png(1)])["id"]
    found = client.inspect(product, [png(2)])["inspections"][0]["id"]
    return {"product_id": product, "inspection_id": found}


def operations(station: Running) -> Iterator[Any]:
    schema = schemathesis.openapi.from_url(f"{station.url}/api/v1/openapi.json")
    for found in schema.get_all_operations():
        operation = cast(Any, found).ok()
        kinds = str(operation.definition.raw.get("responses"))
        if "text/event-stream" not in kinds:  # it has no end to wait for
            yield operation


def test_every_answer_is_as_documented(station: Running, real: dict[str, str]) -> None:
    seen: Counter[int] = Counter()
    rng = random.Random(0)

    def send(case: Any) -> None:
        spared = case.method == "DELETE" and "inspection_id" not in case.path_parameters
        if rng.random() < 0.6 and not spared:
            known = {name: real[name] for name in case.path_parameters if name in real}
            case.path_parameters.update(known)
            if isinstance(case.body, dict) and "images" in case.body:
                case.body["images"] = [png(rng.randint(0, 9))[1]]
                if "name" in case.body:
                    case.body["name"] = f"made {rng.random()}"
        answer = case.call_and_validate(checks=CHECKS, timeout=60)
        seen[answer.status_code] += 1

    count = 0
    for operation in operations(station):
        count += 1
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            strategy = operation.as_strategy(generation_mode=mode)
            with contextlib.suppress(Unsatisfiable):  # what takes nothing cannot get it wrong
                _run(strategy, send)
    assert count >= 25
    assert {200, 201, 404, 422} <= set(seen)
    assert not [status for status in seen if status >= 500 and status != 503], seen
    assert station.client().ready()


def _run(strategy: Any, send: Any) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def check(case: Any) -> None:
        send(case)

    check()


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_methods_that_an_address_has_not(station: Running, method: str) -> None:
    line = http.client.HTTPConnection(urlsplit(station.url).netloc, timeout=60)
    for path, allowed in (("products", "GET, POST"), ("products/upload", "POST")):
        line.request(method, f"/api/v1/{path}")
        answer = line.getresponse()
        answer.read()
        assert answer.status == 405
        assert answer.getheader("allow") == allowed
    line.close()
