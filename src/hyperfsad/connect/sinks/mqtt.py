"""An MQTT broker: what the line may act upon is retained, and each record is sent with QoS 1.

The last will replaces what is retained, so a verdict never outlives the station.
"""

import json
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...disk.secret_files import check_secret, read_secret
from ...errors import HyperfsadError, UsageError, reason
from ...report.records import Record
from ...version import __version__
from ..state import Line, Live
from . import Answer, shown
from .serving import shown_address

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessageInfo

KEEPALIVE = 10
"""Seconds; a broker sends the last will after one and a half of them without a sign."""
LONGEST_RECONNECT = 10


class Mqtt:
    """A client of a broker, which connects again by itself."""

    name, replays = "mqtt", 0
    pause, longest_pause = 1.0, 5.0

    def __init__(
        self,
        host: str,
        port: int = 0,
        topic: str = "hyperfsad",
        *,
        client_id: str = "",
        user: str = "",
        password_file: Path | None = None,
        tls: bool = False,
        ca_file: Path | None = None,
        certificate: Path | None = None,
        private_key: Path | None = None,
        commands: bool = False,
        timeout: float = 10.0,
    ) -> None:
        """With `commands`, who may publish to the broker may trigger and acknowledge."""
        if not topic or set(topic) & set("+#\0") or topic.endswith("/"):
            raise UsageError("mqtt-topic", given=topic)
        if (certificate is None) != (private_key is None):
            raise UsageError("connect-pair", first="certificate", second="private_key")
        if bool(user) != (password_file is not None):
            raise UsageError("connect-pair", first="user", second="password_file")
        self._tls = tls or ca_file is not None or certificate is not None
        self._host, self._port = host, port or (8883 if self._tls else 1883)
        self.address = shown_address("mqtts" if self._tls else "mqtt", self._host, self._port)
        self._topic, self._id, self._commands = topic, client_id or f"hyperfsad-{topic}", commands
        self._user, self.timeout = user, timeout
        self._password = read_secret(password_file).strip() if password_file is not None else None
        self._context = self._secured(ca_file, certificate, private_key) if self._tls else None
        self.problem: str | None = None
        self._line, self._birth = Line(), ""
        self._client: Client | None = None
        self._waiting: tuple[int, MQTTMessageInfo] | None = None
        self._last = Live()

    def start(self, line: Line, origin: str) -> None:
        self._line, self.problem = line, "not connected yet"
        birth = {"origin": origin, "version": __version__, "newest": line.live.newest}
        self._birth = json.dumps(birth)
        client = self._client = self._made(self._id)
        will = {**shown(Live()), "state": "offline", "reason": "stopped"}
        client.will_set(f"{self._topic}/state", json.dumps(will), qos=1, retain=True)
        client.reconnect_delay_set(1, LONGEST_RECONNECT)
        client.on_connect, client.on_disconnect = self._connected, self._disconnected
        client.on_connect_fail = lambda *_: self._fail("nothing answers there")
        client.on_message = self._command
        client.connect_async(self._host, self._port, KEEPALIVE)
        client.loop_start()

    def stop(self) -> None:
        if self._client is not None:
            if self._client.is_connected():
                sent = self._client.publish(*self._state(self._line.live), qos=1, retain=True)
                try:
                    sent.wait_for_publish(1.0)
                except (RuntimeError, ValueError):
                    self.problem = "not connected"
            self._client.disconnect()
            self._client.loop_stop()

    def wants(self, record: Record) -> bool:
        return True

    def send(self, record: Record, timeout: float) -> Answer:
        client, number = self._client, int(record["number"])
        if client is None or not client.is_connected():
            return Answer(why=self.problem or "not connected")
        if self._waiting is None or self._waiting[0] != number:  # the client sends it again itself
            text = json.dumps(record)
            self._waiting = number, client.publish(f"{self._topic}/records", text, qos=1)
        sent = self._waiting[1]
        try:
            sent.wait_for_publish(timeout)
        except (RuntimeError, ValueError) as error:
            self._waiting = None
            return Answer(why=reason(error))
        if not sent.is_published():
            return Answer(why=f"no answer within {timeout:.3g} seconds")
        self._waiting = None
        return Answer(taken=True)

    def show(self, live: Live) -> None:
        client, before = self._client, self._last
        self._last = live
        if client is None or not client.is_connected():
            return
        if shown(live) != shown(before):
            client.publish(*self._state(live), qos=1, retain=True)
        if live.heartbeat != before.heartbeat:
            client.publish(f"{self._topic}/heartbeat", str(live.heartbeat))

    def test(self) -> None:
        """Connects under another name, and ends that."""
        client = self._made(f"{self._id}-test")
        answers: list[Any] = []
        client.on_connect = lambda *found: answers.append(found[3])
        try:
            client.connect(self._host, self._port, KEEPALIVE)
            while not answers and client.loop(self.timeout) == 0:
                continue
        except ssl.SSLError as error:
            facts = {"address": self.address, "why": reason(error)}
            raise HyperfsadError("connect-tls", **facts) from error
        except OSError as error:
            facts = {"address": self.address, "why": reason(error)}
            raise HyperfsadError("connect-silent", **facts) from error
        finally:
            client.disconnect()
        if not answers:
            raise HyperfsadError("connect-silent", address=self.address, why="it says nothing")
        if answers[0].is_failure:
            if answers[0].value in (0x86, 0x87):
                raise HyperfsadError("connect-login", address=self.address)
            raise HyperfsadError("connect-silent", address=self.address, why=str(answers[0]))

    def _made(self, name: str) -> "Client":
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        client = Client(CallbackAPIVersion.VERSION2, client_id=name)
        if self._password is not None:
            client.username_pw_set(self._user, self._password)
        if self._context is not None:
            client.tls_set_context(self._context)
        client.connect_timeout = self.timeout
        return client

    def _secured(self, ca: Path | None, certificate: Path | None, key: Path | None) -> Any:
        try:
            context = ssl.create_default_context(cafile=ca)
            if certificate is not None and key is not None:
                check_secret(key)
                context.load_cert_chain(certificate, key)
        except OSError as error:
            raise UsageError("tls-unusable", reason=reason(error)) from error
        return context

    def _state(self, live: Live) -> tuple[str, str]:
        return f"{self._topic}/state", json.dumps(shown(live))

    def _connected(self, client: "Client", _: Any, __: Any, code: Any, ___: Any) -> None:
        if code.is_failure:
            self._fail(str(code))
            return
        self.problem = None
        client.publish(f"{self._topic}/birth", self._birth, qos=1, retain=True)
        client.publish(*self._state(self._line.live), qos=1, retain=True)
        if self._commands:
            client.subscribe([(f"{self._topic}/{name}", 1) for name in ("trigger", "acknowledge")])

    def _disconnected(self, _: Any, __: Any, ___: Any, code: Any, ____: Any) -> None:
        self._fail(str(code))

    def _fail(self, why: str) -> None:
        self.problem = why

    def _command(self, _: Any, __: Any, message: Any) -> None:
        """A trigger needs no content; an acknowledgement is the number of a record, or nothing. A
        retained message is not about a part that is there now."""
        if message.retain:
            return
        if message.topic.endswith("/trigger"):
            self._line.trigger()
        else:
            text = message.payload.decode("utf-8", errors="replace").strip()
            if text.isdecimal() or not text:
                self._line.acknowledge(int(text) if text else None)
