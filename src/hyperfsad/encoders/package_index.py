"""One file from a package index: downloaded and compared with its sha256, never installed.

Every index speaks PEP 503 (HTML), over http or as folders. The index is not trusted: what it
delivers is used only if it has the sha256 that we know.
"""

import contextlib
import hashlib
import http.client
import netrc
import os
import re
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from ..errors import UnreachableError, reason
from .package_settings import PackageSettings, package_settings

PIECE = 1 << 20
"""Bytes of a file that are read at a time."""
PAGE_LIMIT = 64 << 20
"""Bytes of a page; that of a project with many thousand files has some ten million."""
ATTEMPTS = 3
"""To transfer a file that an index has; long transfers break off."""
ACCEPT = "application/vnd.pypi.simple.v1+html, text/html;q=0.1, */*;q=0.01"


@dataclass(frozen=True)
class Wanted:
    """A file of a project: a wheel of any platform, known by its content."""

    project: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Link:
    """A file that a page offers."""

    name: str
    address: str
    sha256: str | None

    def may_be(self, wanted: Wanted) -> bool:
        """Whether it can be that file; one without a hash goes by its name."""
        if self.sha256 is not None:
            return self.sha256.lower() == wanted.sha256
        parts = self.name.removesuffix(".whl").split("-")
        fits = len(parts) > 2 and normalised(parts[0]) == normalised(wanted.project)
        return fits and self.name.endswith(".whl") and parts[1] == wanted.version


class _RefusedError(Exception):
    """A place that does not have the file, or does not deliver it; says why."""


class _BrokenError(_RefusedError):
    """A transfer that ended too early; another may succeed."""


def download(wanted: Wanted, folder: Path, settings: PackageSettings | None = None) -> Path:
    """The file in `folder`, with the known content; or raises UnreachableError with all reasons."""
    settings = settings or package_settings()
    client = _Client(settings)
    reasons = []
    for place, page in _places(wanted, settings):
        try:
            return _from_page(client, wanted, page, folder)
        except _RefusedError as refused:
            reasons.append(f"{without_user(place)}: {refused}")
    text = "; ".join(reasons) or "pip or uv is told to ask no index"
    raise UnreachableError("source-unreachable", reason=text)


def normalised(project: str) -> str:
    """The name of a project as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def without_user(address: str) -> str:
    """An address as it may be shown: without a user and a password."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _places(wanted: Wanted, settings: PackageSettings) -> Iterator[tuple[str, str]]:
    """Each place, with the address of its page: a folder has it in a file."""
    for place in settings.links:
        yield place, _as_address(place)
    for index in settings.indexes:
        address = f"{_as_address(index).rstrip('/')}/{normalised(wanted.project)}/"
        yield index, f"{address}index.html" if _is_file(address) else address


def _as_address(place: str) -> str:
    """The address of a place; a path is one too. A drive letter of Windows is no scheme."""
    if len(urlsplit(place).scheme) > 1:
        return place
    return Path(os.path.abspath(os.path.expanduser(place))).as_uri()


def _is_file(address: str) -> bool:
    return address.lower().startswith("file:")


def _from_page(client: "_Client", wanted: Wanted, page: str, folder: Path) -> Path:
    links = _links(client, page)
    offered = [link for link in links if link.may_be(wanted)]
    if not offered:
        known = any(link.name.split("-")[1:2] == [wanted.version] for link in links)
        raise _RefusedError(
            f"it has {wanted.version} with another content" if known else f"no {wanted.version}"
        )
    refused = _RefusedError()
    for link in offered:
        try:
            return _transfer_again(client, link, wanted, folder)
        except _RefusedError as other:
            refused = other
    raise refused


def _links(client: "_Client", address: str) -> list[Link]:
    """The files that a page or a folder offers."""
    if _is_file(address):
        folder = Path(urllib.request.url2pathname(urlsplit(address).path))
        if folder.is_dir():
            files = sorted(folder.glob("*.whl"))
            return [Link(file.name, file.absolute().as_uri(), None) for file in files]
    with client.open(address) as answer:
        try:
            content, final = answer.read(PAGE_LIMIT), answer.url
        except (OSError, http.client.HTTPException) as error:
            raise _RefusedError(_why(error)) from error
    parser = _Anchors(final)
    parser.feed(content.decode("utf-8", errors="replace"))
    # a page of another machine names no files of this one
    return [link for link in parser.links if _is_file(final) or link.address.startswith("http")]


def _why(error: Exception) -> str:
    """The reason that urllib wraps."""
    cause = getattr(error, "reason", None)
    return reason(cause if isinstance(cause, Exception) else error)


class _Anchors(HTMLParser):
    """The links of a page; those of an index have the hash as the fragment."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._page = page
        self.links: list[Link] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href")
        if target and tag == "base":
            self._page = urljoin(self._page, target)
        if target and tag == "a":
            address, fragment = urldefrag(urljoin(self._page, target))
            kind, _, digest = fragment.partition("=")
            name = unquote(urlsplit(address).path.rpartition("/")[2])
            self.links.append(Link(name, address, digest if kind == "sha256" else None))


def _transfer_again(client: "_Client", link: Link, wanted: Wanted, folder: Path) -> Path:
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(_BrokenError):
            return _transfer(client, link, wanted, folder)
    return _transfer(client, link, wanted, folder)


def _transfer(client: "_Client", link: Link, wanted: Wanted, folder: Path) -> Path:
    """The file, written while its hash is computed; what is wrong is removed."""
    from tqdm import tqdm

    target = folder / f"{normalised(wanted.project)}-{wanted.version}.whl"
    digest = hashlib.sha256()
    with client.open(link.address) as answer:
        size = int(answer.headers.get("Content-Length") or 0)
        shape: dict[str, Any] = {"total": size or None, "unit": "B", "unit_scale": True}
        with target.open("wb") as file, tqdm(**shape, desc=link.name[:40], disable=None) as bar:
            written = 0
            for block in _blocks(answer):
                digest.update(block)
                written += file.write(block)
                bar.update(len(block))
    if digest.hexdigest() == wanted.sha256:
        return target
    target.unlink()
    if written < size:
        raise _BrokenError(f"{written:,} of {size:,} bytes came")
    raise _RefusedError(f"the sha256 of {link.name} is {digest.hexdigest():.16}…, another file")


def _blocks(answer: Any) -> Iterator[bytes]:
    """What a transfer delivers; failing to write it is not the index's failure."""
    while True:
        try:
            block = answer.read(PIECE)
        except (OSError, http.client.HTTPException) as error:
            raise _BrokenError(_why(error)) from error
        if not block:
            return
        yield block


class _Client:
    """Opens addresses as pip would: its proxy, its certificates, the user of an address."""

    def __init__(self, settings: PackageSettings) -> None:
        proxies = {"http": settings.proxy, "https": settings.proxy} if settings.proxy else None
        self._users = urllib.request.HTTPPasswordMgrWithPriorAuth()
        self._netrc = _netrc()
        self._timeout = settings.timeout
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler(proxies),
            _Https(settings),
            urllib.request.HTTPBasicAuthHandler(self._users),
        )
        for index in (*settings.indexes, *settings.links):
            self._learn(index)

    def open(self, address: str) -> Any:
        """The answer, read from as from a file."""
        self._learn(address)
        try:
            request = urllib.request.Request(without_user(address), headers={"Accept": ACCEPT})
            return self._opener.open(request, timeout=self._timeout)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _RefusedError(_why(error)) from error

    def _learn(self, address: str) -> None:
        """Notes the user that an address names, or else .netrc; no other host is told."""
        parts = urlsplit(address)
        user, at, host = parts.netloc.rpartition("@")
        home = f"{parts.scheme}://{host}/"
        name, _, password = map(unquote, user.partition(":"))
        if not at and self._users.find_user_password(None, home)[0] is None:
            found = self._netrc.authenticators(parts.hostname or "") if self._netrc else None
            name, password = (found[0], found[2] or "") if found else ("", "")
        if name or password:
            self._users.add_password(None, home, name, password, is_authenticated=True)


def _netrc() -> netrc.netrc | None:
    """The users of hosts that the user's own file names."""
    for name in filter(None, [os.environ.get("NETRC"), "~/.netrc", "~/_netrc"]):
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            return netrc.netrc(os.path.expanduser(name))
    return None


class _Https(urllib.request.HTTPSHandler):
    """Checks certificates, but for the hosts that pip or uv is told to trust."""

    def __init__(self, settings: PackageSettings) -> None:
        super().__init__()
        self._trusted = settings.trusted
        self._checked = _checked(settings.certificates)
        self._unchecked = ssl._create_unverified_context()

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        """The connection that the host deserves."""
        trusted = {request.host, request.host.rpartition(":")[0]} & self._trusted
        context = self._unchecked if trusted else self._checked
        return self.do_open(http.client.HTTPSConnection, request, context=context)


def _checked(certificates: str | None) -> ssl.SSLContext:
    if certificates and os.path.isdir(certificates):
        return ssl.create_default_context(capath=certificates)
    context = ssl.create_default_context(cafile=certificates)
    if certificates is None and sys.platform == "darwin":
        # Python of python.org finds no authorities on macOS
        with contextlib.suppress(ImportError):
            import certifi

            context.load_verify_locations(certifi.where())
    return context
