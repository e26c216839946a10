"""Learning from the line: proposed after 12, 24 and 48 parts, applied, taken back, never by bad
parts."""

import io
from collections.abc import Callable

import pytest
from PIL import Image

from hyperfsad.serve.client import StationClient
from hyperfsad.serve.records import InspectionRecord
from tests.conftest import make_picture
from tests.serve.conftest import ADMIN, INSPECT, png
from tests.serve.stations import Running, refused, until


def part(seed: int, share: float = 0.2) -> tuple[str, bytes]:
    """A part that is the more like no other, the larger the share."""
    content = io.BytesIO()
    size = (96, 80)
    Image.blend(make_picture(0, size), make_picture(100 + seed, size), share).save(content, "PNG")
    return f"part {seed}.png", content.getvalue()


ODD = [part(seed, 0.75) for seed in range(30, 33)]
"""More than the others have, but not another product."""
LINE = [*(part(seed) for seed in range(11)), ODD[0]]


@pytest.fixture
def product(client: StationClient, request: pytest.FixtureRequest) -> str:
    made = client.create_product(request.node.name, [part(seed, 0.1) for seed in range(60, 62)])
    return str(made["id"])


def sent(client: StationClient, product: str, *parts: tuple[str, bytes]) -> list[InspectionRecord]:
    return list(client.inspect(product, parts)["inspections"])


def told(client: StationClient, product: str) -> list[str]:
    """The audit log of a product, the latest first."""
    return [one["action"] for one in client.audit() if one["subject"] == product]


def line_of(client: StationClient, product: str) -> str:
    """The names of the unlabelled parts in its detector file, with the inspections behind them."""
    return str(client.download_product(product))


def test_a_proposal_is_applied_and_taken_back(client: StationClient, product: str) -> None:
    before = client.download_product(product)
    found = sent(client, product, *LINE[:11])
    state = client.report(product, "proposal")
    assert (state["parts"], state["needed"], state["due"]) == (11, 1, False)
    assert state["preliminary"] is True
    with refused(409, "adapting-too-early"):
        client.propose(product)
    found += sent(client, product, LINE[11], LINE[11])  # one picture counts once
    state = client.report(product, "proposal")
    assert (state["parts"], state["needed"], state["due"]) == (12, 0, True)
    change = client.propose(product)
    assert change["threshold"] == client.product(product)["threshold"]
    assert change["latest"] == found[-1]["id"]
    assert {one["verdict"] for one in found} == {"good"}
    odd = [ODD[0][0]]
    assert [one["name"] for one in change["bad"]] == odd
    assert [one["name"] for one in change["failing"]] == odd
    assert (change["parts"], change["passing"], change["doubtful"]) == (12, [], False)
    assert client.download_product(product) == before
    sent(client, product, ODD[1])  # it came later, so it was not in the proposal
    adapted = client.adapt_product(product, change["latest"])
    assert adapted["threshold"] == change["new_threshold"]
    assert (adapted["threshold_method"], adapted["threshold_images"]) == ("line", 12)
    assert f": {odd[0]} (" in adapted["notes"][0]
    levels = client.report(product, "levels")
    assert (levels["kind"], len(levels["levels"])) == ("line", 11)
    assert max(levels["levels"]) < 1
    state = client.report(product, "proposal")
    assert (state["due"], state["adapted"], state["preliminary"]) == (False, 12, False)
    assert client.versions(product)[0]["action"] == "adapted"
    again = {one["name"]: one["verdict"] for one in sent(client, product, *LINE)}
    assert [name for name, verdict in again.items() if verdict == "anomalous"] == odd
    client.restore_product(product, 1)
    assert client.download_product(product) == before
    state = client.report(product, "proposal")
    assert (state["due"], state["preliminary"]) == (False, True)
    assert told(client, product)[:3] == [
        "product restored",
        "product adapted",
        "adapting proposed",
    ]
    client.calibrate_product(product, threshold=0.01)
    (one,) = sent(client, product, part(12))
    assert one["verdict"] == "anomalous"
    assert one["id"] in [one["id"] for one in client.propose(product)["passing"]]


def test_what_is_never_learnt(client: StationClient, product: str) -> None:
    """A part that somebody called bad, though it came twice; another product; a good part."""
    (bad, _) = sent(client, product, ODD[1], ODD[1])
    client.label(bad["id"], "bad")
    (foreign,) = sent(client, product, png(7))
    assert foreign["foreign"] is True
    sent(client, product, part(60, 0.1))
    assert client.report(product, "proposal")["parts"] == 0
    line = sent(client, product, *LINE)
    assert client.report(product, "proposal")["parts"] == 12
    client.adapt_product(product)
    known = line_of(client, product)
    assert not any(one["id"] in known for one in (bad, foreign))
    kept = [one for one in line if one["id"] in known]
    assert kept
    client.label(kept[0]["id"], "bad")  # afterwards: the next time it is forgotten
    with refused(409, "adapting-too-early"):
        client.adapt_product(product)
    sent(client, product, part(12))
    client.adapt_product(product)
    assert kept[0]["id"] not in line_of(client, product)


def test_it_adapts_by_itself_only_where_that_was_asked_for(
    client: StationClient, product: str
) -> None:
    assert client.product(product)["adapt_automatically"] is False
    sent(client, product, *LINE)
    assert client.product(product)["revision"] == 1
    assert client.adapt_automatically(product, True)["adapt_automatically"] is True
    until(lambda: client.product(product)["revision"] == 2, "adapting")
    assert client.versions(product)[0]["role"] == "station"
    client.restore_product(product, 1)
    sent(client, product, *(part(seed) for seed in range(12, 23)))
    assert client.product(product)["revision"] == 3  # what was taken back is not done again
    sent(client, product, part(23))
    until(lambda: client.product(product)["revision"] == 4, "adapting")
    assert client.versions(product)[0]["detail"] == "24"
    assert client.adapt_automatically(product, False)["name"] == client.product(product)["name"]
    assert told(client, product) == [
        "adapting by itself off",
        "product adapted",
        "product restored",
        "product adapted",
        "adapting by itself on",
        "product created",
    ]


def test_only_an_engineer_applies_it(guarded: Running) -> None:
    admin, inspector = guarded.client(ADMIN), guarded.client(INSPECT)
    product = admin.create_product("plate", [png(0), png(1)])["id"]
    assert inspector.report(product, "proposal")["needed"] == 12
    attempts: list[Callable[[], object]] = [
        lambda: inspector.propose(product),
        lambda: inspector.adapt_product(product),
        lambda: inspector.adapt_automatically(product, True),
    ]
    for attempt in attempts:
        with refused(403, "admin-required"):
            attempt()


def test_many_bad_parts_are_left_to_a_person(client: StationClient, product: str) -> None:
    sent(client, product, *LINE[:9], *ODD)
    assert client.propose(product)["doubtful"] is True
    client.adapt_automatically(product, True)
    until(lambda: "adapting refused" in told(client, product), "the refusal")
    assert client.product(product)["revision"] == 1
    assert client.report(product, "proposal")["due"] is True
