"""A small client of the station's API; standard library only.

>>> station = StationClient("http://127.0.0.1:8000")
>>> bolt = station.create_product("bolt", ["good/1.png", "good/2.png"])
>>> station.inspect(bolt["id"], ["part.png"])["inspections"][0]["verdict"]
"""

import json
import os
import ssl
import uuid
from collections.abc import Iterator, Mapping, Sequence
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
        *,
        timeout: float = 600.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise UsageError(f"A station's address is as http://127.0.0.1:8000, not {url}.")
        self._parts, self._timeout, self._tls = parts, timeout, tls
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def products(self) -> list[Json]:
        return list(self._json("GET", "/products"))

    def product(self, product: str) -> Json:
        return self._object("GET", f"/products/{product}")

    def create_product(self, name: str, images: Sequence[Source], **fields: Any) -> Json:
        return self._object("POST", "/products", form={"name": name, **fields}, images=images)

    def upload_product(self, name: str, detector: Source) -> Json:
        files = {"form": {"name": name}, "images": [detector], "field": "detector"}
        return self._object("POST", "/products/upload", **files)

    def download_product(self, product: str) -> bytes:
        return self._bytes("GET", f"/products/{product}/detector")

    def extend_product(self, product: str, images: Sequence[Source]) -> Json:
        return self._object("POST", f"/products/{product}/images", form={}, images=images)

    def calibrate_product(self, product: str, images: Sequence[Source] = (), **fields: Any) -> Json:
        path = f"/products/{product}/calibration"
        return self._object("POST", path, form=fields, images=images)

    def rename_product(self, product: str, name: str) -> Json:
        return self._object("PATCH", f"/products/{product}", body={"name": name})

    def delete_product(self, product: str) -> None:
        self._bytes("DELETE", f"/products/{product}")

    def evaluate_product(self, product: str) -> Json:
        return self._object("POST", f"/products/{product}/evaluation")

    def inspect(self, product: str, images: Sequence[Source]) -> Json:
        return self._object("POST", f"/products/{product}/inspections", form={}, images=images)

    def inspection(self, inspection: str) -> Json:
        return self._object("GET", f"/inspections/{inspection}")

    def picture(self, inspection: str, kind: str = "overlay", **place: float) -> bytes:
        """`kind` is overlay, heatmap, original, thumbnail or evidence.jpg (at x, y)."""
        return self._bytes("GET", f"/inspections/{inspection}/{quote(kind)}?{urlencode(place)}")

    def evidence(self, inspection: str, **place: float) -> Json:
        return self._object("GET", f"/inspections/{inspection}/evidence?{urlencode(place)}")

    def label(self, inspection: str, kind: str, **more: Any) -> Json:
        return self._object("PUT", f"/inspections/{inspection}/label", body={"kind": kind, **more})

    def undo(self, inspection: str) -> Json:
        return self._object("DELETE", f"/inspections/{inspection}/label")

    def page(self, cursor: str | None = None, **wanted: Any) -> Json:
        query = wanted if cursor is None else {**wanted, "cursor": cursor}
        return self._object("GET", f"/inspections?{urlencode(query)}")

    def history(self, **wanted: Any) -> Iterator[Json]:
        """All inspections, the latest first; `wanted` as the API's parameters."""
        page = self.page(**wanted)
        yield from page["inspections"]
        while page["next"] is not None:
            page = self.page(page["next"], **wanted)
            yield from page["inspections"]

    def export(self, **wanted: Any) -> str:
        return self._bytes("GET", f"/exports/inspections.csv?{urlencode(wanted)}").decode()

    def audit(self) -> list[Json]:
        return list(self._object("GET", "/audit")["entries"])

    def ready(self) -> bool:
        try:
            return bool(self._object("GET", "/ready")["ready"])
        except StationError:
            return False

    def _object(self, method: str, path: str, **sent: Any) -> Json:
        return dict(self._json(method, path, **sent))

    def _json(self, method: str, path: str, **sent: Any) -> Any:
        return json.loads(self._bytes(method, path, **sent))

    def _bytes(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        form: Mapping[str, Any] | None = None,
        images: Sequence[Source] = (),
        field: str = "images",
    ) -> bytes:
        headers, content = dict(self._headers), b""
        if form is not None:
            boundary = uuid.uuid4().hex
            content = b"".join(_parts(form, images, field, boundary))
            headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
        elif body is not None:
            content, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            line: HTTPConnection = HTTPSConnection(
                host, port, timeout=self._timeout, context=self._tls
            )
        else:
            line = HTTPConnection(host, port, timeout=self._timeout)
        try:
            line.request(method, f"/api/v1{path}", content or None, headers)
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


def _parts(
    form: Mapping[str, Any], images: Sequence[Source], field: str, boundary: str
) -> Iterator[bytes]:
    start = f'--{boundary}\r\nContent-Disposition: form-data; name="'
    for name, value in form.items():
        yield f'{start}{name}"\r\n\r\n{value}\r\n'.encode()
    for image in images:
        file, content = (
            image if isinstance(image, tuple) else (Path(image).name, Path(image).read_bytes())
        )
        safe = file.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        yield f'{start}{field}"; filename="{safe}"\r\n\r\n'.encode() + content + b"\r\n"
    yield f"--{boundary}--\r\n".encode()


def _detail(content: bytes) -> str:
    try:
        return str(json.loads(content)["detail"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace")[:200]
