"""The life of a product, through the client."""

import csv
import hashlib
import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.serve.client import StationClient
from tests.conftest import as_fitted_in, make_picture, save_tiny
from tests.serve.conftest import png
from tests.serve.stations import Running, refused, until


def test_from_good_parts_to_a_verdict(client: StationClient, tmp_path: Path) -> None:
    made = client.create_product("bolt", [png(0), png(1)])
    assert made["good_parts"] == 2
    assert [one["name"] for one in client.products() if one["id"] == made["id"]] == ["bolt"]
    found = client.inspect(made["id"], [png(7), png(0)])
    assert found["rejected"] == []
    far, near = found["inspections"]
    assert (far["name"], near["name"]) == ("7.png", "0.png")
    assert far["score"] > near["score"]
    # the same as the detector says that was carried away
    path = tmp_path / "bolt.hfsad"
    path.write_bytes(client.download_product(made["id"]))
    own = HyperFSAD.load(path, device="cpu")
    expected = own.predict(Image.open(io.BytesIO(png(7)[1]))).to_dict()
    for name in (
        "score",
        "threshold",
        "anomalous",
        "level",
        "map_threshold",
        "regions",
        "map_peak",
    ):
        assert far[name] == pytest.approx(expected[name]), name
    assert far["map_peak"] == pytest.approx(expected["map_peak"])
    assert far["branches"]["map"] == pytest.approx(expected["score_map"])
    assert client.inspection(far["id"]) == far


def test_pictures(client: StationClient, product: str) -> None:
    (one,) = client.inspect(product, [png(5, (200, 120))])["inspections"]
    assert client.picture(one["id"], "original") == png(5, (200, 120))[1]
    assert hashlib.sha256(png(5, (200, 120))[1]).hexdigest() == one["image"]
    sizes = {}
    for kind in ("overlay", "heatmap", "thumbnail", "evidence.jpg"):
        with Image.open(io.BytesIO(client.picture(one["id"], kind))) as drawn:
            sizes[kind] = drawn.size
    assert sizes["thumbnail"] == (200, 120)
    assert sizes["heatmap"] == (6, 6)
    assert sizes["overlay"][0] >= 200
    found = client.evidence(one["id"], x=30, y=40)
    assert found["image"] == "5.png"
    assert found["x"] != pytest.approx(170)
    assert found["layers"][0]["neighbours"][0]["image"] in ("0.png", "1.png")
    with refused(422):
        client.evidence(one["id"], x=5000, y=40)
    with refused(422):
        client.evidence(one["id"], x=5)


def test_extend_calibrate_rename_delete(client: StationClient, product: str) -> None:
    more = client.extend_product(product, [png(2)], confirm=True)
    assert (more["good_parts"], more["revision"]) == (3, 2)
    with refused(409):
        client.extend_product(product, [png(2)], confirm=True)
    further = client.calibrate_product(product, [png(10 + seed) for seed in range(5)])
    assert further["threshold"] != more["threshold"]
    assert further["good_parts"] == 3
    by_hand = client.calibrate_product(product, threshold=0.5)
    assert (by_hand["threshold"], by_hand["threshold_from"]) == (0.5, "set by hand")
    (one,) = client.inspect(product, [png(3)])["inspections"]
    assert one["threshold"] == 0.5
    assert client.rename_product(product, "another")["name"] == "another"
    client.delete_product(product)
    with refused(404):
        client.inspect(product, [png(3)])
    assert client.inspection(one["id"])["product"] == "another"  # the history stays


def test_a_name_is_taken_once(client: StationClient, product: str) -> None:
    name = client.product(product)["name"]
    with refused(409, "product-name-taken"):
        client.create_product(name, [png(0)])
    client.delete_product(product)
    assert client.create_product(name, [png(0)])["name"] == name


def test_carried_to_another_name(client: StationClient, product: str) -> None:
    content = client.download_product(product)
    brought = client.upload_product("brought", ("x.hfsad", content))
    assert brought["good_parts"] == 2
    assert client.download_product(brought["id"]) == content
    (one,) = client.inspect(brought["id"], [png(4)])["inspections"]
    assert client.picture(one["id"], "evidence.jpg")[:2] == b"\xff\xd8"
    for damaged in (content[:-40], b"nothing", content[:5000] + b"\0" * 50 + content[5050:]):
        with refused(422) as error:
            client.upload_product("damaged", ("x.hfsad", damaged))
        assert str(error.value).startswith("x.hfsad is damaged")


def test_places_in_detector_files_are_never_opened(
    client: StationClient, tiny: str, tmp_path: Path
) -> None:
    moved, other = tmp_path / "moved", tmp_path / "other"
    shutil.copytree(tiny, moved)
    settings: dict[str, Any] = {"recipe": "paper-offline", "resolution": 84, "device": "cpu"}
    path = tmp_path / "x.hfsad"
    HyperFSAD(str(moved), **settings).fit([make_picture(0)]).save(path)
    shutil.rmtree(moved)  # the station has the same weights elsewhere
    assert client.upload_product("moved", path)["good_parts"] == 1
    save_tiny(other, seed=1)
    HyperFSAD(str(other), **settings).fit([make_picture(0)]).save(path)
    with refused(422):
        client.upload_product("other", path)


def test_a_detector_of_another_precision_computes_in_the_station_s(
    client: StationClient, tiny: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"recipe": "paper-offline", "resolution": 84, "device": "cpu"}
    path = tmp_path / "x.hfsad"
    detector = HyperFSAD(tiny, **settings).fit([make_picture(0)])
    as_fitted_in(detector, "bf16").save(path)
    uploaded = client.upload_product("half", path)
    (found,) = client.inspect(uploaded["id"], [png(20)])["inspections"]
    assert found["score"] == pytest.approx(detector.predict(make_picture(20)).score, abs=0.01)


def test_fine_is_learnt_and_undone(client: StationClient, product: str) -> None:
    before = client.download_product(product)
    first, second = client.inspect(product, [png(20), png(21)])["inspections"]
    assert client.label(first["id"], "fine", confirm=True)["learnt"] is True
    assert client.product(product)["good_parts"] == 3
    assert client.inspect(product, [png(20)])["inspections"][0]["score"] < first["score"]
    with refused(409):
        client.label(first["id"], "bad")
    one = client.download_product(product)
    client.label(second["id"], "fine", confirm=True)
    client.undo(second["id"])
    assert client.download_product(product) == one  # the last change: the very same file
    client.label(second["id"], "fine", confirm=True)
    client.undo(first["id"])  # not the last one: it is forgotten
    learnt = client.report(product, "images")["images"]
    assert [part["name"] for part in learnt] == ["0.png", "1.png", "21.png"]
    client.undo(second["id"])
    assert client.product(product)["good_parts"] == 2
    again = client.inspect(product, [png(20)])["inspections"][0]
    assert again["score"] == pytest.approx(first["score"])
    assert again["threshold"] == pytest.approx(first["threshold"])
    assert len(before) == len(client.download_product(product))


def test_labels_are_evaluated(client: StationClient, product: str) -> None:
    with refused(422, "labels-missing"):
        client.evaluate_product(product)
    seeds = range(30, 34)
    found = client.inspect(product, [png(seed) for seed in seeds])["inspections"]
    client.label(found[0]["id"], "fine", learn=False)
    client.label(found[1]["id"], "fine", confirm=True)
    client.label(found[2]["id"], "bad", defect="scratch")
    client.label(found[3]["id"], "bad")
    told = client.evaluate_product(product)
    assert (told["good_parts"], told["defects"]) == (1, 2)
    assert set(told["kinds"]) == {"scratch", "bad"}
    assert found[1]["id"] in told["learnt"][0]
    assert found[2]["id"] in told["images"][1]["image"]
    assert told["images"][1]["image"] == f"{found[2]['name']} ({found[2]['id']})"
    assert "/images/" not in str(told)
    assert [row["id"] for row in client.history(product=product, label="bad")] == [
        found[3]["id"],
        found[2]["id"],
    ]


def test_history_filters_and_export(client: StationClient, product: str) -> None:
    name = ("=1+1.png", png(40)[1])
    found = client.inspect(product, [png(41), name, png(42)])["inspections"]
    client.calibrate_product(product, threshold=1e-6)
    found += client.inspect(product, [png(43)])["inspections"]
    assert found[-1]["verdict"] == "anomalous"
    ids = [one["id"] for one in found]
    assert [row["id"] for row in client.history(product=product, limit=2)] == ids[::-1]
    rows = list(client.history(product=product, verdict="anomalous"))
    assert ids[-1] in [row["id"] for row in rows]
    levels = {one["id"]: one["level"] or 0.0 for one in found}
    middle = sorted(levels.values())[1]
    above = client.history(product=product, min_level=middle, max_level=1e9)
    assert {row["id"] for row in above} == {
        each for each, level in levels.items() if level >= middle
    }
    later = client.history(product=product, since=found[-1]["time"])
    assert [row["id"] for row in later] == ids[-1:]
    table = list(csv.DictReader(io.StringIO(client.export(product=product).decode())))
    assert [row["id"] for row in table] == ids[::-1]
    assert table[2]["name"] == "'=1+1.png"
    with refused(422):
        client.page("nonsense")


def test_an_image_that_is_sent_again(client: StationClient, product: str) -> None:
    key = "0123456789abcdef" * 2
    first = client.inspect(product, [png(80)], key)
    assert first["inspections"][0]["id"] == key
    assert client.inspect(product, [png(80)], key) == first
    with refused(409, "key-known"):
        client.inspect(product, [png(81)], key)
    with refused(422, "key-with-several"):
        client.inspect(product, [png(80), png(81)], key)
    with refused(422, "request-invalid"):
        client.inspect(product, [png(80)], "short")
    assert len(list(client.history(product=product))) == 1


def test_pages_are_stable_while_rows_arrive(client: StationClient, product: str) -> None:
    known = [client.inspect(product, [png(50 + n)])["inspections"][0]["id"] for n in range(5)]
    page = client.page(product=product, limit=2)
    seen = [row["id"] for row in page["inspections"]]
    while page["next"]:
        client.inspect(product, [png(60)])
        page = client.page(page["next"], product=product, limit=2)
        seen += [row["id"] for row in page["inspections"]]
    assert seen == known[::-1]


def test_metrics_and_logs(station: Running, client: StationClient, product: str) -> None:
    client.inspect(product, [png(70)])
    answer = station.ask("GET", "/metrics", prefix="")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert b"hyperfsad_inspections_total{" in answer.content
    assert b"hyperfsad_trash_bytes 0.0" in answer.content
    row = station.logged(answer.headers["x-request-id"])
    assert (row["path"], row["status"]) == ("/metrics", 200)
    counted = b'method="POST",route="inspect",status="201"'  # after the answer was sent
    until(lambda: counted in station.ask("GET", "/metrics", prefix="").content)
