"""Forms with files: limits of each part hold while it arrives, and no byte stays in memory."""

import contextlib
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi.concurrency import run_in_threadpool
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from ...disk.files import file_sha256
from ...errors import UsageError
from ..pictures import Upload, clean_name
from ..refusals import TooLargeError, WrongTypeError
from ..station import Station

SPACE_CHECK = 4 << 20
"""Bytes between two checks of the space on the disk: others upload, too."""
MAX_FIELDS = 16
MAX_PART_HEADER = 8192


@dataclass
class Form:
    """What arrived: texts by their names, and files in their order."""

    texts: dict[str, str] = field(default_factory=dict)
    uploads: list[Upload] = field(default_factory=list)

    def number(self, name: str, otherwise: float) -> float:
        text = self.texts.get(name, "").strip()
        if not text:
            return otherwise
        try:
            return float(text)
        except ValueError:
            raise UsageError("field-not-a-number", field=name, given=text[:40]) from None


@contextlib.asynccontextmanager
async def received(
    request: Request,
    station: Station,
    *,
    file: str = "images",
    texts: Collection[str] = (),
    max_files: int | None = None,
    max_bytes: int | None = None,
) -> AsyncIterator[Form]:
    """The form of a request; files that were not moved away are removed when the block ends.

    `file` is the name of the field of files, each of at most `max_bytes`.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise WrongTypeError("form-required")
    limits = station.settings.limits
    max_files, max_bytes = max_files or limits.images, max_bytes or limits.image_bytes
    claimed = request.headers.get("content-length", "0")
    length = int(claimed) if claimed.isdecimal() else 0
    station.store.files.check_space(length)
    parser = _FormParser(request, station, file, texts, files=max_files, bytes=max_bytes)
    try:
        try:
            await parser.parse()
        except (MultiPartException, FormParserError) as error:
            raise UsageError("form-damaged") from error
        if not parser.complete:
            raise UsageError("form-damaged")
        yield await run_in_threadpool(parser.form)
    finally:
        parser.discard()


class _FormParser(MultiPartParser):
    """Starlette's parser, with files in the store and limits that hold while a part arrives."""

    def __init__(
        self, request: Request, station: Station, file: str, texts: Collection[str], **most: int
    ) -> None:
        limits = {"max_fields": MAX_FIELDS, "max_part_size": station.settings.limits.text_bytes}
        super().__init__(request.headers, request.stream(), max_files=most["files"], **limits)
        self.complete = False
        self._files, self._file, self._texts = station.store.files, file, texts
        self._max_bytes, self._size, self._unchecked = most["bytes"], 0, 0
        self._uploads: list[tuple[Path, UploadFile]] = []

    def form(self) -> Form:
        form = Form({name: value for name, value in self.items if isinstance(value, str)})
        for path, file in self._uploads:
            file.file.close()
            size = path.stat().st_size
            form.uploads.append(Upload(path, file.filename or "", file_sha256(path), size))
        return form

    def discard(self) -> None:
        """Removes the files that were not moved to their places."""
        for path, file in self._uploads:
            file.file.close()
            path.unlink(missing_ok=True)

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        super().on_header_field(data, start, end)
        self._require_short(self._current_partial_header_name)

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        super().on_header_value(data, start, end)
        self._require_short(self._current_partial_header_value)

    def on_headers_finished(self) -> None:
        disposition: Any = self._current_part.content_disposition
        options = parse_options_header(disposition)[1]
        name = options.get(b"name", b"").decode("utf-8", errors="replace")
        if b"filename" not in options:
            if name not in self._texts:
                raise UsageError("field-unknown", field=clean_name(name, "without a name"))
            super().on_headers_finished()
            return
        if name != self._file:
            raise UsageError("file-field", field=self._file)
        if len(self._uploads) >= self.max_files:
            raise TooLargeError("files-too-many", limit=self.max_files)
        shown = clean_name(options[b"filename"].decode("utf-8", errors="replace"))
        path = self._files.upload()
        self._current_part.field_name = name
        self._current_part.file = UploadFile(path.open("xb"), filename=shown)
        self._uploads.append((path, self._current_part.file))
        self._size = 0

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        part, count = self._current_part, end - start
        if part.file is None:
            if len(part.data) + count > self.max_part_size:
                raise TooLargeError("field-too-long", field=clean_name(part.field_name))
        else:
            self._size, self._unchecked = self._size + count, self._unchecked + count
            if self._size > self._max_bytes:
                name = part.file.filename
                raise TooLargeError("upload-bytes", name=name, limit=self._max_bytes)
            if self._unchecked > SPACE_CHECK:
                self._unchecked = 0
                self._files.check_space()
        super().on_part_data(data, start, end)

    def on_end(self) -> None:
        self.complete = True

    def _require_short(self, header: bytes) -> None:
        if len(header) > MAX_PART_HEADER:
            raise UsageError("form-damaged")
