"""Other settings: tried first, then applied, with a way back."""

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.serve.client import StationClient
from hyperfsad.serve.records import ProductRecord
from tests.conftest import make_picture
from tests.serve.conftest import INSPECT, png
from tests.serve.stations import Running, refused
from tests.serve.test_adapting import LINE, part

LEFT = [[0.0, 0.0], [0.5, 0.0], [0.5, 1.0], [0.0, 1.0]]
LOW = [[0.5, 0.75], [1.0, 0.75], [1.0, 1.0], [0.5, 1.0]]
SETTINGS = {"region": [LEFT, LOW]}


def spotted(seed: int, across: float) -> tuple[str, bytes]:
    """A good part with a spot."""
    picture = make_picture(seed)
    picture.paste((255, 0, 0), (int(across * 96) - 10, 20, int(across * 96) + 10, 40))
    content = io.BytesIO()
    picture.save(content, "PNG")
    return f"spot {across}.png", content.getvalue()


def region(product: ProductRecord) -> Any:
    """What was drawn, in the lists of JSON."""
    return product["settings"]["region"]


def test_a_drawn_region_is_tried_applied_and_taken_back(
    client: StationClient, product: str, tmp_path: Path
) -> None:
    before, told = client.download_product(product), client.product(product)
    assert told["settings"]["region"] is None
    parts = [png(0), png(1), spotted(0, 0.8), spotted(1, 0.2)]
    seen = client.inspect(product, parts)["inspections"]
    trial = client.try_settings(product, SETTINGS)
    assert client.download_product(product) == before
    assert client.product(product) == told
    assert trial["inspected"] == pytest.approx(0.5 + 0.125, abs=0.01)
    assert (trial["parts"], trial["next"]) == (4, None)
    made = client.configure_product(product, **SETTINGS)
    assert made["threshold"] == trial["new_threshold"]
    assert region(made) == [LEFT, LOW]
    assert (made["revision"], client.versions(product)[0]["action"]) == (2, "configured")
    # what the trial said is what happens, and what a fit with the same mask says
    again = client.inspect(product, parts)["inspections"]
    pairs = [(a["image"], a["verdict"], b["verdict"]) for a, b in zip(seen, again, strict=True)]
    passing = {image for image, old, new in pairs if (old, new) == ("anomalous", "good")}
    failing = {image for image, old, new in pairs if (old, new) == ("good", "anomalous")}
    assert {one["image"] for one in trial["passing"]} == passing
    assert {one["image"] for one in trial["failing"]} == failing
    assert trial["anomalous"] == sum(new == "anomalous" for _, _, new in pairs)
    path = tmp_path / "part.hfsad"
    path.write_bytes(client.download_product(product))
    own = HyperFSAD.load(path, device="cpu", precision="float32")
    mask = Image.new("L", (96, 80))
    mask.paste(255, (0, 0, 48, 80))
    mask.paste(255, (48, 60, 96, 80))
    fresh = HyperFSAD.of(own.settings.changed(roi=mask)).fit([make_picture(0), make_picture(1)])
    assert own.threshold_ == pytest.approx(fresh.threshold_, rel=1e-5)
    assert own.predict(parts[2][1]).score == pytest.approx(
        fresh.predict(parts[2][1]).score, rel=1e-5
    )
    client.restore_product(product, 1)
    assert client.download_product(product) == before
    assert client.product(product)["settings"] == told["settings"]
    client.restore_product(product, 2)
    assert region(client.product(product)) == [LEFT, LOW]  # to go on drawing


def test_the_latest_parts_a_few_at_a_time(client: StationClient, product: str) -> None:
    client.inspect(product, [png(seed) for seed in range(2, 9)])
    wanted = {"false_alarm_rate": 0.2}
    whole = client.try_settings(product, wanted)
    parts, cursor, steps = 0, None, 0
    changed = []
    while steps == 0 or cursor is not None:
        found = client.try_settings(product, wanted, parts=3, cursor=cursor)
        parts, cursor, steps = parts + found["parts"], found["next"], steps + 1
        changed += [one["id"] for one in found["passing"] + found["failing"]]
    assert (parts, steps) == (7, 3)
    assert changed == [one["id"] for one in whole["passing"] + whole["failing"]]


def test_other_settings_keep_what_stays(client: StationClient, product: str) -> None:
    client.configure_product(product, **SETTINGS)
    (one,) = client.inspect(product, [png(5)])["inspections"]
    client.label(one["id"], "bad", defect="scratch")
    found = client.configure_product(product, rotations=4)
    assert (found["rotations"], found["settings"]["rotations"]) == (4, 4)
    assert region(found) == [LEFT, LOW]
    assert found["defects"] == [{"name": "scratch", "examples": 1}]
    larger = client.configure_product(product, rotations=1, resolution=112)  # other tokens
    assert larger["resolution"] == 112
    assert larger["defects"] == [{"name": "scratch", "examples": 1}]
    assert client.undo(one["id"])["label"] is None
    assert client.product(product)["defects"] == []
    assert client.configure_product(product, region=None)["settings"]["region"] is None
    tiled = client.configure_product(product, tiles=64)
    assert (tiled["tiles"], tiled["rotations"]) == (64, 1)
    with refused(422, "tiles-with-roi"):
        client.try_settings(product, SETTINGS)
    assert client.configure_product(product, tiles=None)["tiles"] is None


def test_a_product_that_learnt_from_the_line_learns_it_again(client: StationClient) -> None:
    product = client.create_product("configured line", [part(60, 0.1), part(61, 0.1)])["id"]
    client.inspect(product, LINE)
    client.adapt_product(product)
    found = client.configure_product(product, region=[LEFT])
    assert found["threshold_method"] == "line"


def test_what_cannot_be_set(client: StationClient, product: str, guarded: Running) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"region": [[[0, 0], [1, 1]]]},
        {"region": [[[0, 0], [2, 0], [0, 1]]]},
        {"region": []},
        {"rotations": 0},
        {"false_alarm_rate": 0},
        {"colour": 1},
    )
    for settings in wrong:
        with refused(422):
            client.try_settings(product, settings)
    with refused(422, "roi-too-small"):
        client.configure_product(product, region=[[[0.1, 0.1], [0.12, 0.1], [0.1, 0.12]]])
    file = client.download_product(product)
    brought = client.upload_product("configured brought", ("bolt.hfsad", file))["id"]
    with refused(409, "settings-need-pictures"):
        client.configure_product(brought, **SETTINGS)
    with refused(403, "admin-required"):
        guarded.client(INSPECT).try_settings("0" * 32, SETTINGS)
