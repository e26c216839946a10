"""Sentences about cameras, and machines that are connected."""

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


CONNECT_SENTENCES: Sentences = {
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
    "webhook-address": "A webhook is an address such as https://example.org/parts; write non-ASCII"
    " characters as %XX.",
    "webhook-password": "A webhook's address must not hold a password; send it as a header, such"
    ' as {option[webhook_header]} "Authorization: …".',
    "webhook-header": 'A header of the webhook is written as "Name: value", in ASCII.',
    "webhook-own-header": "The header {name} of the webhook is set by hyperfsad.",
    "webhook-events": "The webhook can be called on {known}, not on {given}.",
    "webhook-no-threshold": "The detector has no threshold, so no image would be anomalous: set"
    " one with `hyperfsad calibrate`, or send all results ({option[webhook_on]} all).",
    "delivery-left": "Records that the next start sends to {name}: {number}.",
    "delivery-waits": "Nothing is sent to {name} now: {why}.",
    "delivery-recovered": "{address} ({name}) takes records again.",
    "delivery-retries": "{address} ({name}) did not take a record ({why}); hyperfsad tries again"
    " until it does.",
    "delivery-refused": "{address} ({name}) refused the record of {image} ({why}); it is not sent"
    " again but kept in {file}.",
    "outbox-state-unfit": "{path} does not fit {results}; earlier records are not sent, and numbers"
    " begin anew under another origin.",
    "outbox-state-unsaved": "How far records are sent was not noted ({why}).",
    "connect-table": "{path}: there is no table [{given}]; choose among {known}.",
    "connect-key": "{path}: [{table}] has no {key}; it takes {known}.",
    "connect-missing": "{path}: [{table}] needs {key}.",
    "connect-value": "{path}: {key} of [{table}] cannot be {given!r}.",
    "connect-empty": "{path} connects nothing; name at least one receiver.",
    "connect-pair": "{first} and {second} go together; give both.",
    "connect-seconds": "{key} must be more than 0 and at most 86400 seconds, not {given}.",
    "connect-package": "This needs one more package ({package}): pip install 'hyperfsad[{extra}]'.",
    "connect-twice": "{option[connect]} has a table [webhook]; leave out {option[webhook]}.",
    "connect-silent": "{address} cannot be reached: {why}.",
    "connect-login": "{address} refuses the user or the password.",
    "connect-tls": "The certificate of {address} is not trusted: {why}.",
    "connection-unknown": "There is no connection {name}.",
    "mqtt-topic": "An MQTT topic is a text such as plant/line4, without + and #, not {given!r}.",
    "modbus-open": "Modbus has no passwords: whoever reaches {address} can read verdicts and"
    " trigger. Keep it in a network of machines only.",
    "opcua-open": "On {address} other machines can reach the OPC UA server, so it needs"
    " certificate, private_key and users_file; without them, leave host out.",
    "opcua-users": "{file} needs rows `name: password`, with passwords of at least 8 characters.",
}
