"""Videos made for tests, and a server that sends one as a network camera does."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from hyperfsad.connect.sources import Pixels

SYSTEM_PYTHON = "/usr/bin/python3"
"""Debian's, which has the bindings of GStreamer."""
SERVER = """
import sys, gi
gi.require_version("Gst", "1.0"); gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer
Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1"); server.set_service(sys.argv[1])
factory = GstRtspServer.RTSPMediaFactory()
factory.set_launch("( videotestsrc is-live=true pattern=ball !"
    " video/x-raw,width=160,height=128,framerate=20/1 !"
    " x264enc tune=zerolatency key-int-max=10 ! rtph264pay name=pay0 )")
factory.set_shared(True)
server.get_mount_points().add_factory("/line", factory)
assert server.attach(None)
print("ready", flush=True)
GLib.MainLoop().run()
"""


def make_video(path: Path, frames: Iterable[Pixels], rate: int = 10) -> Path:
    """A video without losses, so that a frame can be compared with what was put in."""
    with av.open(str(path), "w") as video:
        stream = video.add_stream("ffv1", rate=rate)
        stream.pix_fmt = "bgr0"
        for number, pixels in enumerate(frames):
            if number == 0:
                stream.height, stream.width = pixels.shape[:2]
            video.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        video.mux(stream.encode(None))
    return path


def numbered(count: int, size: tuple[int, int] = (96, 80)) -> list[Pixels]:
    """Frames that all differ: a brightness for each."""
    width, height = size
    return [np.full((height, width, 3), 5 * number % 256, np.uint8) for number in range(count)]


def belt(place: float | None, size: tuple[int, int] = (160, 120)) -> Pixels:
    """A part at a place along a belt, from 0 to 1, or the empty belt."""
    width, height = size
    rng = np.random.default_rng(7)
    picture = Image.fromarray(rng.integers(60, 90, (height, width, 3)).astype(np.uint8))
    if place is not None:
        part = Image.new("RGB", (width // 5, height // 3), (200, 190, 60))
        picture.paste(part, (round(place * width) - part.width // 2, height // 3))
    return np.asarray(picture)


class RtspServer:
    """A network camera on this machine; it can go and come back."""

    def __init__(self) -> None:
        ready = (
            shutil.which(SYSTEM_PYTHON)
            and not subprocess.run(
                [SYSTEM_PYTHON, "-c", SERVER.split("Gst.init")[0]], capture_output=True, check=False
            ).returncode
        )
        if not ready or not sys.platform.startswith("linux"):
            pytest.skip("needs GStreamer's RTSP server (gir1.2-gst-rtsp-server-1.0)")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"rtsp://127.0.0.1:{self.port}/line"

    def start(self) -> None:
        command = [SYSTEM_PYTHON, "-c", SERVER, str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
