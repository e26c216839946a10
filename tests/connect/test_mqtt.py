"""MQTT with a real broker."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperfsad.connect import Mqtt
from hyperfsad.errors import UsageError
from tests.codes import codes, raises
from tests.connect.certificates import certified
from tests.connect.machines import MOSQUITTO, Broker, Listener, Plant, free_port
from tests.waiting import until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    found = Broker(tmp_path / "broker").start()
    yield found
    found.stop()


@pytest.fixture
def listener(broker: Broker) -> Iterator[Listener]:
    found = Listener(broker.port)
    yield found
    found.close()


def test_records_state_birth_and_heartbeat(
    broker: Broker, listener: Listener, tmp_path: Path
) -> None:
    plant = Plant(tmp_path / "plant", Mqtt("127.0.0.1", broker.port)).start()
    for anomalous in (False, True, None):
        plant.judge(anomalous)
    until(lambda: len(listener.records) == 3)
    assert listener.numbers == [1, 2, 3]
    assert [one["verdict"] for one in listener.records] == ["good", "anomalous", "none"]
    until(lambda: listener.states and listener.states[-1]["number"] == 3)
    shown = [(one["state"], one["verdict"]) for one in listener.states if one["number"]]
    assert shown == [("result", "good"), ("result", "anomalous"), ("result", "none")]
    assert listener.births[0]["origin"] == plant.outbox.origin
    until(lambda: len(listener.beats) > 1)
    assert listener.beats == sorted(set(listener.beats))
    plant.close()
    until(lambda: listener.states[-1]["state"] == "stopped")
    assert listener.states[-1]["verdict"] == "none"


def test_who_comes_later_sees_what_holds_now(broker: Broker, tmp_path: Path) -> None:
    plant = Plant(tmp_path / "plant", Mqtt("127.0.0.1", broker.port)).start()
    plant.judge(True)
    until(lambda: plant.connections.states()[0].delivered == 1)
    late = Listener(broker.port)
    until(lambda: late.states)
    assert (late.states[0]["verdict"], late.states[0]["number"]) == ("anomalous", 1)
    assert late.records == []
    late.close()
    plant.close()


KILLED = """
import sys, time
from pathlib import Path
from typing import Any
from hyperfsad.connect import Mqtt
from tests.connect.machines import Plant
plant = Plant(Path(sys.argv[1]), Mqtt("127.0.0.1", int(sys.argv[2]))).start()
plant.judge(False)
while plant.connections.states()[0].delivered < 1:
    time.sleep(0.01)
print("told", flush=True)
time.sleep(1000)
"""


def test_the_last_will_takes_the_verdict_away(
    broker: Broker, listener: Listener, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "plant"), str(broker.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"told\n"
        until(lambda: listener.states and listener.states[-1]["verdict"] == "good")
        process.send_signal(signal.SIGKILL)
    until(lambda: listener.states[-1]["state"] == "offline")
    assert listener.states[-1]["verdict"] == "none"


def test_a_broker_that_goes_and_comes_back_misses_nothing(
    broker: Broker, listener: Listener, tmp_path: Path
) -> None:
    sink = Mqtt("127.0.0.1", broker.port)
    sink.pause = 0.05
    plant = Plant(tmp_path / "plant", sink).start()
    plant.judge()
    until(lambda: listener.numbers == [1])
    broker.stop()
    for _ in range(5):
        plant.judge()
    until(lambda: plant.connections.states()[0].problem)
    assert plant.connections.states()[0].waiting >= 5
    broker.start()
    until(lambda: len(set(listener.numbers)) == 6)
    assert list(dict.fromkeys(listener.numbers)) == [1, 2, 3, 4, 5, 6]
    until(lambda: plant.connections.states()[0].problem is None)
    plant.close()


def test_a_broker_that_is_not_there_holds_nobody_up(tmp_path: Path) -> None:
    port = free_port()
    plant = Plant(tmp_path / "plant", Mqtt("127.0.0.1", port))
    plant.start()
    assert [plant.judge() for _ in range(20)] == [*range(1, 21)]
    until(lambda: codes(plant.said) == ["delivery-retries"])
    error = plant.connections.test("mqtt")
    assert error is not None
    assert error.code == "connect-silent"
    plant.close()
    assert codes(plant.said)[-1] == "delivery-left"


def test_what_a_library_throws_stops_neither_the_thread_nor_the_others(
    broker: Broker, listener: Listener, tmp_path: Path
) -> None:
    sink = Mqtt("127.0.0.1", broker.port)
    broken = Mqtt("127.0.0.1", broker.port, "broken")
    broken.name = "broken"
    broken.start = lambda *_: setattr(broken, "_client", object())  # type: ignore[method-assign]
    plant = Plant(tmp_path / "plant", broken, sink).start()
    plant.judge()
    until(lambda: listener.numbers == [1])
    until(lambda: {"delivery-waits", "delivery-retries"} <= set(codes(plant.said)))
    until(lambda: listener.states[-1]["number"] == 1)
    broken._client = None
    plant.close()


def test_commands_are_taken_only_where_they_are_wanted(
    broker: Broker, listener: Listener, tmp_path: Path
) -> None:
    deaf = Plant(tmp_path / "deaf", Mqtt("127.0.0.1", broker.port)).start()
    ears = Mqtt("127.0.0.1", broker.port, "hearing", commands=True)
    plant = Plant(tmp_path / "plant", ears).start()
    talker = Listener(broker.port, "hearing")
    until(lambda: talker.births)
    listener.say("trigger")
    talker.say("trigger")
    until(lambda: plant.line.live.state == "busy")
    plant.judge()
    until(lambda: plant.line.live.state == "result")
    talker.say("acknowledge", "7")
    talker.say("acknowledge", "1")
    until(lambda: plant.line.live.state == "ready")
    assert plant.line.live.reason == "waiting"
    assert deaf.line.live.trigger == 0
    for one in (deaf, plant, talker):
        one.close()


def test_tls_and_passwords(tmp_path: Path) -> None:
    if MOSQUITTO is None:
        pytest.skip("there is no mosquitto on this machine (apt install mosquitto)")
    ca, certificate, key = certified(tmp_path)
    passwords = tmp_path / "passwords"
    command = ["mosquitto_passwd", "-c", "-b", str(passwords), "line", "s3cret-word"]
    subprocess.run(command, check=True)
    more = [f"cafile {ca}", f"certfile {certificate}", f"keyfile {key}"]
    more += [f"password_file {passwords}", "allow_anonymous false"]
    broker = Broker(tmp_path / "broker", *more).start()
    word = tmp_path / "word"
    word.write_text("s3cret-word\n")
    word.chmod(0o600)
    login: dict[str, Any] = {"user": "line", "password_file": word}
    listener = Listener(broker.port, user="line", password="s3cret-word", ca=str(ca))
    plant = Plant(tmp_path / "plant", Mqtt("localhost", broker.port, ca_file=ca, **login)).start()
    plant.judge()
    until(lambda: listener.numbers == [1])
    assert plant.connections.test("mqtt") is None
    plant.close()
    listener.close()
    word.write_text("another\n")
    for sink, code in (
        (Mqtt("localhost", broker.port, ca_file=ca, **login), "connect-login"),
        (Mqtt("localhost", broker.port, tls=True, **login), "connect-tls"),
    ):
        refused = Plant(tmp_path / code, sink)
        error = refused.connections.test("mqtt")
        assert error is not None
        assert error.code == code
        assert "another" not in str(error) + sink.address
    broker.stop()


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("mqtt-topic", {"topic": "a/#"}),
        ("mqtt-topic", {"topic": ""}),
        ("connect-pair", {"user": "x"}),
        ("connect-pair", {"certificate": Path("x")}),
        ("tls-unusable", {"ca_file": Path("nowhere")}),
    ],
)
def test_settings_that_cannot_be_used(code: str, options: dict[str, Any]) -> None:
    with raises(UsageError, code):
        Mqtt(**{"host": "x", **options})
