"""GenICam cameras (GigE Vision, USB3 Vision) through Aravis.

Called in its C library: Aravis has no Python package to install, only bindings of the system's
own Python, which no virtual environment has.
"""

import ctypes
import time
from collections.abc import Callable, Generator
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any

import numpy as np

from ...errors import HyperfsadError, UsageError
from .frames import Frame, Pixels

LIBRARY = "libaravis-0.8.so.0"
BUFFERS = 8
PLAIN_SOCKETS = 1
"""Of Aravis's options: the faster ones need rights that a service should not have."""
POLL = 100_000
"""Microseconds until a stop is noticed."""
SILENCE = 3.0
"""Seconds without a frame after which the camera is asked whether it is there."""
BAYER = {
    "BayerBG8": "bayer_bggr8",
    "BayerGB8": "bayer_gbrg8",
    "BayerGR8": "bayer_grbg8",
    "BayerRG8": "bayer_rggb8",
}
"""Pixel formats of one colour for each pixel, and what PyAV calls them."""
DEPTHS = {"Mono8": 1, "RGB8": 3, "BGR8": 3, **dict.fromkeys(BAYER, 1)}
"""Pixel formats that can be read, and their bytes for each pixel."""


class AravisCamera:
    """A camera by its name or address; the first that is found without one.

    What follows a question mark is set before it starts: NAME?PixelFormat=Mono8&ExposureTime=5000
    """

    live = True

    def __init__(self, given: str) -> None:
        _aravis()
        self.name = f"aravis://{given}"
        self._given, _, features = given.partition("?")
        self._features = features.replace("&", " ")

    def frames(self) -> Generator[Frame | None, None, None]:
        call, unref = self._call, _aravis().g_object_unref
        camera = call("camera_new", c_void_p, self._given.encode() or None)
        stream = None
        try:
            device = _found("camera_get_device", c_void_p)(c_void_p(camera))
            features = c_void_p(device), c_char_p(self._features.encode())
            call("device_set_features_from_string", c_int, *features)
            form = call("camera_get_pixel_format_as_string", c_char_p, c_void_p(camera)).decode()
            if form not in DEPTHS:
                facts = {"source": self.name, "given": form, "known": sorted(DEPTHS)}
                raise HyperfsadError("source-pixels", **facts)
            gigabit = _found("camera_is_gv_device", c_int)(c_void_p(camera))
            if gigabit:
                call("camera_gv_auto_packet_size", c_uint, c_void_p(camera))
                options = _found("camera_gv_set_stream_options", None)
                options(c_void_p(camera), c_int(PLAIN_SOCKETS))
            size = call("camera_get_payload", c_uint, c_void_p(camera))
            stream = call("camera_create_stream", c_void_p, c_void_p(camera), None, None)
            if gigabit:  # a frame comes at once; the system's own buffer is smaller than many
                automatic = b"socket-buffer", c_int(1), b"socket-buffer-size", c_int(0), None
                _aravis().g_object_set(c_void_p(stream), *automatic)
            for _ in range(BUFFERS):
                buffer = _found("buffer_new_allocate", c_void_p)(c_size_t(size))
                _found("stream_push_buffer", None)(c_void_p(stream), c_void_p(buffer))
            call("camera_start_acquisition", None, c_void_p(camera))
            yield from self._received(camera, stream, form)
        finally:
            if stream is not None:
                _found("camera_stop_acquisition", None)(c_void_p(camera), None)
                unref(c_void_p(stream))
            unref(c_void_p(camera))

    def _received(self, camera: int, stream: int, form: str) -> Generator[Frame | None, None, None]:
        pop = _found("stream_timeout_pop_buffer", c_void_p)
        number, heard = 0, time.monotonic()
        while True:
            buffer = pop(c_void_p(stream), c_uint64(POLL))
            if not buffer:
                if time.monotonic() - heard > SILENCE:  # it may wait for a trigger of its own
                    self._call("camera_get_payload", c_uint, c_void_p(camera))
                    heard = time.monotonic()
                yield None
                continue
            heard = time.monotonic()
            whole = _found("buffer_get_status", c_int)(c_void_p(buffer)) == 0
            pixels = _copied(buffer, form) if whole else None
            _found("stream_push_buffer", None)(c_void_p(stream), c_void_p(buffer))
            if pixels is not None:  # with packets missing, parts of it would be of another frame
                yield Frame(number, heard, heard, time.time_ns(), pixels)
            number += 1

    def _call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Calls a function of Aravis that may fail."""
        error = POINTER(_Error)()
        found = _found(name, result)(*arguments, byref(error))
        if error:
            why = error.contents.message.decode(errors="replace")
            _aravis().g_error_free(error)
            raise HyperfsadError("source-lost", source=self.name, why=why)
        return found


class _Error(ctypes.Structure):
    """GLib's."""

    _fields_ = (("domain", c_uint32), ("code", c_int), ("message", c_char_p))


def _copied(buffer: int, form: str) -> Callable[[], Pixels]:
    """The pixels of a buffer, which the camera is about to fill again."""
    width, height = (
        _found(f"buffer_get_image_{side}", c_int)(c_void_p(buffer)) for side in ("width", "height")
    )
    size = c_size_t()
    data = _found("buffer_get_data", c_void_p)(c_void_p(buffer), byref(size))
    content = ctypes.string_at(data, width * height * DEPTHS[form])

    def pixels() -> Pixels:
        flat = np.frombuffer(content, np.uint8)
        if form in BAYER:
            import av

            mosaic = av.VideoFrame.from_ndarray(flat.reshape(height, width), format=BAYER[form])
            return np.asarray(mosaic.to_ndarray(format="rgb24"), np.uint8)
        if form == "Mono8":
            return flat.reshape(height, width)
        found = flat.reshape(height, width, 3)
        return found[..., ::-1] if form == "BGR8" else found

    return pixels


def _found(name: str, result: Any) -> Any:
    function = getattr(_aravis(), f"arv_{name}")
    function.restype = result
    return function


@cache
def _aravis() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise UsageError("source-library", library=LIBRARY) from error
