"""One real Ray for all tests of the room, a real S3 server, and a small detector."""

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hyperfsad import HyperFSAD
from tests.conftest import make_picture
from tests.waiting import DEADLINE

BUCKET = "parts"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}


@pytest.fixture(scope="session", autouse=True)
def _needed() -> None:
    for name in ("fsspec", "moto", "pyarrow", "ray", "s3fs"):
        if find_spec(name) is None:
            pytest.skip(f"work on a cluster is not tested: there is no {name} here")


class Gate:
    """Lets an S3 server answer at once, except for one object: that waits until it is released."""

    def __init__(self) -> None:
        self.asked, self._released, self._held = threading.Event(), threading.Event(), ""

    @contextmanager
    def holding(self, name: str) -> Iterator[None]:
        """Holds objects whose key ends with `name`."""
        self.asked.clear()
        self._released.clear()
        self._held = name
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        self._held = ""
        self._released.set()

    def before(self, application: Any) -> Any:
        """The application behind the gate."""

        def answer(environ: dict[str, Any], start: Any) -> Any:
            if self._held and environ["PATH_INFO"].endswith(self._held):
                self.asked.set()
                self._released.wait(DEADLINE)
            return application(environ, start)

        return answer


@pytest.fixture(scope="session")
def gate() -> Gate:
    return Gate()


@pytest.fixture(scope="session")
def store(gate: Gate) -> Iterator[Any]:
    """A client of an S3 server on this machine; its address is in the environment, where s3fs
    looks for it."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    server: Any = running._server
    server.app = gate.before(server.app)
    host, port = running.get_host_and_port()
    settings = {**CREDENTIALS, "AWS_DEFAULT_REGION": "us-east-1"}
    settings["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        import boto3

        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        yield client
    finally:
        running.stop()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@pytest.fixture(scope="session")
def cluster(store: Any) -> Iterator[str]:
    """The address of a Ray with two cores; its workers know the S3 server."""
    import ray

    from hyperfsad.cluster.session import Cluster, ray_session

    with ray_session(Cluster(address="local", workers=2)):
        yield ray.get_runtime_context().gcs_address


@pytest.fixture(scope="session")
def part(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector file that is quick to use."""
    folder = tmp_path_factory.mktemp("detector")
    paths = [folder / f"{seed}.png" for seed in (1000, 1001)]
    for path in paths:
        make_picture(int(path.stem)).save(path)
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    detector.fit(paths).save(folder / "part.hfsad")
    return folder / "part.hfsad"


def make_photos(folder: Path, count: int) -> Path:
    """Pictures in a folder and one below it, two files that are none, and one that is passed
    over."""
    (folder / "below").mkdir(parents=True)
    for seed in range(count):
        place = folder / "below" if seed % 3 == 0 else folder
        make_picture(seed).save(place / f"{seed:04d}.png")
    (folder / "damaged.png").write_bytes(b"no picture")
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "notes.md").write_text("passed over")
    return folder


def rows_of(folder: Any) -> list[dict[str, Any]]:
    """The rows of all parts of a local output folder, without what is no field of a record."""
    from pyarrow import parquet

    found = []
    for path in sorted(Path(folder, "results").glob("part-*.parquet")):
        for row in parquet.read_table(path).to_pylist():
            del row["stamp"]
            found.append(row)
    return sorted(found, key=lambda row: str(row["image"]))
