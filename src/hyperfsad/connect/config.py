"""The file of `--connect`: a table of TOML for each receiver, and one for the line.

What a table may hold are the arguments of the receiver itself, so there is no second list of them.
"""

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..errors import UsageError, first_line, reason
from .sinks import Sink
from .sinks.modbus import Modbus
from .sinks.mqtt import Mqtt
from .sinks.opcua import OpcUa
from .sinks.webhook import Webhook, read_headers
from .state import HOLD


@dataclass(frozen=True)
class LineSettings:
    """How long verdicts are good for, in seconds."""

    deadline: float | None = None
    hold: float = HOLD

    def __post_init__(self) -> None:
        for name in ("deadline", "hold"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 86400:
                raise UsageError("connect-seconds", key=name, given=value)


@dataclass(frozen=True)
class ConnectSettings:
    """What a file asks for."""

    sinks: tuple[Sink, ...] = ()
    line: LineSettings = LineSettings()


def _webhook(
    url: str,
    on: tuple[str, ...] = ("all",),
    headers_file: Path | None = None,
    timeout: float = 10.0,
) -> Webhook:
    headers = [] if headers_file is None else read_headers([f"@{headers_file}"])
    return Webhook(url, on, headers, timeout=timeout)


TABLES: Mapping[str, Callable[..., Any]] = {
    "webhook": _webhook,
    "mqtt": Mqtt,
    "opcua": OpcUa,
    "modbus": Modbus,
    "line": LineSettings,
}
PACKAGES: dict[str, str] = {"mqtt": "paho", "opcua": "asyncua", "modbus": "pymodbus"}


def read_connections(path: Path) -> ConnectSettings:
    """Reads and checks a file; files that it names are beside it unless their path is whole."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = first_line(error) if isinstance(error, ValueError) else reason(error).lower()
        raise UsageError("config-unreadable", path=path, reason=why) from error
    made: dict[str, Any] = {}
    for name, table in tables.items():
        if name not in TABLES or not isinstance(table, dict):
            raise UsageError("connect-table", path=path, given=name, known=[*TABLES])
        if name in PACKAGES and find_spec(PACKAGES[name]) is None:
            raise UsageError("connect-package", package=PACKAGES[name], extra=name)
        made[name] = _made(path, name, table)
    line = made.pop("line", LineSettings())
    if not made:
        raise UsageError("connect-empty", path=path)
    return ConnectSettings(tuple(made.values()), line)


def _made(path: Path, name: str, table: Mapping[str, Any]) -> Any:
    make = TABLES[name]
    known = inspect.signature(make).parameters
    takes: Any = make.__init__ if isinstance(make, type) else make  # type: ignore[misc]
    kinds = get_type_hints(takes)
    for key in table:
        if key not in known:
            facts = {"path": path, "table": name, "key": key, "known": [*known]}
            raise UsageError("connect-key", **facts)
    missing = [key for key, one in known.items() if one.default is one.empty and key not in table]
    if missing:
        raise UsageError("connect-missing", path=path, table=name, key=missing[0])
    values = {}
    for key, value in table.items():
        found = _converted(value, kinds[key], path.parent)
        if found is None:
            facts = {"path": path, "table": name, "key": key, "given": value}
            raise UsageError("connect-value", **facts)
        values[key] = found
    if not 0 <= values.get("port", 0) < 65536:
        raise UsageError("port-range", given=values["port"])
    return make(**values)


def _converted(value: Any, kind: Any, folder: Path) -> Any:
    """A value of TOML as a receiver takes it; None where it is of another kind."""
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(each for each in get_args(kind) if each is not type(None))
    if kind is Path:
        return folder / value if isinstance(value, str) and value else None
    if get_origin(kind) is tuple:
        texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return tuple(value) if texts else None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value if type(value) is kind else None
