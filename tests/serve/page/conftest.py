"""Pages of real stations in a real browser. Nothing may fail, and no other address be asked."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import PATIENCE
from tests.conftest import make_picture
from tests.serve.conftest import png
from tests.serve.stations import Running, Stations

Opener = Callable[..., Any]


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Eight parts on the disk, as somebody drops them."""
    folder = tmp_path_factory.mktemp("parts")
    paths = [folder / f"part {seed}.png" for seed in range(8)]
    for seed, path in enumerate(paths):
        make_picture(seed).save(path)
    return paths


@pytest.fixture(scope="module")
def taught(stations: Stations, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A station with one product, `bolt`, of which good and other parts differ."""
    with stations.running(tmp_path_factory.mktemp("taught")) as found:
        client = found.client()
        made = client.create_product("bolt", [png(seed) for seed in range(3)])
        client.calibrate_product(made["id"], threshold=0.02)
        yield found


@pytest.fixture
def visit(browser: Any) -> Iterator[Opener]:
    """Opens the page of a station; at the end nothing may have been complained about."""
    opened: list[tuple[Any, list[str]]] = []

    def load(
        url: str, place: str = "", *, width: int = 1280, height: int = 900, **more: Any
    ) -> Any:
        allowed = more.pop("allowed", ())
        options = {"color_scheme": "light", "locale": "en-US", **more}
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        page, trouble = context.new_page(), list[str]()
        page.set_default_timeout(1000 * PATIENCE)

        def note(text: str) -> None:
            if not any(part in text for part in allowed):
                trouble.append(text)

        page.on("pageerror", lambda error: note(str(error)))
        page.on("console", lambda one: note(f"{one.text} {one.location['url']}"))
        page.on("dialog", lambda dialog: note(dialog.message))
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith((url, "blob:", "data:")) else note(request.url)
            ),
        )
        page.goto(f"{url}/{place}")
        opened.append((page, trouble))
        return page

    yield load
    for page, trouble in opened:
        page.context.close()
        assert trouble == []
