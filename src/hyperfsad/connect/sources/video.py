"""Network cameras, USB cameras and video files, read with PyAV (the libraries of FFmpeg).

An address is opened as what it claims to be and nothing else: FFmpeg would otherwise follow what
a stream or a file says, to other files and other servers.
"""

import contextlib
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import HyperfsadError, UsageError
from .frames import Frame, Pixels

if TYPE_CHECKING:
    import av

VIDEO_FORMATS = {
    ".mp4": "mov",
    ".m4v": "mov",
    ".mov": "mov",
    ".mkv": "matroska",
    ".webm": "matroska",
    ".avi": "avi",
}
"""The suffixes of video files, and what FFmpeg calls their formats."""
OPEN_TIMEOUT, READ_TIMEOUT = 10.0, 3.0
"""Seconds after which a camera that says nothing is lost."""


class NetworkCamera:
    """A camera that sends RTSP. TCP, since a lost UDP packet would look like a defect."""

    live = True

    def __init__(self, address: str) -> None:
        from . import shown

        _av()  # a missing package is said at once
        self.name, self._address = shown(address), address

    def frames(self) -> Generator[Frame | None, None, None]:
        options = {"rtsp_transport": "tcp", "fflags": "nobuffer", "flags": "low_delay"}
        allowed = "rtsp,rtsps,rtp,tcp,tls,udp,crypto"
        return _live(self.name, self._address, "rtsp", {**options, "protocol_whitelist": allowed})


class UsbCamera:
    """A camera of this machine, /dev/video0 (Linux)."""

    live = True

    def __init__(self, device: str) -> None:
        _av()
        self.name = device

    def frames(self) -> Generator[Frame | None, None, None]:
        return _live(self.name, self.name, "v4l2", {})


class VideoFile:
    """A video file; what is judged of it is known by the places of its frames."""

    def __init__(self, path: Path, *, real_time: bool = False) -> None:
        _av()
        if not path.is_file():
            raise UsageError("source-no-file", path=path)
        self.path, self.name, self.live = path, str(path), real_time

    def frames(self) -> Generator[Frame | None, None, None]:
        form = VIDEO_FORMATS[self.path.suffix.lower()]
        options = {"protocol_whitelist": "file"}
        began = time.monotonic()
        with _opened(self.name, self.name, form, options) as video:
            for number, picture in enumerate(_pictures(video)):
                at = float(picture.time or 0.0)
                while self.live and (early := began + at - time.monotonic()) > 0:
                    time.sleep(min(early, 0.1))
                    if early > 0.1:
                        yield None
                yield _frame(number, picture, at)


def _live(
    name: str, address: str, form: str, options: Mapping[str, str]
) -> Generator[Frame | None, None, None]:
    with _opened(name, address, form, options) as video:
        # threads that decode several frames at once would hold each back by as many
        video.streams.video[0].thread_type = "SLICE"
        last: int | None = None
        for number, picture in enumerate(_pictures(video)):
            if picture.pts is not None and last is not None and picture.pts <= last:
                continue  # a camera that repeats itself
            last = picture.pts if picture.pts is not None else last
            yield _frame(number, picture, time.monotonic())
    raise HyperfsadError("source-lost", source=name, why="it ended")


def _frame(number: int, picture: "av.VideoFrame", at: float) -> Frame:
    def pixels() -> Pixels:
        return np.asarray(picture.to_ndarray(format="rgb24"), np.uint8)

    return Frame(number, at, time.monotonic(), time.time_ns(), pixels)


def _pictures(video: "av.container.InputContainer") -> "Generator[av.VideoFrame, None, None]":
    """Frames in their order; a damaged packet costs its own frame only."""
    damaged = _av().error.InvalidDataError
    for packet in video.demux(video.streams.video[0]):
        with contextlib.suppress(damaged):
            yield from packet.decode()


@contextlib.contextmanager
def _opened(
    name: str, address: str, form: str, options: Mapping[str, str]
) -> "Generator[av.container.InputContainer, None, None]":
    """An open source; all that goes wrong with it means that it is lost."""
    av = _av()
    try:
        timeout = OPEN_TIMEOUT, READ_TIMEOUT
        with av.open(address, format=form, options=dict(options), timeout=timeout) as video:
            if not video.streams.video:
                raise HyperfsadError("source-lost", source=name, why="it has no picture")
            yield video
    except av.error.FFmpegError as error:
        # its own text names the address, with the password
        raise HyperfsadError("source-lost", source=name, why=error.strerror) from None


def _av() -> Any:
    try:
        import av
    except ImportError as error:
        raise UsageError("source-package", package="av") from error
    return av
