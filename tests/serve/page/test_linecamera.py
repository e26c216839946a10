"""The camera of the line, as an engineer sets it on the page."""

from pathlib import Path

import numpy as np

from hyperfsad.serve.client import StationClient
from tests.conftest import make_picture
from tests.connect.videos import make_video
from tests.serve.page.conftest import Opener
from tests.serve.stations import Running


def test_a_camera_is_set_followed_and_removed(
    station: Running, client: StationClient, product: str, visit: Opener, tmp_path: Path
) -> None:
    frames = [np.asarray(make_picture(seed % 9)) // 8 for seed in range(300)]
    video = make_video(tmp_path / "line.mkv", frames)
    page = visit(station.url, f"#/products/{product}")
    card = page.locator(".card").filter(
        has=page.get_by_role("heading", name="Camera of the line", exact=True)
    )
    card.get_by_label("Address").fill(str(video))
    card.get_by_label("Deadline").fill("60s")
    card.get_by_role("button", name="Start").click()
    page.wait_for_selector(".toast >> text=The camera is set.")
    card.get_by_text("sends pictures").wait_for()
    card.locator("figcaption", has_text="too dark").wait_for()  # it looks again by itself
    card.locator("img.linecam").first.wait_for()
    state = client.source(product)
    assert state is not None
    assert (state["trigger"], state["deadline"]) == ("every:500ms", "60s")
    assert state["judged"] > 0
    card.get_by_role("button", name="Stop and remove").click()
    page.wait_for_selector(".toast >> text=no camera any longer")
    assert client.source(product) is None
    assert card.locator("table").count() == 0
