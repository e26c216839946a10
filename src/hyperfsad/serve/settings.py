"""How a station is set up: what the command line says, checked."""

from dataclasses import dataclass, field
from pathlib import Path

from ..connect.config import ConnectSettings
from ..connect.sinks.serving import is_loopback
from ..disk.secret_files import read_secret
from ..errors import UsageError
from .pictures import UploadLimits
from .store.retention import Keep
from .store.store import RESERVE

INSPECT, ADMIN = "inspect", "admin"
ROLES = (INSPECT, ADMIN)
SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class StationSettings:
    """All that is chosen before a station starts."""

    store: Path
    host: str = "127.0.0.1"
    port: int = 8000
    token: Path | None = None
    """File of the tokens of both roles."""
    database: str | None = None
    keep: Keep = field(default_factory=Keep)
    max_queue: int = 64
    tls_cert: Path | None = None
    tls_key: Path | None = None
    limits: UploadLimits = field(default_factory=UploadLimits)
    reserve: int = RESERVE
    new_store: bool = False
    """Whether to insist on a database that is not the folder's."""
    trust_clock: bool = False
    """Whether the time is right although the store was last used long ago."""
    watch: tuple[tuple[str, Path], ...] = ()
    """Products by name or id, and the folders whose pictures are inspected for them."""
    connect: ConnectSettings | None = None
    """Which machines hear of the inspections."""

    @property
    def secure(self) -> bool:
        return self.tls_cert is not None

    def check(self) -> dict[str, str]:
        """Refuses what would be unsafe; returns the tokens by role."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageError("tls-incomplete")
        if not 0 <= self.port < 65536:
            raise UsageError("port-range", given=self.port)
        if not 1 <= self.max_queue <= 10_000:
            raise UsageError("max-queue-range", given=self.max_queue)
        store = self.store.resolve()
        for product, folder in self.watch:
            found = folder.resolve()
            if store == found or store in found.parents or found in store.parents:
                facts = {"product": product, "folder": folder, "store": self.store}
                raise UsageError("watch-inside-store", **facts)
            if found.exists() and not found.is_dir():
                raise UsageError("watch-not-a-folder", folder=folder)
        if len(set(self.watch)) < len(self.watch):
            raise UsageError("watch-repeated")
        if self.token is not None:
            return read_tokens(self.token)
        if not is_loopback(self.host):
            raise UsageError("token-required", host=self.host)
        return {}


def parse_watch(text: str) -> tuple[str, Path]:
    product, _, folder = text.partition("=")
    if not product.strip() or not folder.strip():
        raise UsageError("watch-invalid", given=text)
    return product.strip(), Path(folder.strip())


def read_tokens(path: Path) -> dict[str, str]:
    """The token of each role, from rows as `admin: TOKEN`."""
    found: dict[str, str] = {}
    for row in filter(None, map(str.strip, read_secret(path).splitlines())):
        role, _, token = (part.strip() for part in row.partition(":"))
        if role not in ROLES or role in found:
            raise UsageError("token-file-rows", file=path)
        if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
            raise UsageError("token-too-short", role=role, file=path, shortest=SHORTEST_TOKEN)
        found[role] = token
    if ADMIN not in found:
        raise UsageError("token-admin-missing", file=path)
    if len(set(found.values())) < len(found):
        raise UsageError("token-repeated", file=path)
    return found
