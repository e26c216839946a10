"""What the page says of learning from the line."""

from pathlib import Path

from hyperfsad.serve.client import StationClient
from tests.serve.page.conftest import Opener
from tests.serve.page.test_looks import complaints
from tests.serve.stations import Running
from tests.serve.test_adapting import LINE, ODD, part


def test_from_preliminary_to_applied_and_back(
    station: Running, client: StationClient, visit: Opener, tmp_path: Path
) -> None:
    product = client.create_product("line", [part(seed, 0.1) for seed in (60, 61)])["id"]
    before = client.download_product(product)
    client.inspect(product, LINE[:10])
    paths = [tmp_path / name for name, _ in LINE[10:]]
    for path, (_, content) in zip(paths, LINE[10:], strict=True):
        path.write_bytes(content)
    page = visit(station.url, f"#/inspect/{product}")
    page.wait_for_selector(".line-hint >> text=Preliminary: 2 more parts show")
    page.locator(".source .drop input").set_input_files(paths)
    page.wait_for_selector(".strip-list li:nth-child(2)", state="attached")
    page.wait_for_selector(".line-hint >> text=has not learnt from the line yet")
    assert complaints(page) == []
    page.get_by_role("link", name="12 parts were seen").click()
    page.get_by_role("button", name="See what would change").click()
    page.wait_for_selector("text=One part looks bad")
    assert page.locator(f".proposal img[alt='{ODD[0][0]}']").count() == 2
    page.wait_for_selector("text=One good part would be anomalous")
    assert complaints(page) == []
    assert client.download_product(product) == before
    page.get_by_role("button", name="Learn from these parts").click()
    page.wait_for_selector("text=from 12 unlabelled parts of the line")
    assert client.product(product)["revision"] == 2
    told = page.locator(".versions td.names").all_inner_texts()
    assert told == ["learnt from 12 parts of the line", "made"]
    page.locator(".toast").get_by_role("button", name="Undo").click()
    page.wait_for_selector(".toast >> text=Version 1 is back.")
    assert client.download_product(product) == before
    page.get_by_label("Learn by itself").check()
    page.wait_for_selector(".toast >> text=by itself")
    assert client.product(product)["adapt_automatically"] is True
    assert client.product(product)["revision"] == 3
