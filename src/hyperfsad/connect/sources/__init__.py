"""Where frames come from: one module for each kind of camera, one protocol for all."""

from pathlib import Path
from urllib.parse import urlsplit

from ...errors import UsageError, reason
from .frames import Frame, Pixels, Source

__all__ = ["Frame", "Pixels", "Source", "source_of"]

RTSP, ARAVIS, USB = ("rtsp://", "rtsps://"), "aravis://", "/dev/video"


def source_of(address: str, *, real_time: bool = False) -> Source:
    """The source of an address; nothing is opened yet.

    `@FILE` holds the address, so that a password is in no list of processes. With `real_time` a
    video file plays at its own speed, as a camera would.
    """
    if address.startswith("@"):
        try:
            address = Path(address[1:]).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise UsageError("source-file", path=address[1:], why=reason(error)) from error
    if address.startswith(ARAVIS):
        from .aravis import AravisCamera

        return AravisCamera(address.removeprefix(ARAVIS))
    from .video import VIDEO_FORMATS, NetworkCamera, UsbCamera, VideoFile

    if address.startswith(RTSP):
        return NetworkCamera(address)
    if address.startswith(USB):
        return UsbCamera(address)
    if Path(address).suffix.lower() in VIDEO_FORMATS:
        return VideoFile(Path(address).absolute(), real_time=real_time)
    raise UsageError("source-unknown", given=shown(address), videos=sorted(VIDEO_FORMATS))


def shown(address: str) -> str:
    """An address without the user and the password that it may hold."""
    try:
        host = urlsplit(address).netloc
    except ValueError:
        return address.rpartition("@")[2]
    return address.replace(host, host.rpartition("@")[2], 1) if "@" in host else address
