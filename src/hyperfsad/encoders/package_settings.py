"""Where pip and uv get packages from on this machine: what their variables and files say.

Neither has to be installed; an environment that uv made has no pip. Files of the working folder
are not read. https://pip.pypa.io/en/stable/topics/configuration and
https://docs.astral.sh/uv/concepts/configuration-files say which come first.
"""

import configparser
import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import platformdirs

PYPI = "https://pypi.org/simple"
PATIENCE = 15.0
"""Seconds that an index may be silent, unless pip's `timeout` says otherwise."""


@dataclass(frozen=True)
class PackageSettings:
    """Where packages come from, in the order in which they are asked for."""

    indexes: tuple[str, ...]
    """Addresses of simple indexes; they may name a user and a password."""
    links: tuple[str, ...] = ()
    """Folders, or pages with links to files (`find-links`)."""
    certificates: str | None = None
    """A file of authorities, or a folder of them; None: those of the system."""
    proxy: str | None = None
    """None: as the system's variables say."""
    trusted: frozenset[str] = frozenset()
    """Hosts, with or without a port, whose certificates need not be valid."""
    timeout: float = PATIENCE


def package_settings() -> PackageSettings:
    """What pip and uv are configured with, pip's first; PyPI if neither names a main index."""
    pip, uv = _pip(), _uv()
    main = [one for each in (pip, uv) for one in each.main]
    more = [one for each in (pip, uv) for one in each.more]
    closed = pip.closed or uv.closed
    indexes = [*(main or ([] if closed else [PYPI])), *more]
    options = _pip_options()
    bundle = options.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE")
    return PackageSettings(
        tuple(dict.fromkeys(indexes)),
        tuple(dict.fromkeys((*pip.links, *uv.links))),
        bundle if bundle and os.path.exists(bundle) else None,
        options.get("proxy") or None,
        frozenset((*options.get("trusted-host", "").split(), *uv.trusted)),
        _seconds(options.get("timeout") or options.get("default-timeout")),
    )


@dataclass
class _Found:
    """What one of the two says."""

    main: list[str]
    more: list[str]
    links: list[str]
    closed: bool
    """Whether it may ask no index."""
    trusted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.closed:
            self.main, self.more = [], []


def _pip() -> _Found:
    options = _pip_options()
    return _Found(
        options.get("index-url", "").split(),
        options.get("extra-index-url", "").split(),
        options.get("find-links", "").split(),
        _is_true(options.get("no-index", "")),
    )


def _pip_options() -> dict[str, str]:
    """What `pip download` would take; a variable comes before all files."""
    found: dict[str, dict[str, str]] = {"global": {}, "download": {}}
    for path in pip_files():
        parser = configparser.RawConfigParser()
        with contextlib.suppress(configparser.Error, UnicodeDecodeError, OSError):
            parser.read(path, encoding="utf-8")
        for section, options in found.items():
            if parser.has_section(section):
                options.update({_option(key): text for key, text in parser.items(section) if text})
    prefix = "PIP_"
    given = {
        _option(name.removeprefix(prefix)): text
        for name, text in os.environ.items()
        if name.startswith(prefix) and text
    }
    return {**found["global"], **found["download"], **given}


def _option(key: str) -> str:
    return key.lower().replace("_", "-").removeprefix("--")


def pip_files() -> Iterator[Path]:
    """Pip's files on this system, the strongest last; PIP_CONFIG_FILE may switch them off."""
    chosen = os.environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return
    windows = sys.platform == "win32"
    name, home = "pip.ini" if windows else "pip.conf", Path.home()
    yield from (folder / name for folder in _system_folders("pip"))
    if not windows and sys.platform != "darwin":
        yield Path("/etc", name)
    if not chosen or not os.path.exists(chosen):
        yield home / ("pip" if windows else ".pip") / name
        own = platformdirs.user_config_path("pip", appauthor=False, roaming=True)
        # on macOS, pip takes the folder of Linux where that of macOS is not there
        yield (own if own.is_dir() or sys.platform != "darwin" else home / ".config/pip") / name
    yield Path(sys.prefix, name)
    if chosen:
        yield Path(chosen)


def _system_folders(program: str) -> list[Path]:
    """Where a program's settings for all users lie, the strongest last."""
    found = platformdirs.site_config_dir(program, appauthor=False, multipath=True)
    return [Path(folder) for folder in reversed(found.split(os.pathsep))]


def _uv() -> _Found:
    tables = _uv_tables()
    named = [one for table in tables for one in _list(table, "index") if isinstance(one, dict)]
    named = [one for one in named if isinstance(one.get("url"), str)]
    default = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")
    main = [_named(default)] if default else [_address(one) for one in named if one.get("default")]
    more = [_named(one) for one in os.environ.get("UV_INDEX", "").split()]
    more += os.environ.get("UV_EXTRA_INDEX_URL", "").split()
    more += [_address(one) for one in named if not one.get("default")]
    links = [one for one in os.environ.get("UV_FIND_LINKS", "").split(",") if one]
    trusted = os.environ.get("UV_INSECURE_HOST", "").split()
    closed = _is_true(os.environ.get("UV_NO_INDEX", ""))
    for table in tables:
        address = table.get("index-url")
        main += [address] if isinstance(address, str) and not main else []
        more += _texts(table, "extra-index-url")
        links += _texts(table, "find-links")
        trusted += _texts(table, "allow-insecure-host")
        closed |= table.get("no-index") is True
    return _Found(main[:1], more, links, closed, tuple(trusted))


def _uv_tables() -> list[dict[str, Any]]:
    """The tables of uv's files, and of `[pip]` in each, the strongest first."""
    if _is_true(os.environ.get("UV_NO_CONFIG", "")):
        return []
    found: list[dict[str, Any]] = []
    for path in uv_files():
        table = _toml(path)
        pip = table.get("pip")
        found += [pip, table] if isinstance(pip, dict) else [table]
    return found


def uv_files() -> list[Path]:
    """Uv's files on this system, the strongest first."""
    if chosen := os.environ.get("UV_CONFIG_FILE"):
        return [Path(chosen)]
    if sys.platform == "darwin":  # uv takes the folders of Linux there
        own = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "uv")
        return [own / "uv.toml", Path("/etc/uv/uv.toml")]
    own = platformdirs.user_config_path("uv", appauthor=False, roaming=True)
    system = [*reversed(_system_folders("uv"))]
    if sys.platform != "win32":
        system.append(Path("/etc/uv"))
    return [folder / "uv.toml" for folder in (own, *system)]


def _toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _list(table: Mapping[str, Any], key: str) -> list[Any]:
    found = table.get(key)
    return found if isinstance(found, list) else []


def _texts(table: Mapping[str, Any], key: str) -> list[str]:
    return [one for one in _list(table, key) if isinstance(one, str)]


def _named(text: str) -> str:
    """An index of a variable, `address` or `name=address`."""
    found = re.fullmatch(r"([A-Za-z0-9._-]+)=(.+)", text)
    return _address({"name": found[1], "url": found[2]}) if found else text


def _address(index: Mapping[str, Any]) -> str:
    """The address of an index; the variables UV_INDEX_NAME_USERNAME and _PASSWORD go with it."""
    url, name = str(index["url"]), str(index.get("name", ""))
    prefix = "UV_INDEX_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
    user, password = (os.environ.get(f"{prefix}_{one}", "") for one in ("USERNAME", "PASSWORD"))
    parts = urlsplit(url)
    if not name or not (user or password) or "@" in parts.netloc:
        return url
    place = f"{quote(user, safe='')}:{quote(password, safe='')}@{parts.netloc}"
    return urlunsplit(parts._replace(netloc=place))


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "on", "y", "t")


def _seconds(text: str | None) -> float:
    with contextlib.suppress(ValueError):
        return float(text or PATIENCE)
    return PATIENCE
