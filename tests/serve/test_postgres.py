"""Several stations on one PostgreSQL: the same code, nothing lost, nothing doubled."""

import contextlib
import hashlib
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from hyperfsad.errors import HyperfsadError, UsageError
from hyperfsad.serve.client import StationClient, StationError
from hyperfsad.serve.refusals import BusyError
from hyperfsad.serve.store.database import Database
from hyperfsad.serve.store.store import Store
from tests.codes import raises
from tests.serve import postgres
from tests.serve.campaign import Campaign
from tests.serve.conftest import png
from tests.serve.postgres import Postgres
from tests.serve.stations import Running, Stations, at_once, refused, until
from tests.serve.test_adapting import LINE, part
from tests.serve.test_store import assert_migrated

pytestmark = pytest.mark.skipif(postgres.programs() is None, reason=postgres.MISSING)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres.running() as found:
        yield found


@pytest.fixture
def url(server: Postgres, request: pytest.FixtureRequest) -> str:
    """A new database."""
    name: str = request.node.name
    return server.make(name[:60])


@pytest.fixture
def pair(stations: Stations, url: str, tmp_path: Path) -> Iterator[tuple[Running, Running]]:
    """Two stations with one database and one folder, started at once."""
    found = [stations.start(tmp_path / "store", "--database", url) for _ in range(2)]
    try:
        yield found[0].wait(), found[1].wait()
    finally:
        for one in found:
            one.stop()


def test_migrations_give_the_tables_of_the_models(url: str, tmp_path: Path) -> None:
    databases = [Database(tmp_path, url) for _ in range(4)]
    assert_migrated(databases)
    with databases[0].engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with raises(HyperfsadError, "store-too-new"):
        databases[0].migrate()
    for database in databases:
        database.close()


def test_a_station_does_not_wait_for_ever_for_another_that_learns(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (Database(tmp_path, url) for _ in range(2))
    monkeypatch.setattr("hyperfsad.serve.store.database.LEARNING_PATIENCE", 0.1)
    with one.alone("a" * 32):
        with raises(BusyError, "learning-elsewhere"), other.alone("a" * 32):
            pass
        with other.alone("b" * 32):
            pass
    with other.alone("a" * 32):
        pass
    for database in (one, other):
        database.close()


def learnt(client: StationClient, product: str) -> list[str]:
    return [part["name"] for part in client.report(product, "images")["images"]]


def test_a_product_adapts_once_whichever_station_saw_its_parts(
    pair: tuple[Running, Running],
) -> None:
    one, other = (station.client() for station in pair)
    product = one.create_product("line", [part(seed, 0.1) for seed in (60, 61)])["id"]
    other.adapt_automatically(product, True)
    one.inspect(product, LINE[:6])
    at_once(
        *(partial(client.inspect, product, LINE[6:]) for client in (one, other)),
    )
    until(lambda: one.product(product)["revision"] == 2, "adapting")
    other.inspect(product, LINE[:1])
    one.calibrate_product(product, threshold=0.5)  # waits for what the engine has to do
    assert [found["action"] for found in other.versions(product)] == [
        "calibrated",
        "adapted",
        "created",
    ]


def test_one_sees_what_the_other_does(pair: tuple[Running, Running]) -> None:
    one, other = (station.client() for station in pair)
    product = one.create_product("bolt", [png(0), png(1)])["id"]
    assert [found["name"] for found in other.products()] == ["bolt"]
    (kept,) = other.inspect(product, [png(2)])["inspections"]
    assert one.inspection(kept["id"]) == kept
    assert one.picture(kept["id"], "original") == png(2)[1]
    (before,) = one.inspect(product, [png(3)])["inspections"]
    other.extend_product(product, [png(3)], confirm=True)
    (after,) = one.inspect(product, [png(3)])["inspections"]
    assert after["revision"] == 2
    assert after["score"] < before["score"]  # it is learnt here, too
    assert one.label(kept["id"], "fine", confirm=True)["learnt"] is True
    assert other.product(product)["good_parts"] == 4
    other.undo(kept["id"])
    assert learnt(one, product) == ["0.png", "1.png", "3.png"]
    assert one.evidence(after["id"])["layers"]
    with refused(409):
        other.create_product("bolt", [png(0)])
    other.rename_product(product, "nut")
    assert one.product(product)["name"] == "nut"
    one.delete_product(product)
    with refused(404):
        other.inspect(product, [png(2)])
    assert [row["product"] for row in other.history()] == ["nut"] * 3
    assert other.export().decode().count("nut") == 3
    assert one.page(limit=2)["inspections"] == other.page(limit=2)["inspections"]
    actions = Counter(entry["action"] for entry in one.audit())
    assert actions["product extended"] == actions["label undone"] == 1


class Load:
    """The same work for each station, and what was acknowledged."""

    def __init__(self, product: str) -> None:
        self.product = product
        self.inspections: list[tuple[str, str]] = []
        self.learnt: list[str] = []
        self.made: list[str] = []
        self.refused: Counter[int] = Counter()

    def inspecting(self, client: StationClient, station: int, rounds: int) -> None:
        for number in range(rounds):
            # all send the same pictures, each in an order of its own
            images = [png(100 + (3 * number + place) % 7) for place in range(3)]
            order = images if station else images[::-1]
            found = client.inspect(self.product, order)["inspections"]
            for one, (_, content) in zip(found, order, strict=True):
                self.inspections.append((one["id"], hashlib.sha256(content).hexdigest()))

    def learning(self, client: StationClient, station: int, rounds: int) -> None:
        for number in range(rounds):
            image = png(1000 + 100 * station + number)
            try:
                client.extend_product(self.product, [image], confirm=True)
                self.learnt.append(image[0])
            except StationError as error:
                self.refused[error.status] += 1

    def naming(self, client: StationClient, station: int, rounds: int) -> None:
        """Both want the same names: each is given once."""
        for number in range(rounds):
            try:
                self.made.append(client.create_product(f"p{number}", [png(number)])["name"])
            except StationError as error:
                self.refused[error.status] += 1


def test_two_stations_under_the_same_load(
    pair: tuple[Running, Running], url: str, tmp_path: Path
) -> None:
    clients = [station.client() for station in pair]
    load = Load(clients[0].create_product("bolt", [png(0), png(1)])["id"])
    work = ((load.inspecting, 8), (load.inspecting, 8), (load.learning, 4), (load.naming, 4))
    at_once(
        *(
            partial(job, client, station, rounds)
            for station, client in enumerate(clients)
            for job, rounds in work
        )
    )
    assert len(load.inspections) == 96
    rows = list(clients[0].history(limit=20))
    assert sorted((row["id"], row["image"]) for row in rows) == sorted(load.inspections)
    product = clients[1].product(load.product)
    assert load.refused == {409: 4}  # the second of each name, and nothing else
    assert sorted(load.made) == ["p0", "p1", "p2", "p3"]
    assert sorted(learnt(clients[0], load.product)) == sorted(["0.png", "1.png", *load.learnt])
    assert product["revision"] == 9
    audit = Counter(entry["action"] for entry in clients[0].audit())
    assert audit["product extended"] == 8
    assert audit["product created"] == 5
    assert_consistent(url, tmp_path / "store")


def test_a_station_dies_and_the_other_goes_on(stations: Stations, url: str, tmp_path: Path) -> None:
    options = (tmp_path / "store", "--database", url)
    kept: dict[str, str] = {}
    with stations.running(*options) as stays:
        client = stays.client()
        product = client.create_product("bolt", [png(0), png(1)])["id"]

        def work(client: StationClient, start: int) -> None:
            for number in range(start, start + 200):
                try:
                    image = png(number)
                    (one,) = client.inspect(product, [image])["inspections"]
                    kept[one["id"]] = hashlib.sha256(image[1]).hexdigest()
                    client.extend_product(product, [png(10_000 + number)], confirm=True)
                except StationError:
                    return

        for turn in range(3):
            dies = stations.start(*options).wait()
            enough = len(kept) + 1 + turn

            def kill(dies: Running = dies, enough: int = enough) -> None:
                until(lambda: len(kept) >= enough, "an inspection")
                dies.stop(signal.SIGKILL)

            at_once(partial(work, dies.client(), 1000 * (turn + 1)), kill)
            client.extend_product(
                product, [png(20 + turn)], confirm=True
            )  # the lock died with its holder
        rows = {row["id"]: row["image"] for row in client.history()}
        assert kept.items() <= rows.items()
        assert kept
        for inspection, sha256 in kept.items():
            content = client.picture(inspection, "original")
            assert hashlib.sha256(content).hexdigest() == sha256
        assert client.inspect(product, [png(5)])["inspections"]
    assert_consistent(url, tmp_path / "store", swept=False)


def test_the_database_goes_away_and_comes_back(
    stations: Stations, server: Postgres, url: str, tmp_path: Path
) -> None:
    with stations.running(tmp_path / "store", "--database", url) as station:
        client = station.client()
        product = client.create_product("bolt", [png(0), png(1)])["id"]
        (kept,) = client.inspect(product, [png(2)])["inspections"]
        server.stop()
        try:
            for act in (lambda: client.inspect(product, [png(3)]), client.products):
                with refused(503, "database-away") as error:
                    act()
                assert error.value.retry_after
            assert not client.ready()
        finally:
            server.start()
        assert client.ready()
        assert client.inspection(kept["id"]) == kept
        client.inspect(product, [png(3)])
        assert [row["name"] for row in client.history()] == ["3.png", "2.png"]
        assert list((tmp_path / "store" / "incoming").iterdir()) == []
    (tmp_path / "store").rename(tmp_path / "moved")
    with raises(UsageError, "store-folder-differs"):
        Store(tmp_path / "other", url).open()


@pytest.mark.parametrize("failing_over", [False, True])
def test_cut_off_under_load(
    stations: Stations, server: Postgres, tmp_path: Path, failing_over: bool
) -> None:
    """Nothing that was acknowledged is lost, nothing is doubled, and no restart is needed."""
    camera, name = tmp_path / "camera", f"cut{failing_over}".lower()
    camera.mkdir()
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(postgres.running()) if failing_over else server
        primary.make(name)
        after = stack.enter_context(postgres.running(primary)) if failing_over else primary
        if failing_over:
            primary.follow()
        line = postgres.Line(primary)
        options = ("--database", line.url(name), "--watch", f"bolt={camera}")
        station = stack.enter_context(stations.running(tmp_path / "store", *options))
        with Campaign(station, camera) as campaign:
            campaign.photograph(1)
            campaign.more()
            line.cut()
            if failing_over:
                primary.stop("immediate")
            campaign.photograph(2)
            assert not campaign.client.ready()
            until(lambda: campaign.failed.total() >= 8, "refusals")
            if failing_over:
                after.promote()
            line.mend(after)
            until(campaign.client.ready, "getting ready again")
            campaign.photograph(3)
            campaign.more()
            names = {"1.png", "2.png", "3.png"}
            until(lambda: names <= {row["name"] for row in campaign.client.history(limit=500)})
        campaign.check(watched=3)
        line.cut()
        line.mend(after)
        station.stop()
    if not failing_over:
        url = server.url.replace("/postgres?", f"/{name}?")
        assert_consistent(url, tmp_path / "store", swept=False)


def test_a_frozen_database_hangs_nobody(
    stations: Stations, server: Postgres, url: str, tmp_path: Path
) -> None:
    """All are refused while it is frozen, whether their connection was open or not."""
    with stations.running(tmp_path / "store", "--database", url) as station:
        client = station.client()
        product = client.create_product("bolt", [png(0), png(1)])["id"]
        client.inspect(product, [png(2)])  # a connection is open now

        def refuse(number: int) -> None:
            with refused(503, "database-away"):
                if number % 3 == 0:
                    client.extend_product(product, [png(number)], confirm=True)
                elif number % 3 == 1:
                    client.products()
                else:
                    client.inspect(product, [png(number)])

        with server.frozen():
            at_once(*(partial(refuse, number) for number in range(30)))
            assert not client.ready()
        until(client.ready, "getting ready again")
        assert client.extend_product(product, [png(3)], confirm=True)["good_parts"] == 3
        client.inspect(product, [png(4)])
        assert [row["name"] for row in client.history()] == ["4.png", "2.png"]
    assert_consistent(url, tmp_path / "store", swept=False)


def test_addresses_that_cannot_be_used(tmp_path: Path, server: Postgres) -> None:
    with raises(UsageError, "database-kind"):
        Database(tmp_path, "mysql://root@localhost/x")
    with raises(HyperfsadError, "database-unusable"):
        Database(tmp_path, server.url.replace("/postgres?", "/nothing?")).migrate()


def assert_consistent(url: str, store: Path, *, swept: bool = True) -> None:
    """The files are those that the database names."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with contextlib.closing(engine.connect()) as connection:
        images = set(connection.scalars(text("SELECT sha256 FROM images WHERE kept")))
        named = text("SELECT detector FROM products WHERE detector IS NOT NULL")
        detectors = set(connection.scalars(named))
        double = text("SELECT count(*) FROM details d JOIN inspections i ON i.id = d.inspection_id")
        rows = text("SELECT count(*) FROM inspections")
        assert connection.scalar(double) == connection.scalar(rows)
    engine.dispose()
    found = {path.stem: path for path in (store / "images").rglob("*.*")}
    assert images <= set(found)
    for sha256 in images:
        assert hashlib.sha256(found[sha256].read_bytes()).hexdigest() == sha256
    assert detectors <= {path.stem for path in (store / "detectors").iterdir()}
    if swept:  # after a kill, what the dead station has left waits for its time
        assert set(found) == images
        assert list((store / "incoming").iterdir()) == []
