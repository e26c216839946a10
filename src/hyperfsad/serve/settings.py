"""How a station is set up: what the command line says, checked."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import UsageError, reason
from .pictures import Limits
from .store.retention import Keep
from .store.store import RESERVE

INSPECT, ADMIN = "inspect", "admin"
ROLES = (INSPECT, ADMIN)
SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Settings:
    """All that is told before a station starts."""

    store: Path
    host: str = "127.0.0.1"
    port: int = 8000
    token: Path | None = None
    """File of the tokens of both roles."""
    database: str | None = None
    keep: Keep = field(default_factory=Keep)
    originals: bool = True
    max_queue: int = 64
    tls_cert: Path | None = None
    tls_key: Path | None = None
    limits: Limits = field(default_factory=Limits)
    reserve: int = RESERVE
    watch: tuple[tuple[str, Path], ...] = ()
    """Products by name or id, and the folders whose pictures are judged for them."""
    names: tuple[str, ...] = ()
    """Further names under which browsers may ask for it, where there are no tokens."""

    @property
    def secure(self) -> bool:
        """Whether it speaks TLS."""
        return self.tls_cert is not None

    def check(self) -> dict[str, str]:
        """Refuses what would be unsafe; returns the tokens by role."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageError("--tls-cert and --tls-key go together; give both.")
        if not 0 <= self.port < 65536:
            raise UsageError(f"The port is 0 to 65535, not {self.port}.")
        if not 1 <= self.max_queue <= 10_000:
            raise UsageError(f"--max-queue is 1 to 10000, not {self.max_queue}.")
        self._check_folders()
        if self.token is not None:
            return read_tokens(self.token)
        if not is_loopback(self.host):
            raise UsageError(
                f"On {self.host} others can reach the station, so it needs --token FILE, with the"
                " rows `inspect: TOKEN` and `admin: TOKEN`; without it, only this machine may ask."
            )
        return {}

    def _check_folders(self) -> None:
        store = self.store.resolve()
        for product, folder in self.watch:
            found = folder.resolve()
            if store == found or store in found.parents or found in store.parents:
                raise UsageError(
                    f"The folder {folder}, which {product} watches, and the store {self.store} lie"
                    " in each other; choose another one."
                )
            if found.exists() and not found.is_dir():
                raise UsageError(f"{folder} is a file; name the folder to watch.")
        if len(set(self.watch)) < len(self.watch):
            raise UsageError("--watch names a product and a folder twice; leave one out.")


def watched(text: str) -> tuple[str, Path]:
    """Reads what `--watch` says: PRODUCT=FOLDER."""
    product, _, folder = text.partition("=")
    if not product.strip() or not folder.strip():
        raise UsageError(f"--watch is as bolt=/camera/line1, not {text!r}.")
    return product.strip(), Path(folder.strip())


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_tokens(path: Path) -> dict[str, str]:
    """The token of each role, from rows as `admin: TOKEN`."""
    try:
        rows = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The token file {path} cannot be read: {reason(error)}.") from error
    found: dict[str, str] = {}
    for row in filter(None, map(str.strip, rows)):
        role, _, token = (part.strip() for part in row.partition(":"))
        if role not in ROLES or role in found:
            raise UsageError(
                f"The token file {path} has one row `inspect: TOKEN` and one `admin: TOKEN`."
            )
        if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
            raise UsageError(
                f"The token of {role} in {path} needs at least {SHORTEST_TOKEN} plain characters;"
                ' make one with `python -c "import secrets; print(secrets.token_urlsafe())"`.'
            )
        found[role] = token
    if ADMIN not in found:
        raise UsageError(f"The token file {path} has no row `admin: TOKEN`.")
    if len(set(found.values())) < len(found):
        raise UsageError(f"The token file {path} gives two roles the same token.")
    return found
