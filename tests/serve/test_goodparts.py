"""What can be seen of the good parts of a product."""

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.serve.client import StationClient
from tests.serve.conftest import png
from tests.serve.stations import Running, Stations


def found(station: Running, path: str) -> Any:
    answer = station.ask("GET", f"/{path}")
    assert answer.status == 200
    return answer.json()


def test_pictures_of_good_parts(station: Running, client: StationClient, product: str) -> None:
    client.extend_product(product, [png(2)], confirm=True)
    images = found(station, f"products/{product}/images")["images"]
    assert [one["name"] for one in images] == ["0.png", "1.png", "2.png"]
    assert images[2]["image"] == hashlib.sha256(png(2)[1]).hexdigest()
    status, _, content = station.ask(
        "GET", f"/products/{product}/images/{images[2]['part']}/thumbnail"
    )
    assert status == 200
    with Image.open(io.BytesIO(content)) as picture:
        assert (picture.format, picture.size) == ("JPEG", (96, 80))
    for other in ("0" * 64, hashlib.sha256(png(3)[1]).hexdigest()):
        assert station.ask("GET", f"/products/{product}/images/{other}/thumbnail").status == 404
    assert station.ask("GET", f"/products/{product}/images/..%2f/thumbnail").status == 404
    assert station.ask("GET", f"/products/{'0' * 32}/images").status == 404


def test_a_detector_file_brings_no_pictures(
    station: Running, client: StationClient, product: str
) -> None:
    name = f"{product}-again"
    made = client.upload_product(name, (f"{name}.hfsad", client.download_product(product)))
    parts = found(station, f"products/{made['id']}/images")["images"]
    assert [(one["name"], one["image"]) for one in parts] == [("0.png", None), ("1.png", None)]
    path = f"/products/{made['id']}/images/{parts[0]['part']}"
    assert station.ask("GET", f"{path}/thumbnail").status == 404
    assert found(station, f"products/{made['id']}/levels")["kind"] == "leave-one-out"
    assert client.remove_part(made["id"], parts[0]["part"])["good_parts"] == 1


def test_levels_are_what_the_detector_says(
    station: Running, client: StationClient, product: str, tmp_path: Any, tiny: str
) -> None:
    before = found(station, f"products/{product}/levels")
    file = tmp_path / "product.hfsad"
    file.write_bytes(client.download_product(product))
    detector = HyperFSAD.load(file, backbone=tiny)
    left = detector.view_.leave_one_out()
    assert detector.threshold_ is not None
    assert detector.map_threshold_ is not None
    pairs = zip(left.scores, left.peaks, strict=True)
    expected = sorted(
        max(score / detector.threshold_, peak / detector.map_threshold_) for score, peak in pairs
    )
    assert before["kind"] == "leave-one-out"
    assert before["levels"] == pytest.approx(expected, rel=1e-4)
    client.calibrate_product(product, threshold=2 * detector.threshold_)  # all reach half as far
    moved = found(station, f"products/{product}/levels")["levels"]
    assert moved == pytest.approx([value / 2 for value in expected], rel=1e-4)


def test_levels_of_a_calibration_and_of_a_lone_part(
    station: Running, client: StationClient, product: str
) -> None:
    made = client.calibrate_product(product, [png(seed) for seed in range(4, 8)])
    assert (made["threshold_method"], made["threshold_images"]) == ("few", 4)
    calibrated = found(station, f"products/{product}/levels")
    assert calibrated["kind"] == "calibration"
    assert len(calibrated["levels"]) == 4
    assert made["threshold"] is not None
    client.calibrate_product(product, threshold=made["threshold"] / 2)
    halved = found(station, f"products/{product}/levels")["levels"]
    assert halved == pytest.approx([2 * value for value in calibrated["levels"]])
    assert client.product(product)["threshold_method"] == "hand"
    lone = client.create_product(f"{product}-lone", [png(0)])
    assert lone["threshold_method"] == "support"
    assert found(station, f"products/{lone['id']}/levels") == {"kind": "none", "levels": []}


def test_a_picture_that_every_browser_shows(
    station: Running, client: StationClient, product: str
) -> None:
    content = io.BytesIO()
    with Image.open(io.BytesIO(png(5)[1])) as part:
        part.save(content, "TIFF")
    (one,) = client.inspect(product, [("5.tif", content.getvalue())])["inspections"]
    status, _, picture = station.ask("GET", f"/inspections/{one['id']}/picture")
    assert status == 200
    with Image.open(io.BytesIO(picture)) as shown:
        assert (shown.format, shown.size) == ("JPEG", (96, 80))


def test_notes_name_no_options_of_the_command_line(stations: Stations, tmp_path: Path) -> None:
    with stations.running(tmp_path, "--recipe", "default") as station:
        notes = station.client().create_product("lone", [png(0)])["notes"]
    assert any("images that they fit clearly better" in note for note in notes)
    assert not any("--" in note for note in notes)
