"""Forms with files: limits hold while the bytes arrive, and no byte stays in memory."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from typing import IO, Any

from anyio import to_thread
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from ...errors import UsageError
from ..faults import TooLargeError, TooSlowError, WrongTypeError
from ..pictures import Limits, Upload, clean_name
from ..store.files import Files

PATIENCE = 60.0
"""Seconds without a byte after which an upload is given up."""
SLOWEST = 10_000
"""Bytes a second that an upload has to bring after that time, all in all."""
LOOK = 4 << 20
"""Bytes between two looks at the space on the disk: others upload, too."""
MOST_FIELDS = 16
LONGEST_HEADER = 8192


@dataclass
class Form:
    """What arrived: texts by their names, and files in their order."""

    texts: dict[str, str] = field(default_factory=dict)
    uploads: list[Upload] = field(default_factory=list)

    def number(self, name: str, otherwise: float) -> float:
        """A field that is a number."""
        text = self.texts.get(name, "").strip()
        if not text:
            return otherwise
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"{name} is a number, not {text[:40]!r}.") from None

    def flag(self, name: str) -> bool:
        """A field that is true or false."""
        return self.texts.get(name, "").strip().lower() in ("true", "1", "yes", "on")


@contextlib.asynccontextmanager
async def received(
    request: Request,
    files: Files,
    limits: Limits,
    *,
    file: str = "images",
    texts: Collection[str] = (),
    most: int | None = None,
    each: int | None = None,
) -> AsyncIterator[Form]:
    """The form of a request; files that nobody moved away go when the block ends.

    `file` is the name of the field of files, of which there may be `most`, of `each` bytes.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise WrongTypeError("Send a form of the type multipart/form-data.")
    most = limits.images if most is None else most
    each = limits.image_bytes if each is None else each
    length = _length(request)
    if length > most * each + MOST_FIELDS * (limits.text_bytes + LONGEST_HEADER):
        raise TooLargeError(f"The request has {length} bytes, which is more than is accepted.")
    files.check_space(length)
    parts = _Parts(files, limits, file, frozenset(texts), most, each)
    try:
        await _read(request, MultipartParser(options[b"boundary"], parts.callbacks), parts)
        yield parts.form
    finally:
        parts.close()
        for upload in parts.form.uploads:
            upload.discard()


async def _read(request: Request, parser: MultipartParser, parts: "_Parts") -> None:
    stream = request.stream()
    began, count = time.monotonic(), 0
    while True:
        try:
            chunk = await asyncio.wait_for(anext(stream), PATIENCE)
            count += len(chunk)
            if time.monotonic() - began > PATIENCE + count / SLOWEST:
                raise TooSlowError("The upload is too slow; try again on a better line.")
            await to_thread.run_sync(parser.write, chunk)
        except StopAsyncIteration:
            break
        except (asyncio.TimeoutError, ClientDisconnect):
            raise TooSlowError("The upload stopped before it was complete.") from None
        except MultipartParseError as error:
            raise UsageError("The form is damaged; send it again.") from error
    if not parts.ended:
        raise UsageError("The form is cut short; send it again.")


def _length(request: Request) -> int:
    try:
        return int(request.headers.get("content-length", "0"))
    except ValueError:
        return 0


class _Parts:
    """Takes the form part by part; a part that is too large is refused in its middle."""

    def __init__(
        self,
        files: Files,
        limits: Limits,
        file: str,
        texts: frozenset[str],
        most: int,
        each: int,
    ) -> None:
        self.form = Form()
        self.ended = False
        self._files, self._limits = files, limits
        self._file, self._texts, self._most, self._each = file, texts, most, each
        self._fields = self._unseen = 0
        self._reset()

    def _reset(self) -> None:
        self._header = self._value = b""
        self._disposition: dict[bytes, bytes] = {}
        self._name = ""
        self._text = bytearray()
        self._upload: Upload | None = None
        self._opened: IO[bytes] | None = None
        self._digest: Any = hashlib.sha256()
        self._size = 0

    @property
    def callbacks(self) -> Any:
        """What the parser calls."""
        return {
            "on_part_begin": self._reset,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers,
            "on_part_data": self._on_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }

    def close(self) -> None:
        """Removes a file that was cut off."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        if self._upload is not None:
            self._upload.discard()

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]
        self._require(len(self._header) <= LONGEST_HEADER)

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._require(len(self._value) <= LONGEST_HEADER)

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = parse_options_header(self._value)[1]
        self._header = self._value = b""

    def _on_headers(self) -> None:
        self._name = self._disposition.get(b"name", b"").decode("utf-8", errors="replace")
        if b"filename" not in self._disposition:
            self._fields += 1
            self._require(self._fields <= MOST_FIELDS)
            if self._name not in self._texts:
                raise UsageError(f"There is no field {clean_name(self._name, 'without a name')}.")
            return
        if self._name != self._file:
            raise UsageError(f"Files go into the field {self._file}.")
        if len(self.form.uploads) >= self._most:
            raise TooLargeError(f"At most {self._most} files are accepted at once.")
        name = self._disposition[b"filename"].decode("utf-8", errors="replace")
        self._upload = Upload(self._files.upload(), clean_name(name), "", 0)
        self._opened = self._upload.path.open("xb")

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._opened is None or self._upload is None:
            self._text += data[start:end]
            if len(self._text) > self._limits.text_bytes:
                raise TooLargeError(f"The field {clean_name(self._name)} is too long.")
            return
        self._size += end - start
        self._unseen += end - start
        if self._unseen > LOOK:
            self._unseen = 0
            self._files.check_space()
        if self._size > self._each:
            raise TooLargeError(
                f"{self._upload.name} is too large: at most {self._each / 1e6:g} MB are accepted."
            )
        self._opened.write(data[start:end])
        self._digest.update(data[start:end])

    def _on_part_end(self) -> None:
        if self._opened is None or self._upload is None:
            self.form.texts[self._name] = self._text.decode("utf-8", errors="replace")
            return
        self._opened.close()
        self._opened = None
        found, self._upload = self._upload, None
        self.form.uploads.append(
            Upload(found.path, found.name, self._digest.hexdigest(), self._size)
        )

    def _on_end(self) -> None:
        self.ended = True

    def _require(self, held: bool) -> None:
        if not held:
            raise UsageError("The form has more or longer fields than any that is meant here.")
