"""A small client of the station's API (docs/station.md); it needs no package but this one."""

import json
import os
import ssl
import uuid
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from ..errors import HyperfsadError, UsageError

Json: TypeAlias = dict[str, Any]
Source: TypeAlias = str | os.PathLike[str] | tuple[str, bytes]
"""A file, or a name and its content."""


class StationError(HyperfsadError):
    """What the station refused: its sentence, the status, and when to try again."""

    def __init__(self, text: str, status: int, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status, self.retry_after = status, retry_after


class StationClient:
    """One station; each call is one request, so several threads may share it."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        timeout: float = 600.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise UsageError(f"A station's address is as http://127.0.0.1:8000, not {url}.")
        self._parts, self._timeout, self._tls = parts, timeout, tls
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def products(self) -> list[Json]:
        return list(self._json("GET", "products"))

    def product(self, product: str) -> Json:
        return self._object("GET", f"products/{product}")

    def create_product(self, name: str, images: Sequence[Source], **fields: Any) -> Json:
        return self._object("POST", "products", {"name": name, **fields}, images)

    def upload_product(self, name: str, detector: Source) -> Json:
        return self._object("POST", "products/upload", {"name": name}, [detector], "detector")

    def download_product(self, product: str) -> bytes:
        return self._bytes("GET", f"products/{product}/detector")

    def extend_product(self, product: str, images: Sequence[Source]) -> Json:
        return self._object("POST", f"products/{product}/images", {}, images)

    def calibrate_product(self, product: str, images: Sequence[Source] = (), **more: Any) -> Json:
        return self._object("POST", f"products/{product}/calibration", more, images)

    def rename_product(self, product: str, name: str) -> Json:
        return self._object("PATCH", f"products/{product}", {"name": name})

    def delete_product(self, product: str) -> None:
        self._bytes("DELETE", f"products/{product}")

    def evaluate_product(self, product: str) -> Json:
        return self._object("POST", f"products/{product}/evaluation")

    def inspect(self, product: str, images: Sequence[Source]) -> Json:
        return self._object("POST", f"products/{product}/inspections", {}, images)

    def inspection(self, inspection: str) -> Json:
        return self._object("GET", f"inspections/{inspection}")

    def picture(self, inspection: str, kind: str = "overlay", **place: float) -> bytes:
        """`kind` is overlay, heatmap, original, thumbnail or evidence.jpg (at x, y)."""
        return self._bytes("GET", f"inspections/{inspection}/{quote(kind)}?{urlencode(place)}")

    def evidence(self, inspection: str, **place: float) -> Json:
        return self._object("GET", f"inspections/{inspection}/evidence?{urlencode(place)}")

    def label(self, inspection: str, kind: str, **more: Any) -> Json:
        return self._object("PUT", f"inspections/{inspection}/label", {"kind": kind, **more})

    def undo(self, inspection: str) -> Json:
        return self._object("DELETE", f"inspections/{inspection}/label")

    def page(self, cursor: str | None = None, **wanted: Any) -> Json:
        query = wanted if cursor is None else {**wanted, "cursor": cursor}
        return self._object("GET", f"inspections?{urlencode(query)}")

    def history(self, **wanted: Any) -> Iterator[Json]:
        """All inspections, the latest first; `wanted` as the API's parameters."""
        page: Json = {"next": None}
        while page := self.page(page["next"], **wanted):
            yield from page["inspections"]
            if page["next"] is None:
                return

    def export(self, **wanted: Any) -> str:
        return self._bytes("GET", f"exports/inspections.csv?{urlencode(wanted)}").decode()

    def audit(self) -> list[Json]:
        return list(self._object("GET", "audit")["entries"])

    def ready(self) -> bool:
        try:
            return bool(self._object("GET", "ready")["ready"])
        except StationError:
            return False

    def _object(self, method: str, path: str, *sent: Any) -> Json:
        return dict(self._json(method, path, *sent))

    def _json(self, method: str, path: str, *sent: Any) -> Any:
        return json.loads(self._bytes(method, path, *sent))

    def _bytes(
        self,
        method: str,
        path: str,
        fields: Json | None = None,
        files: Sequence[Source] | None = None,
        name: str = "images",
    ) -> bytes:
        """Fields go as JSON, or as a form where there may be files."""
        headers, body = dict(self._headers), None if fields is None else json.dumps(fields).encode()
        headers["Content-Type"] = "application/json"
        if files is not None:
            mark = uuid.uuid4().hex
            body = b"".join(_form(fields or {}, files, name, mark))
            headers["Content-Type"] = f"multipart/form-data; boundary={mark}"
        host, port, seconds = self._parts.hostname or "", self._parts.port, self._timeout
        line = HTTPConnection(host, port, timeout=seconds)
        if self._parts.scheme == "https":
            line = HTTPSConnection(host, port, timeout=seconds, context=self._tls)
        try:
            line.request(method, f"/api/v1/{path}", body, headers)
            answer = line.getresponse()
            found = answer.read()
        except (OSError, HTTPException) as error:
            raise StationError(f"The station does not answer: {error!r}.", 0) from error
        finally:
            line.close()
        if answer.status >= 400:
            after = answer.headers.get("retry-after")
            raise StationError(_detail(found), answer.status, int(after) if after else None)
        return found


def _form(fields: Json, files: Sequence[Source], name: str, mark: str) -> Iterator[bytes]:
    start = f'--{mark}\r\nContent-Disposition: form-data; name="'
    for key, value in fields.items():
        yield f'{start}{key}"\r\n\r\n{value}\r\n'.encode()
    for file in files:
        own = file if isinstance(file, tuple) else (Path(file).name, Path(file).read_bytes())
        safe = own[0].replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        yield f'{start}{name}"; filename="{safe}"\r\n\r\n'.encode() + own[1] + b"\r\n"
    yield f"--{mark}--\r\n".encode()


def _detail(content: bytes) -> str:
    try:
        return str(json.loads(content)["detail"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace")[:200]
