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
    parts = [png(2), *(mixed(share / 10) for share in range(2, 10))]
    seen = client.inspect(product, parts)["inspections"]
    odd, scores = seen[0]["id"], [one["score"] for one in seen]
    with refused(409, "teaching-unconfirmed") as caught:
        client.label(odd, "fine")
    with refused(409, "teaching-unconfirmed"):
        client.extend_product(product, [png(2)])
    assert client.download_product(product) == before
    assert client.inspection(odd)["label"] is None
    facts = caught.value.facts
    old, new = facts["threshold"], facts["new_threshold"]
    assert facts["names"] == ["2.png"]
    assert facts["times"] == pytest.approx(seen[0]["strength"], rel=1e-4)
    assert old == client.product(product)["threshold"]
    assert facts["inspections"] == len(seen)
    assert facts["changed"] == sum((one > old) != (one > new) for one in scores) > 0
    client.label(odd, "fine", confirm=True)
    assert client.product(product)["threshold"] == new
    client.label(seen[1]["id"], "fine")  # no doubt about that one
