"""An OPC UA server: what the line may act upon as variables, and the latest records by number."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hmac import compare_digest
from pathlib import Path
from typing import Any

from ...disk.secret_files import check_secret, read_secret
from ...errors import UsageError
from ...report.records import Record
from ..state import Line, Live
from . import Answer, shown
from .serving import HELD, Latest, ServerThread, check_open, is_loopback, shown_address

NAMESPACE = "urn:hyperfsad:line"
MOST_AT_ONCE = 100


class OpcUa:
    """The server, and what it has of the records."""

    name, replays = "opcua", HELD
    timeout, pause, longest_pause = 10.0, 1.0, 1.0

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 4840,
        *,
        certificate: Path | None = None,
        private_key: Path | None = None,
        users_file: Path | None = None,
    ) -> None:
        """`users_file` has rows as `name: password`. Beyond this machine, only clients that sign,
        encrypt and know a password are let in."""
        if (certificate is None) != (private_key is None):
            raise UsageError("connect-pair", first="certificate", second="private_key")
        if (users_file is None) != (certificate is None):
            raise UsageError("connect-pair", first="users_file", second="certificate")
        self._host, self._port = host, port
        self.address = shown_address("opc.tcp", host, port)
        if certificate is None and not is_loopback(host):
            raise UsageError("opcua-open", address=self.address)
        self._certificate, self._key = certificate, private_key
        self._users = _users(users_file) if users_file is not None else {}
        for path in filter(None, (certificate, private_key)):
            if not path.is_file():
                raise UsageError("secret-file-unreadable", file=path, reason="no such file")
        if private_key is not None:
            check_secret(private_key)
        self._line, self._origin = Line(), ""
        self._records = Latest()
        self._nodes: dict[str, Any] = {}
        self._changes: asyncio.Queue[Live] = asyncio.Queue()
        """What is to be shown; only the server's own thread touches it."""
        self._thread = ServerThread(self.name, (host, port), self._serving)

    def start(self, line: Line, origin: str) -> None:
        self._line, self._origin = line, origin
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop()

    @property
    def problem(self) -> str | None:
        return self._thread.problem

    def wants(self, record: Record) -> bool:
        return True

    def send(self, record: Record, timeout: float) -> Answer:
        self._records.add(record)
        return Answer(taken=True)

    def show(self, live: Live) -> None:
        self._thread.call(lambda: self._changes.put_nowait(live))

    def test(self) -> None:
        check_open(self._host, self._port, self.timeout, self.address)

    def get_user(
        self, _: Any, username: str | None = None, password: Any = None, certificate: Any = None
    ) -> Any:
        """Whom the library lets in."""
        from asyncua.crypto.permission_rules import User, UserRole

        right = self._users.get(username or "")
        known = right is not None and compare_digest(right.encode(), str(password).encode())
        return User(role=UserRole.User, name=username) if known or not self._users else None

    async def _write(self, server: Any) -> None:
        """Variables change one after the other; `Live` has all of them, of one moment."""
        from asyncua import ua

        while True:
            for name, value in _values(await self._changes.get()).items():
                node, kind = self._nodes[name]
                await server.write_attribute_value(node, ua.DataValue(ua.Variant(value, kind)))

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        from asyncua import Server, ua

        server = Server(user_manager=self)
        await server.init()
        server.set_endpoint(f"{self.address}/hyperfsad")
        server.set_server_name("Hyper-FSAD")
        if self._certificate is None:
            server.set_security_policy([ua.SecurityPolicyType.NoSecurity])
        else:
            await server.load_certificate(*_content(self._certificate))
            key, kind = _content(self._key)
            await server.load_private_key(key, format=kind)
            known = ua.SecurityPolicyType
            both = [known.Basic256Sha256_SignAndEncrypt, known.Aes256Sha256RsaPss_SignAndEncrypt]
            server.set_security_policy(both)
            server.set_identity_tokens([ua.UserNameIdentityToken])
        await self._build(server)
        self._changes = asyncio.Queue()
        self._changes.put_nowait(self._line.live)
        async with server:
            writing = asyncio.create_task(self._write(server))
            try:
                yield
            finally:
                writing.cancel()

    async def _build(self, server: Any) -> None:
        from asyncua import ua

        space = await server.register_namespace(NAMESPACE)
        line = await server.nodes.objects.add_object(space, "Line")
        kinds = {str: ua.VariantType.String, int: ua.VariantType.Int64}
        for name, value in _values(self._line.live).items():
            kind = kinds.get(type(value), ua.VariantType.Double)
            node = await line.add_variable(space, name, value, kind)
            self._nodes[name] = node.nodeid, kind
        await line.add_variable(space, "Origin", self._origin)
        text, number = ua.VariantType.String, ua.VariantType.Int64
        await line.add_method(space, "Records", self._listed, [number, number], [text])
        await line.add_method(space, "Trigger", self._trigger, [], [number])
        await line.add_method(
            space, "Acknowledge", self._acknowledge, [number], [ua.VariantType.Boolean]
        )

    async def _listed(self, _: Any, after: Any, most: Any) -> list[Any]:
        """The records that follow a number, each as JSON."""
        from asyncua import ua

        found = self._records.after(after.Value, min(most.Value, MOST_AT_ONCE))
        rows = [json.dumps(record) for record in found]
        return [ua.Variant(rows, ua.VariantType.String, is_array=True)]

    async def _trigger(self, _: Any) -> list[Any]:
        """The number of the trigger; 0 where none can be taken now."""
        from asyncua import ua

        return [ua.Variant(self._line.trigger() or 0, ua.VariantType.Int64)]

    async def _acknowledge(self, _: Any, number: Any) -> list[Any]:
        from asyncua import ua

        taken = self._line.acknowledge(number.Value)
        return [ua.Variant(taken, ua.VariantType.Boolean)]


def _values(live: Live) -> dict[str, str | int | float]:
    """Each variable by its name; `Live` holds all in one."""
    found = {name.capitalize(): value for name, value in shown(live).items()}
    found["Triggers"] = found.pop("Trigger")  # which is a method
    found["Level"] = float("nan") if live.level is None else live.level
    return {**found, "Heartbeat": live.heartbeat, "Live": json.dumps(shown(live))}


def _content(path: Path | None) -> tuple[bytes, str]:
    """A certificate or a key, whatever its file is called."""
    assert path is not None
    found = path.read_bytes()
    return found, "pem" if found.startswith(b"-----") else "der"


def _users(path: Path) -> dict[str, str]:
    found = {}
    for row in filter(None, map(str.strip, read_secret(path).splitlines())):
        name, mark, password = (part.strip() for part in row.partition(":"))
        if not name or not mark or len(password) < 8:
            raise UsageError("opcua-users", file=path)
        found[name] = password
    if not found:
        raise UsageError("opcua-users", file=path)
    return found
