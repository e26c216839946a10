"""Where results are sent, and how: one HTTP request each, with a clear answer."""

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import UsageError, reason
from ..report.exports import Record
from ..version import __version__

OCCASIONS = ("anomalous", "error", "all")

_OURS = ("content-type", "content-length", "idempotency-key", "transfer-encoding")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x1f\x7f]*)", re.ASCII)


class Webhook:
    """Where results go, and which ones. Headers and paths may hold secrets, so neither is shown."""

    def __init__(
        self,
        url: str,
        on: Iterable[str] = ("anomalous",),
        headers: Iterable[str] = (),
        *,
        timeout: float = 10.0,
        pause: float = 1.0,
    ) -> None:
        """`headers` are texts such as "Authorization: Bearer …". `on` holds any of `OCCASIONS`.

        `timeout` limits each step of a delivery. `pause` is the time before the second try; it
        doubles with each further one, up to a minute.
        """
        self.url, self.place = url, _checked(url)
        self.on = frozenset(on)
        if not self.on or not self.on <= set(OCCASIONS):
            raise UsageError(
                f"The webhook is called on any of {', '.join(OCCASIONS)}, not on"
                f" {', '.join(sorted(self.on.difference(OCCASIONS))) or 'nothing'}."
            )
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

    def send(self, row: bytes, key: str, timeout: float) -> "Answer":
        """Sends one record, once."""
        headers = {
            "User-Agent": f"hyperfsad/{__version__}",
            **self.headers,
            "Content-Type": "application/json",
            "Idempotency-Key": key,
        }
        request = urllib.request.Request(self.url, data=row, headers=headers, method="POST")
        try:
            with self._opener.open(request, timeout=timeout):
                return Answer(taken=True)
        except urllib.error.HTTPError as error:
            error.close()
            return _refusal(error.code)
        except urllib.error.URLError as error:
            cause = error.reason
            return Answer(text=reason(cause) if isinstance(cause, OSError) else str(cause))
        except TimeoutError:
            return Answer(text=f"no answer within {timeout:.3g} seconds")
        except (OSError, http.client.HTTPException) as error:
            return Answer(text=reason(error))


@dataclass(frozen=True)
class Answer:
    """The outcome of one try."""

    taken: bool = False
    final: bool = False
    """Whether another try is useless."""
    text: str = ""


def read_headers(texts: Iterable[str]) -> list[str]:
    """Headers as given, or from a file: "@FILE" holds one on each line, hidden from `ps`."""
    headers = []
    for text in texts:
        if text.startswith("@"):
            try:
                rows = Path(text[1:]).read_text(encoding="utf-8").splitlines()
            except (OSError, ValueError) as error:
                raise UsageError(f"{text[1:]} cannot be read: {reason(error)}.") from error
            headers += [row.strip() for row in rows if row.strip()]
        else:
            headers.append(text)
    return headers


def _checked(url: str) -> str:
    """Refuses what is not a web address; returns the part that may be shown."""
    kind = "A webhook is an address such as https://example.org/parts"
    try:
        address = urlsplit(url)
        host, port = address.hostname, address.port
    except ValueError:
        raise UsageError(f"{kind}.") from None
    if address.scheme not in ("http", "https") or not host:
        raise UsageError(f"{kind}.")
    if address.username is not None or address.password is not None:
        raise UsageError(
            "A webhook's address holds no password; send it as a header"
            ' (--webhook-header "Authorization: …").'
        )
    if not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{kind}; write other characters as %XX.")
    return f"{address.scheme}://{host}" + (f":{port}" if port else "")


def _parsed(header: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(header)
    if found is None or not header.isascii():
        raise UsageError('A header of the webhook is written as "Name: value", in ASCII.')
    if found[1].lower() in _OURS:
        raise UsageError(f"The header {found[1]} of the webhook is set by hyperfsad itself.")
    return found[1], found[2].rstrip()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would lose the result on the way or carry a secret elsewhere."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _refusal(code: int) -> Answer:
    name = http.client.responses.get(code, "")
    text = f"{code} {name}".strip()
    if 300 <= code < 400:
        return Answer(text=f"{text}: redirects are not followed, give the final address")
    return Answer(final=400 <= code < 500 and code not in (408, 429), text=text)
