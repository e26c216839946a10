"""A web address: one HTTP request for each record, with a clear answer."""

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ...disk.files import encoded
from ...disk.secret_files import read_secret
from ...errors import HyperfsadError, UsageError, reason
from ...report.records import Record
from ...version import __version__
from ..state import Line, Live
from . import Answer

WEBHOOK_EVENTS = ("anomalous", "error", "all")

_OWN_HEADERS = ("content-type", "content-length", "idempotency-key", "transfer-encoding")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x1f\x7f]*)", re.ASCII)


class Webhook:
    """Where records go, and which ones. Headers and paths may hold secrets, so neither is shown."""

    name, replays, problem = "webhook", 0, None
    longest_pause = 60.0

    def __init__(
        self,
        url: str,
        on: Iterable[str] = ("anomalous",),
        headers: Iterable[str] = (),
        *,
        timeout: float = 10.0,
        pause: float = 1.0,
    ) -> None:
        """`headers` are texts such as "Authorization: Bearer …"; `on` is any of `WEBHOOK_EVENTS`.

        `timeout` limits each step of a delivery. `pause` is the time before the second try; it
        doubles with each further one, up to a minute.
        """
        self.url, self.address = url, _checked_host(url)
        self.on = frozenset(on)
        if not self.on or not self.on <= set(WEBHOOK_EVENTS):
            unknown = sorted(self.on.difference(WEBHOOK_EVENTS)) or ["nothing"]
            raise UsageError("webhook-events", given=unknown, known=[*WEBHOOK_EVENTS])
        self.headers = dict(map(_parsed, headers))
        self.timeout, self.pause = timeout, pause
        self._opener = urllib.request.build_opener(_NoRedirects)

    def wants(self, record: Record) -> bool:
        """Whether a record is to be sent."""
        return (
            "all" in self.on
            or ("anomalous" in self.on and record.get("anomalous") is True)
            or ("error" in self.on and record.get("error") is not None)
        )

    def start(self, line: Line, origin: str) -> None:
        """Nothing: each record is a request of its own."""

    def stop(self) -> None:
        """Nothing, too."""

    def show(self, live: Live) -> None:
        """Nothing: a request may take seconds, so it is for records only."""

    def test(self) -> None:
        """Asks without sending anything; a receiver may answer that as it likes."""
        answer = self._ask("HEAD", self.timeout)
        if answer.why[:3] in ("401", "403", "407"):
            raise HyperfsadError("connect-login", address=self.address)
        if not answer.taken and not answer.why[:1].isdigit():
            raise HyperfsadError("connect-silent", address=self.address, why=answer.why)

    def send(self, record: Record, timeout: float) -> Answer:
        """Sends one record, once."""
        key = f"{record['origin']}-{record['number']}"
        own = {"Content-Type": "application/json", "Idempotency-Key": key}
        row = encoded(json.dumps(record, ensure_ascii=False))
        return self._ask("POST", timeout, row, own)

    def _ask(
        self, method: str, timeout: float, row: bytes | None = None, own: Mapping[str, str] = {}
    ) -> Answer:
        headers = {"User-Agent": f"hyperfsad/{__version__}", **self.headers, **own}
        request = urllib.request.Request(self.url, data=row, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=timeout):
                return Answer(taken=True)
        except urllib.error.HTTPError as error:
            error.close()
            why = f"{error.code} {http.client.responses.get(error.code, '')}".strip()
            if 300 <= error.code < 400:
                return Answer(why=f"{why}; redirects are not followed")
            final = 400 <= error.code < 500 and error.code not in (408, 429)
            return Answer(final=final, why=why)
        except urllib.error.URLError as error:
            cause = error.reason
            return Answer(why=reason(cause) if isinstance(cause, OSError) else str(cause))
        except TimeoutError:
            return Answer(why=f"no answer within {timeout:.3g} seconds")
        except (OSError, http.client.HTTPException) as error:
            return Answer(why=reason(error))


def read_headers(texts: Iterable[str]) -> list[str]:
    """Headers as given, or from a file: "@FILE" holds one on each line, hidden from `ps`."""
    headers = []
    for text in texts:
        if not text.startswith("@"):
            headers.append(text)
            continue
        headers += [row.strip() for row in read_secret(Path(text[1:])).splitlines() if row.strip()]
    return headers


def _checked_host(url: str) -> str:
    """Refuses what is not a web address; returns the part that may be shown."""
    try:
        address = urlsplit(url)
        host, port = address.hostname, address.port
    except ValueError:
        raise UsageError("webhook-address") from None
    if address.username is not None or address.password is not None:
        raise UsageError("webhook-password")
    printable = url.isascii() and url.isprintable() and " " not in url
    if address.scheme not in ("http", "https") or not host or not printable:
        raise UsageError("webhook-address")
    return f"{address.scheme}://{host}" + (f":{port}" if port else "")


def _parsed(header: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(header)
    if found is None or not header.isascii():
        raise UsageError("webhook-header")
    if found[1].lower() in _OWN_HEADERS:
        raise UsageError("webhook-own-header", name=found[1])
    return found[1], found[2].rstrip()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would lose the result on the way or carry a secret elsewhere."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def refuse_without_threshold(sinks: Iterable[object]) -> None:
    """Refuses a webhook that hears of anomalous images alone, where no image would be one."""
    if any(isinstance(sink, Webhook) and "anomalous" in sink.on for sink in sinks):
        raise UsageError("webhook-no-threshold")
