"""OPC UA with a real client."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hyperfsad.connect import OpcUa
from hyperfsad.connect.sinks.serving import Latest
from hyperfsad.errors import HyperfsadWarning, UsageError
from tests.codes import raises
from tests.connect.certificates import certified
from tests.connect.machines import (
    Plant,
    call,
    free_port,
    records_after,
    variables,
    with_opcua,
)


def test_state_counters_and_records_by_number(tmp_path: Path) -> None:
    port = free_port()
    plant = Plant(tmp_path / "plant", OpcUa(port=port)).start()
    for anomalous in (False, True, None):
        plant.judge(anomalous)

    async def look(client: Any, line: Any) -> Any:
        return (
            await variables(client, line),
            await records_after(line, 0),
            await records_after(line, 1, 1),
            await records_after(line, 3),
        )

    found, everything, one, nothing = with_opcua(port, look)
    assert (found["State"], found["Verdict"], found["Reason"]) == ("result", "none", "unjudged")
    assert (found["Number"], found["Newest"], found["Origin"]) == (3, 3, plant.outbox.origin)
    assert (found["Good"], found["Anomalous"], found["None"]) == (1, 1, 1)
    assert [record["number"] for record in everything] == [1, 2, 3]
    assert [record["verdict"] for record in everything] == ["good", "anomalous", "none"]
    assert [record["number"] for record in one] == [2]
    assert nothing == []
    plant.close()


def test_a_part_by_methods_and_a_subscription(tmp_path: Path) -> None:
    port = free_port()
    plant = Plant(tmp_path / "plant", OpcUa(port=port)).start()
    seen: list[str] = []

    class Handler:
        def datachange_notification(self, _: Any, value: Any, __: Any) -> None:
            seen.append(value)

    async def work(client: Any, line: Any) -> None:
        space = (await line.read_browse_name()).NamespaceIndex
        subscription = await client.create_subscription(20, Handler())
        await subscription.subscribe_data_change(await line.get_child(f"{space}:Verdict"))
        assert await call(line, "Trigger") == 1
        assert await call(line, "Trigger") == 0  # one part at a time
        plant.judge(True)
        while (await variables(client, line))["Verdict"] != "anomalous":
            await asyncio.sleep(0.01)
        assert await call(line, "Acknowledge", 9) is False
        assert await call(line, "Acknowledge", 1) is True
        while seen[-2:] != ["anomalous", "none"]:
            await asyncio.sleep(0.01)
        beat = (await variables(client, line))["Heartbeat"]
        while (await variables(client, line))["Heartbeat"] == beat:
            await asyncio.sleep(0.05)

    with_opcua(port, work)
    plant.close()


def test_the_latest_records_are_held() -> None:
    latest = Latest(3)
    assert (latest.oldest, latest.after(0, 9)) == (0, [])
    for number in range(1, 6):
        latest.add({"number": number})
    assert latest.oldest == 3
    assert [one["number"] for one in latest.after(0, 2)] == [3, 4]
    assert [one["number"] for one in latest.after(4, 9)] == [5]
    assert latest.get(2) is None
    assert latest.get(5) == {"number": 5}


def test_what_is_sent_before_the_server_runs_is_there_later(tmp_path: Path) -> None:
    port = free_port()
    sink = OpcUa(port=port)
    assert sink.send({"number": 1, "verdict": "good", "reason": ""}, 1).taken
    plant = Plant(tmp_path / "plant", sink).start()

    async def look(_: Any, line: Any) -> Any:
        return [record["number"] for record in await records_after(line, 0)]

    assert with_opcua(port, look) == [1]
    plant.close()


def test_nobody_can_write(tmp_path: Path) -> None:
    port = free_port()
    plant = Plant(tmp_path / "plant", OpcUa(port=port)).start()

    async def write(_: Any, line: Any) -> None:
        for node in await line.get_variables():
            with pytest.raises(Exception, match=r"(?i)bad"):
                await node.write_value("good")

    with_opcua(port, write)
    plant.close()


def test_a_client_that_was_away_catches_up_after_a_restart(tmp_path: Path) -> None:
    port = free_port()

    async def look(_: Any, line: Any) -> Any:
        return [record["number"] for record in await records_after(line, 0)]

    for first in (1, 4):
        plant = Plant(tmp_path / "plant", OpcUa(port=port)).start()
        found = [plant.judge() for _ in range(3)]
        assert found == [first, first + 1, first + 2]
        assert with_opcua(port, look) == [*range(1, first + 3)]
        plant.close()


def test_only_who_encrypts_and_knows_a_password_is_let_in(tmp_path: Path) -> None:
    _, certificate, key = certified(tmp_path)
    _, own, own_key = certified(tmp_path, "client")
    users = tmp_path / "users"
    users.write_text("plc: s3cret-word\n")
    users.chmod(0o600)
    port = free_port()
    options: dict[str, Any] = {"private_key": key, "users_file": users}
    plant = Plant(tmp_path / "plant", OpcUa(port=port, certificate=certificate, **options)).start()
    plant.judge()
    own_key = own_key.rename(tmp_path / "client-key.pem")  # the client goes by the suffix
    security = f"Basic256Sha256,SignAndEncrypt,{own},{own_key},{certificate}"

    async def look(_: Any, line: Any) -> Any:
        return await records_after(line, 0)

    login = {"user": "plc", "password": "s3cret-word"}
    assert len(with_opcua(port, look, security=security, **login)) == 1
    for wrong in (
        {},
        {"security": security},
        {"security": security, "user": "plc", "password": "guessed-word"},
        login,
    ):
        with pytest.raises(Exception):  # noqa: B017, PT011 (each step of the library has its own)
            with_opcua(port, look, **wrong)
    plant.close()


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("opcua-open", {"host": "0.0.0.0"}),
        ("connect-pair", {"certificate": Path("x")}),
        ("connect-pair", {"certificate": Path("x"), "private_key": Path("x")}),
        ("opcua-users", {"users": "plc: short\n"}),
        ("opcua-users", {"users": "plc\n"}),
        ("opcua-users", {"users": "\n"}),
    ],
)
def test_settings_that_cannot_be_used(code: str, options: dict[str, Any], tmp_path: Path) -> None:
    if "users" in options:
        _, certificate, key = certified(tmp_path)
        users = tmp_path / "users"
        users.write_text(options["users"])
        users.chmod(0o600)
        options = {"certificate": certificate, "private_key": key, "users_file": users}
    with raises(UsageError, code):
        OpcUa(**options)


def test_a_key_that_others_can_read_is_told(tmp_path: Path) -> None:
    _, certificate, key = certified(tmp_path)
    users = tmp_path / "users"
    users.write_text("plc: s3cret-word\n")
    users.chmod(0o600)
    key.chmod(0o644)
    with pytest.warns(HyperfsadWarning) as caught:
        OpcUa(certificate=certificate, private_key=key, users_file=users)
    assert [(one.message.args[0].code, one.message.args[0].facts) for one in caught] == [  # type: ignore[union-attr]
        ("secret-file-open", {"file": key})
    ]
