"""What a product learns, and every way back."""

import io

import pytest
from PIL import Image

from hyperfsad.serve.client import StationClient
from tests.conftest import make_picture
from tests.serve.conftest import png
from tests.serve.stations import refused


def mixed(share: float, size: tuple[int, int] = (96, 80)) -> tuple[str, bytes]:
    """A part that is the more another one, the larger the share."""
    content = io.BytesIO()
    Image.blend(make_picture(0, size), make_picture(3, size), share).save(content, "PNG")
    return f"mixed {share}.png", content.getvalue()


ALIKE = [mixed(share / 50) for share in range(6)]


@pytest.fixture
def product(client: StationClient, request: pytest.FixtureRequest) -> str:
    """Of parts that hardly differ; every `png` is another product beside them."""
    made = client.create_product(request.node.name, ALIKE, false_alarm_rate=0.3)
    return str(made["id"])


def test_a_doubtful_part_is_learnt_only_when_confirmed(client: StationClient, product: str) -> None:
    before = client.download_product(product)
    parts = [png(10), *(mixed(share / 10) for share in range(2, 10))]
    seen = client.inspect(product, parts)["inspections"]
    odd, scores = seen[0]["id"], [one["score"] for one in seen]
    with refused(409, "teaching-unconfirmed") as caught:
        client.label(odd, "fine")
    with refused(409, "teaching-unconfirmed"):
        client.extend_product(product, [png(10)])
    assert client.download_product(product) == before
    assert client.inspection(odd)["label"] is None
    facts = caught.value.facts
    old, new = facts["threshold"], facts["new_threshold"]
    assert facts["names"] == ["10.png"]
    assert facts["level"] == pytest.approx(seen[0]["level"], rel=1e-4)
    assert old == client.product(product)["threshold"]
    assert facts["inspections"] == len(seen)
    assert facts["changed"] == sum((one > old) != (one > new) for one in scores) > 0
    client.label(odd, "fine", confirm=True)
    assert client.product(product)["threshold"] == new
    client.label(seen[1]["id"], "fine")  # no doubt about that one


def parts(client: StationClient, product: str) -> dict[str, str]:
    return {one["name"]: one["part"] for one in client.report(product, "images")["images"]}


def test_any_good_part_is_removed(client: StationClient, product: str) -> None:
    """The rest is what a product of the rest is, byte by byte."""
    (one,) = client.inspect(product, [png(2)])["inspections"]
    assert client.label(one["id"], "fine", confirm=True)["learnt"] is True
    known = parts(client, product)
    left = [part for part in ALIKE if part != ALIKE[1]]
    client.remove_part(product, known["2.png"])
    assert client.inspection(one["id"])["learnt"] is False
    found = client.remove_part(product, known[ALIKE[1][0]])
    assert found["good_parts"] == len(left)
    fresh = client.create_product(f"{product}-rest", left, false_alarm_rate=0.3)
    assert client.download_product(product) == client.download_product(fresh["id"])
    assert list(parts(client, product)) == [name for name, _ in left]
    with refused(404, "good-part-unknown"):
        client.remove_part(product, known["2.png"])
    for name, _ in left[1:]:
        client.remove_part(product, known[name])
    with refused(422, "forget-all"):
        client.remove_part(product, known[left[0][0]])
    assert client.undo(one["id"])["label"] is None  # though there is nothing left to forget
    assert client.product(product)["good_parts"] == 1


def test_every_change_is_a_version_and_has_a_way_back(client: StationClient, product: str) -> None:
    files = {1: client.download_product(product)}

    def changed(action: str, revision: int) -> None:
        files[revision] = client.download_product(product)
        found, shown = client.versions(product)[0], client.product(product)
        assert (found["action"], found["revision"], found["role"]) == (action, revision, "admin")
        assert shown["revision"] == revision
        for name in ("good_parts", "threshold"):
            assert found[name] == shown[name]

    changed("created", 1)
    first, second = client.inspect(product, [png(2), png(4)])["inspections"]
    client.label(first["id"], "fine", confirm=True)
    changed("taught", 2)
    client.extend_product(product, [png(5)], confirm=True)
    changed("extended", 3)
    client.calibrate_product(product, threshold=0.5)
    changed("calibrated", 4)
    client.remove_part(product, parts(client, product)["5.png"])
    changed("removed", 5)
    client.restore_product(product, 2)
    changed("restored", 6)
    assert files[6] == files[2]
    assert client.inspection(first["id"])["learnt"] is True
    assert list(parts(client, product)) == [*(name for name, _ in ALIKE), "2.png"]
    client.undo(first["id"])
    changed("undone", 7)
    assert files[7] == files[1]
    client.restore_product(product, 3)
    assert client.download_product(product) == files[3]
    for _ in range(9):
        client.label(second["id"], "fine", confirm=True)
        client.undo(second["id"])
    assert [one["revision"] for one in client.versions(product)] == list(range(26, 6, -1))
    with refused(404, "version-unknown"):
        client.restore_product(product, 6)
    assert client.download_product(product) == files[3]
    client.restore_product(product, 7)
    assert client.download_product(product) == files[7]


def test_what_an_operator_called_fine_is_taught_later(client: StationClient, product: str) -> None:
    before = client.download_product(product)
    (one,) = client.inspect(product, [png(2)])["inspections"]
    assert client.label(one["id"], "fine", learn=False)["learnt"] is False
    assert client.label(one["id"], "fine", confirm=True)["learnt"] is True
    with refused(409, "label-known"):
        client.label(one["id"], "fine", learn=False)
    undone = client.undo(one["id"])
    assert (undone["label"], undone["learnt"]) == ("fine", False)
    assert client.download_product(product) == before
    assert client.undo(one["id"])["label"] is None
