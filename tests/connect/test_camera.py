"""Cameras at work: real videos, a real network camera that goes and comes back, a fake GigE one."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from hyperfsad.connect.camera import Camera, Shot
from hyperfsad.connect.sources import shown, source_of
from hyperfsad.connect.sources.video import VideoFile
from hyperfsad.connect.triggers import Every
from hyperfsad.errors import UsageError
from tests.codes import codes, raises
from tests.connect.videos import RtspServer, make_video, numbered
from tests.waiting import DEADLINE, until

ALL = 0.001
"""Seconds between shots where each frame is one."""


@pytest.fixture
def server() -> Iterator[RtspServer]:
    found = RtspServer()
    found.start()
    yield found
    found.stop()


class GigeCamera:
    """A GigE camera that Aravis plays; it can go and come back."""

    def __init__(self) -> None:
        if shutil.which("arv-fake-gv-camera-0.8") is None:
            pytest.skip("needs Aravis's fake camera (aravis-tools)")
        self._serial = f"T{os.getpid()}"
        self.address = f"aravis://Aravis-{self._serial}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = ["arv-fake-gv-camera-0.8", "-i", "127.0.0.1", "-s", self._serial]
        self._process = subprocess.Popen(command)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture
def gige() -> Iterator[GigeCamera]:
    # all that Aravis plays on one machine answer at one port: one at a time
    with FileLock(Path(tempfile.gettempdir()) / "hyperfsad-gige.lock"):
        found = GigeCamera()
        found.start()
        yield found
        found.stop()


def taken(camera: Camera, count: int) -> list[Shot]:
    """The next shots of a camera."""
    found: list[Shot] = []
    while len(found) < count:
        shot = until(lambda: camera.next(0.1), "a shot")
        assert shot is not None
        found.append(shot)
    return found


def test_a_file_gives_every_frame_once_and_waits_for_who_judges(tmp_path: Path) -> None:
    frames = numbered(30)
    source = source_of(str(make_video(tmp_path / "line.mkv", frames)))
    camera = Camera(source, Every(ALL), room=2, notify=lambda _: None).start()
    until(lambda: camera.queue == 2)
    shots = taken(camera, 30)
    until(lambda: camera.over)
    assert camera.state == "ended"
    assert [shot.frame.number for shot in shots] == list(range(30))
    assert all(np.array_equal(s.pixels, f) for s, f in zip(shots, frames, strict=True))
    assert [shot.frame.time for shot in shots] == pytest.approx([n / 10 for n in range(30)])
    assert (camera.dropped, camera.shots, camera.queue, camera.oldest) == (0, 30, 0, 0.0)
    assert len({shot.id for shot in shots}) == 30
    assert camera.next(DEADLINE) is None  # at once: nothing will come
    camera.stop()


def test_a_live_camera_drops_the_oldest_shot_and_says_so(tmp_path: Path) -> None:
    video = make_video(tmp_path / "line.mkv", numbered(40), rate=200)
    camera = Camera(source_of(str(video), real_time=True), Every(ALL), room=3).start()
    until(lambda: camera.state == "ended")
    assert camera.oldest > 0
    assert not camera.over
    assert [shot.frame.number for shot in taken(camera, 3)] == [37, 38, 39]
    assert (camera.shots, camera.dropped) == (40, 37)
    camera.stop()


def test_what_waits_at_the_end_is_counted_as_dropped(tmp_path: Path) -> None:
    video = make_video(tmp_path / "line.mkv", numbered(10))
    camera = Camera(source_of(str(video)), Every(ALL), room=4).start()
    until(lambda: camera.queue == 4)
    camera.stop()
    assert camera.state == "stopped"
    assert camera.shots == camera.dropped >= 4
    assert camera.next(DEADLINE) is None


def test_a_network_camera_goes_and_comes_back(server: RtspServer) -> None:
    said: list[str] = []
    source = source_of(server.address)
    camera = Camera(source, Every(ALL), room=1000, notify=said.append).start()
    before = taken(camera, 5)
    server.stop()
    until(lambda: camera.state == "away", "the loss")
    assert camera.problem is not None
    assert camera.problem.code == "source-lost"
    frames = camera.frames
    server.start()
    until(lambda: camera.frames > frames + 5, "the camera")
    assert camera.problem is None
    assert camera.losses == 1
    after = taken(camera, 10)
    camera.stop()
    times = [shot.frame.arrived for shot in [*before, *after]]
    assert times == sorted(set(times))
    assert before[0].pixels.shape == (128, 160, 3)
    assert codes(said) == ["source-lost", "source-back"]


def test_a_camera_that_is_not_there_is_tried_again() -> None:
    server = RtspServer()
    said: list[str] = []
    camera = Camera(source_of(server.address), Every(ALL), notify=said.append).start()
    until(lambda: camera.state == "away")
    server.start()
    assert taken(camera, 1)
    camera.stop()
    server.stop()
    assert codes(said) == ["source-lost", "source-back"]  # not at each try


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="USB cameras need Linux")
def test_a_usb_camera_that_is_not_there() -> None:
    said: list[str] = []
    camera = Camera(source_of("/dev/video99"), Every(ALL), notify=said.append).start()
    until(lambda: said)
    camera.stop()
    assert codes(said) == ["source-lost"]


@pytest.mark.parametrize(
    ("pixels", "shape"),
    [("Mono8", (512, 512)), ("BayerRG8", (512, 512, 3)), ("RGB8", (512, 512, 3))],
)
def test_a_gige_camera(gige: GigeCamera, pixels: str, shape: tuple[int, ...]) -> None:
    source = source_of(f"{gige.address}?PixelFormat={pixels}&AcquisitionFrameRate=50")
    camera = Camera(source, Every(ALL), room=1000).start()
    shots = taken(camera, 3)
    camera.stop()
    assert shots[0].pixels.shape == shape
    assert not np.array_equal(shots[0].pixels, shots[2].pixels)


def test_a_gige_camera_goes_and_comes_back(gige: GigeCamera) -> None:
    said: list[str] = []
    camera = Camera(source_of(gige.address), Every(ALL), room=1000, notify=said.append).start()
    taken(camera, 2)
    gige.stop()
    until(lambda: camera.state == "away", "the loss")
    frames = camera.frames
    gige.start()
    until(lambda: camera.frames > frames + 2, "the camera")
    camera.stop()
    told = codes(said)  # on a busy machine it may be lost once more
    assert told[::2] == ["source-lost"] * len(told[::2])
    assert told[1::2] == ["source-back"] * len(told[::2])


def test_a_gige_camera_with_pixels_that_nobody_reads(gige: GigeCamera) -> None:
    said: list[str] = []
    camera = Camera(
        source_of(f"{gige.address}?PixelFormat=Mono16"), Every(ALL), notify=said.append
    ).start()
    until(lambda: "source-pixels" in codes(said))
    camera.stop()


def test_a_video_that_is_none_is_lost_and_never_followed(tmp_path: Path) -> None:
    """A playlist names other files and servers; it must not be read as one."""
    secret = make_video(tmp_path / "secret.mkv", numbered(3))
    playlist = tmp_path / "line.mp4"
    playlist.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{secret}\n#EXT-X-ENDLIST\n")
    said: list[str] = []
    camera = Camera(source_of(str(playlist)), Every(ALL), notify=said.append).start()
    until(lambda: said)
    camera.stop()
    assert (codes(said), camera.frames) == (["source-lost"], 0)


def test_addresses(tmp_path: Path) -> None:
    video = make_video(tmp_path / "a.mkv", numbered(1))
    secret = tmp_path / "address.txt"
    secret.write_text("rtsp://user:pass@word@cam.example:554/1?x=1\n")
    found = source_of(f"@{secret}")
    assert (found.name, found.live) == ("rtsp://cam.example:554/1?x=1", True)
    assert shown("rtsp://cam/1") == "rtsp://cam/1"
    assert isinstance(source_of(str(video)), VideoFile)
    assert not source_of(str(video)).live
    for address in ("http://cam/1.mjpg", "file:///etc/passwd", str(secret), "concat:a|b", ""):
        with raises(UsageError, "source-unknown"):
            source_of(address)
    with raises(UsageError, "source-no-file"):
        source_of(str(tmp_path / "none.mp4"))
    with raises(UsageError, "source-file"):
        source_of(f"@{tmp_path / 'none'}")


def test_no_message_holds_a_password(server: RtspServer) -> None:
    said: list[str] = []
    server.stop()
    address = server.address.replace("//", "//me:secret-word@")
    camera = Camera(source_of(address), Every(ALL), notify=said.append).start()
    until(lambda: said)
    camera.stop()
    assert "secret-word" not in "".join(said)
    assert camera.source.name == server.address
