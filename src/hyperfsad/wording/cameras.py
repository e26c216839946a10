"""Sentences about cameras, of `connect` and of who uses them."""

from . import Options, Sentences


def _moved(option: Options, right: float, down: float) -> str:
    steps = []
    if abs(right) >= 0.01:
        steps.append(f"{abs(right):.0%} {'right' if right > 0 else 'left'}")
    if abs(down) >= 0.01:
        steps.append(f"{abs(down):.0%} {'down' if down > 0 else 'up'}")
    return (
        f"The camera has moved: parts now lie {' and '.join(steps)} of where good parts lay; move"
        " it back, or fit again with pictures from its new place."
    )


def _only_folder(option: Options, name: str) -> str:
    return f"{option[name]} is for folders, not for cameras and videos."


def _only_camera(option: Options, name: str) -> str:
    return f"{option[name]} is for cameras and videos; name one with {option['source']}."


def _duration(option: Options, name: str, given: str) -> str:
    return f"{option[name]} needs a duration such as 500ms or 2s, not {given or 'nothing'}."


CAMERAS_SENTENCES: Sentences = {
    "source-unknown": "{given} is no camera and no video: give a folder, rtsp://…, /dev/video0,"
    " aravis://NAME, or a file that ends in {videos}.",
    "source-file": "{path}, which holds the address of a camera, cannot be read: {why}.",
    "source-no-file": "There is no video {path}.",
    "source-package": "Cameras and videos need the package {package}: pip install"
    " 'hyperfsad[camera]'.",
    "source-library": "GenICam cameras need the library {library} of Aravis 0.8, which Debian and"
    " Ubuntu call libaravis-0.8-0.",
    "source-pixels": "{source} sends {given}; set it to one of {known}.",
    "source-lost": "{source} gives no pictures ({why}); hyperfsad keeps trying.",
    "source-back": "{source} is back.",
    "trigger-unknown": "{given} is no trigger; the triggers are {known}.",
    "trigger-needs-station": "{option[trigger]} software needs the station: there REST asks for"
    " shots.",
    "source-with-folder": "Name either a folder or {option[source]}, not both.",
    "source-missing": "Name the folder that the camera writes to, or a camera with"
    " {option[source]}.",
    "source-only-folder": _only_folder,
    "source-options": _only_camera,
    "duration-invalid": _duration,
    "verdict-late": "No verdict: it came after {took:.0f} ms, and the deadline is {deadline:.0f}"
    " ms.",
    "camera-finding": "{finding} See {path}.",
    "camera-dark": "The pictures are too dark: raise the exposure, or add light.",
    "camera-bright": "The pictures are too bright: much is burnt out; lower the exposure.",
    "camera-blurred": "The pictures are blurred: focus the camera, or shorten the exposure if parts"
    " move.",
    "camera-moved": _moved,
}
