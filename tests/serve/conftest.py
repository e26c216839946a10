"""A process that starts stations, and pictures to send."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperfsad.serve.client import StationClient
from tests.conftest import make_picture
from tests.serve.stations import Running, Stations

ADMIN, INSPECT = "admin-token-0123456789", "inspect-token-0123456789"


@pytest.fixture(scope="session")
def stations(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stations]:
    found = Stations(tiny, tmp_path_factory.mktemp("logs"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def station(stations: Stations, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A station that the tests of a module share."""
    with stations.running(tmp_path_factory.mktemp("store")) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(stations: Stations, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A station with tokens that the tests of a module share."""
    folder = tmp_path_factory.mktemp("guarded")
    with stations.running(folder / "store", *token_file(folder)) as found:
        yield found


def token_file(folder: Path) -> tuple[str, str]:
    """The option that names a file with both tokens."""
    path = folder / "tokens"
    path.write_text(f"inspect: {INSPECT}\n\nadmin: {ADMIN}\n")
    path.chmod(0o600)
    return "--token", str(path)


@pytest.fixture
def client(station: Running) -> StationClient:
    return station.client()


def png(seed: int, size: tuple[int, int] = (96, 80)) -> tuple[str, bytes]:
    """A picture to send: its name and its content."""
    content = io.BytesIO()
    make_picture(seed, size).save(content, "PNG")
    return f"{seed}.png", content.getvalue()


@pytest.fixture
def product(client: StationClient, request: pytest.FixtureRequest) -> str:
    """A product of its own for a test."""
    made = client.create_product(request.node.name[:100], [png(0), png(1)])
    return str(made["id"])
