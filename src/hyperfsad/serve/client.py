"""A small client of the station's API (docs/station.md); it needs no other package.

Answers are plain dicts with the fields of `records`.
"""

import json
import os
import ssl
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast, overload
from urllib.parse import quote, urlencode, urlsplit

from ..errors import HyperfsadError, UsageError
from .records import (
    AdaptingRecord,
    AuditPageRecord,
    AuditRowRecord,
    ConnectionsRecord,
    ConnectionTestRecord,
    CoverageRecord,
    GoodPartLevelsRecord,
    GoodPartListRecord,
    HistoryPageRecord,
    InspectedRecord,
    InspectionRecord,
    InspectionRowRecord,
    ProductRecord,
    ProposalRecord,
    ReadinessRecord,
    ShiftPlanRecord,
    ShiftReportRecord,
    ShotRecord,
    SourceRecord,
    TrendRecord,
    TrialRecord,
    UserListRecord,
    UserRecord,
    VersionListRecord,
    VersionRecord,
)

Json: TypeAlias = dict[str, Any]
Source: TypeAlias = str | os.PathLike[str] | tuple[str, bytes]  # a file, or name and content
Tls: TypeAlias = ssl.SSLContext | None
T = TypeVar("T")


class StationError(HyperfsadError):
    """What the station refused: its code, its facts, and its own sentence as the fact `detail`."""

    def __str__(self) -> str:
        return str(self.facts.get("detail") or super().__str__())

    @property
    def status(self) -> int:
        """Of HTTP; 0 where no answer came."""
        return int(self.facts.get("status", 0))

    @property
    def retry_after(self) -> int | None:
        """Seconds after which to try again."""
        return self.facts.get("retry_after")


class StationClient:
    """One station; each call is one request, so several threads may share it."""

    def __init__(
        self, url: str, token: str | None = None, timeout: float = 600.0, tls: Tls = None
    ) -> None:
        kinds: Any = {"http": HTTPConnection, "https": partial(HTTPSConnection, context=tls)}
        if (parts := urlsplit(url)).scheme not in kinds or parts.hostname is None:
            raise UsageError("station-address-invalid", url=url)
        self._connect = partial(kinds[parts.scheme], parts.hostname, parts.port, timeout=timeout)
        self._headers = {"Content-Type": "application/json"}
        self._headers |= {} if token is None else {"Authorization": f"Bearer {token}"}

    def products(self) -> list[ProductRecord]:
        return self._answer(list[ProductRecord], "GET", "products")

    def product(self, product: str) -> ProductRecord:
        return self._answer(ProductRecord, "GET", f"products/{product}")

    def create_product(self, name: str, images: Sequence[Source], **fields: Any) -> ProductRecord:
        return self._answer(ProductRecord, "POST", "products", {"name": name, **fields}, images)

    def upload_product(self, name: str, detector: Source) -> ProductRecord:
        return self._answer(
            ProductRecord, "POST", "products/upload", {"name": name}, [detector], "detector"
        )

    def download_product(self, product: str) -> bytes:
        return self._bytes("GET", f"products/{product}/detector")

    def extend_product(self, product: str, images: Sequence[Source], **more: Any) -> ProductRecord:
        """`confirm=True` also teaches parts that were anomalous until now."""
        return self._answer(ProductRecord, "POST", f"products/{product}/images", more, images)

    def remove_part(self, product: str, part: str) -> ProductRecord:
        """Forgets a good part; `report(product, "images")` names them."""
        return self._answer(ProductRecord, "DELETE", f"products/{product}/images/{part}")

    def versions(self, product: str) -> list[VersionRecord]:
        return self._answer(VersionListRecord, "GET", f"products/{product}/versions")["versions"]

    def restore_product(self, product: str, revision: int) -> ProductRecord:
        return self._answer(
            ProductRecord, "POST", f"products/{product}/versions/{revision}/restore"
        )

    def calibrate_product(
        self, product: str, images: Sequence[Source] = (), **more: Any
    ) -> ProductRecord:
        return self._answer(ProductRecord, "POST", f"products/{product}/calibration", more, images)

    def rename_product(self, product: str, name: str) -> ProductRecord:
        return self._answer(ProductRecord, "PATCH", f"products/{product}", {"name": name})

    def adapt_automatically(self, product: str, on: bool) -> ProductRecord:
        """Whether the product learns by itself from the parts of the line."""
        return self._answer(
            ProductRecord, "PATCH", f"products/{product}", {"adapt_automatically": on}
        )

    def propose(self, product: str) -> AdaptingRecord:
        """What would change if it learnt from its latest parts; `report(product, "proposal")` says
        whether it is time to."""
        change = self._answer(ProposalRecord, "POST", f"products/{product}/proposal")["change"]
        assert change is not None  # as it was asked for
        return change

    def adapt_product(self, product: str, latest: str | None = None) -> ProductRecord:
        """`latest` as the proposal says: then what came later does not count."""
        return self._answer(ProductRecord, "POST", f"products/{product}/adapt", {"latest": latest})

    def try_settings(
        self, product: str, settings: Json, parts: int = 200, cursor: str | None = None
    ) -> TrialRecord:
        """What these settings would change, judged by the latest parts; those before them with the
        cursor of the last answer."""
        wanted = {"settings": settings, "parts": parts, "cursor": cursor}
        return self._answer(TrialRecord, "POST", f"products/{product}/trial", wanted)

    def configure_product(self, product: str, **settings: Any) -> ProductRecord:
        """`region`, `rotations`, `resolution`, `tiles`, `false_alarm_rate`; others stay."""
        return self._answer(ProductRecord, "POST", f"products/{product}/settings", settings)

    def delete_product(self, product: str) -> None:
        self._bytes("DELETE", f"products/{product}")

    def source(self, product: str) -> SourceRecord | None:
        """The camera of a product, and what it does."""
        return self._answer(
            cast(type[SourceRecord | None], Any), "GET", f"products/{product}/source"
        )

    def set_source(self, product: str, address: str, **more: str) -> SourceRecord:
        """`trigger` and `deadline` as `watch` takes them; the trigger may be `software` as well."""
        wanted = {"address": address, **more}
        return self._answer(SourceRecord, "PUT", f"products/{product}/source", wanted)

    def remove_source(self, product: str) -> None:
        self._bytes("DELETE", f"products/{product}/source")

    def shoot(self, product: str) -> str:
        """Has the next frame inspected; the id of the inspection that it becomes."""
        return self._answer(ShotRecord, "POST", f"products/{product}/source/shots")["inspection"]

    def evaluate_product(self, product: str) -> Json:
        return self._answer(Json, "POST", f"products/{product}/evaluation")

    def inspect(
        self,
        product: str,
        images: Sequence[Source],
        key: str | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> InspectedRecord:
        """One image with a `key` (32 hex digits) may be sent again after a lost answer; `fields`
        are values of the product's own fields."""
        more = {} if key is None else {"Idempotency-Key": key}
        sent = {} if fields is None else {"fields": json.dumps(dict(fields))}
        return self._answer(
            InspectedRecord, "POST", f"products/{product}/inspections", sent, images, headers=more
        )

    def set_fields(
        self, product: str, fields: Mapping[str, bool], name_pattern: str = ""
    ) -> ProductRecord:
        """Fields of one's own, each with whether every part has a value of its own."""
        rows = [{"name": name, "each_part": single} for name, single in fields.items()]
        sent = {"fields": rows, "name_pattern": name_pattern}
        return self._answer(ProductRecord, "PUT", f"products/{product}/fields", sent)

    def inspection(self, inspection: str) -> InspectionRecord:
        return self._answer(InspectionRecord, "GET", f"inspections/{inspection}")

    def picture(self, inspection: str, kind: str = "overlay", **place: float) -> bytes:
        """An overlay, heatmap, original, thumbnail or evidence.jpg (at x, y)."""
        return self._bytes("GET", f"inspections/{inspection}/{quote(kind)}?{urlencode(place)}")

    def evidence(self, inspection: str, **place: float) -> Json:
        return self._answer(Json, "GET", f"inspections/{inspection}/evidence?{urlencode(place)}")

    def label(self, inspection: str, kind: str, **more: Any) -> InspectionRecord:
        return self._answer(
            InspectionRecord, "PUT", f"inspections/{inspection}/label", {"kind": kind, **more}
        )

    def undo(self, inspection: str) -> InspectionRecord:
        return self._answer(InspectionRecord, "DELETE", f"inspections/{inspection}/label")

    def page(self, cursor: str | None = None, **wanted: Any) -> HistoryPageRecord:
        more = {} if cursor is None else {"cursor": cursor}
        return self._answer(
            HistoryPageRecord, "GET", f"inspections?{urlencode({**wanted, **more})}"
        )

    def history(self, **wanted: Any) -> Iterator[InspectionRowRecord]:
        """All inspections, the latest first; `wanted` as the API's parameters."""
        yield from (page := self.page(**wanted))["inspections"]
        while page["next"] is not None:
            yield from (page := self.page(page["next"], **wanted))["inspections"]

    def export(self, kind: str = "csv", **wanted: Any) -> bytes:
        return self._bytes("GET", f"exports/inspections.{quote(kind)}?{urlencode(wanted)}")

    @overload
    def report(
        self, product: str, kind: Literal["trend"] = "trend", **wanted: Any
    ) -> TrendRecord: ...
    @overload
    def report(self, product: str, kind: Literal["coverage"], **wanted: Any) -> CoverageRecord: ...
    @overload
    def report(
        self, product: str, kind: Literal["images"], **wanted: Any
    ) -> GoodPartListRecord: ...
    @overload
    def report(
        self, product: str, kind: Literal["levels"], **wanted: Any
    ) -> GoodPartLevelsRecord: ...
    @overload
    def report(self, product: str, kind: Literal["proposal"], **wanted: Any) -> ProposalRecord: ...
    def report(self, product: str, kind: str = "trend", **wanted: Any) -> Any:
        """What the station tells of a product over time."""
        return self._answer(Json, "GET", f"products/{product}/{quote(kind)}?{urlencode(wanted)}")

    def shift(self, **wanted: str) -> ShiftReportRecord:
        """What happened in the shift `at` a time (default: now), of a `product` or of all."""
        return self._answer(ShiftReportRecord, "GET", f"shift?{urlencode(wanted)}")

    def set_shifts(self, starts: Sequence[str], zone: str | None = None) -> ShiftPlanRecord:
        sent = {"starts": list(starts), "zone": zone}
        return self._answer(ShiftPlanRecord, "PUT", "shifts", sent)

    def users(self) -> list[UserRecord]:
        return self._answer(UserListRecord, "GET", "users")["users"]

    def add_user(self, name: str, role: str, pin: str) -> UserRecord:
        """The first has to be an `admin`; the other role is `inspect`."""
        return self._answer(UserRecord, "POST", "users", {"name": name, "role": role, "pin": pin})

    def change_user(self, user: str, **more: Any) -> UserRecord:
        """A new `role`, a new `pin`, or both."""
        return self._answer(UserRecord, "PATCH", f"users/{user}", more)

    def remove_user(self, user: str) -> None:
        self._bytes("DELETE", f"users/{user}")

    def connections(self) -> ConnectionsRecord:
        return self._answer(ConnectionsRecord, "GET", "connections")

    def test_connection(self, name: str) -> ConnectionTestRecord:
        return self._answer(ConnectionTestRecord, "POST", f"connections/{quote(name)}/test")

    def audit(self) -> list[AuditRowRecord]:
        return self._answer(AuditPageRecord, "GET", "audit")["entries"]

    def ready(self) -> bool:
        with suppress(StationError):
            return self._answer(ReadinessRecord, "GET", "ready")["ready"]
        return False

    def _answer(self, kind: type[T], method: str, path: str, *sent: Any, **more: Any) -> T:
        """What comes back, which is of the kind that the station's own schemas promise."""
        return cast(T, json.loads(self._bytes(method, path, *sent, **more)))

    def _bytes(
        self, method: str, path: str, fields: Json | None = None, *files: Any, headers: Any = ()
    ) -> bytes:
        """Fields go as JSON; where there may be files (and the name of their field), as a form."""
        body = None if fields is None else json.dumps(fields).encode()
        sent = {**self._headers, **dict(headers)}
        if files:
            mark = uuid.uuid4().hex
            body = b"".join(_form(mark, fields or {}, *files))
            sent["Content-Type"] = f"multipart/form-data; boundary={mark}"
        line = self._connect()
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was sent
                line.request(method, f"/api/v1/{path}", body, sent)
            answer = line.getresponse()
            found: bytes = answer.read()
        except (OSError, HTTPException) as error:
            raise StationError("station-silent", reason=repr(error)) from error
        finally:
            line.close()
        if answer.status >= 400:
            said = json.loads(found) if found[:1] == b"{" else {"detail": answer.reason}
            facts = {**said.get("facts", {}), "detail": said.get("detail"), "status": answer.status}
            raise StationError(said.get("code", "station-refused"), **facts)
        return found


def _form(mark: str, texts: Json, files: Sequence[Source], name: str = "images") -> Iterator[bytes]:
    start = f'--{mark}\r\nContent-Disposition: form-data; name="'
    for key, value in texts.items():
        yield f'{start}{key}"\r\n\r\n{value}\r\n'.encode()
    for file in files:
        own = file if isinstance(file, tuple) else (Path(file).name, Path(file).read_bytes())
        safe = own[0].replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        yield f'{start}{name}"; filename="{safe}"\r\n\r\n'.encode() + own[1] + b"\r\n"
    yield f"--{mark}--\r\n".encode()
