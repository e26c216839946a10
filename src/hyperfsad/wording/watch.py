"""Sentences about `watch`."""

from collections.abc import Sequence

from . import Options, Sentences


def _seconds(name: str, given: object, option: Options) -> str:
    return f"{option[name]} is a number of seconds, not {given}."


def _started(folder: str, done: int, results: object, **_: object) -> str:
    images = "1 image" if done == 1 else f"{done} images"
    return f"Watching {folder}; {images} done before; results go to {results}."


def _events(given: Sequence[str], known: Sequence[str], **_: object) -> str:
    wrong = ", ".join(given) or "nothing"
    return f"The webhook can be called on {', '.join(known)}, not on {wrong}."


def _undelivered(number: int, **_: object) -> str:
    results = "1 result" if number == 1 else f"{number} results"
    return f"{results} could not be delivered to the webhook yet; the next start sends them."


WATCH_SENTENCES: Sentences = {
    "watch-seconds": _seconds,
    "watch-started": _started,
    "watch-no-folder": "There is no folder {folder}.",
    "watch-file": "{path} is a file; name the folder to watch.",
    "watch-inside-output": "{folder} is or lies in the output folder {output}, which is never"
    " watched; choose another {option[output]}.",
    "watch-folder-lost": "{folder} cannot be opened ({why}); hyperfsad keeps trying.",
    "watch-folder-back": "{folder} is back.",
    "watch-vanished": "{image} vanished before it was inspected.",
    "watch-left-for-next": "{image} is still being written; the next run will inspect it.",
    "watch-results-changed": "Another program changed {path} while it was in use; start again.",
    "watch-results-foreign": "{folder} holds the results of another command; choose another"
    " {option[output]} for watching.",
    "watch-record-cut-off": "The last record of {path} was cut off; it is now in {file}, and its"
    " image is inspected again.",
    "webhook-address": "A webhook is an address such as https://example.org/parts; write non-ASCII"
    " characters as %XX.",
    "webhook-password": "A webhook's address must not hold a password; send it as a header, such"
    ' as {option[webhook_header]} "Authorization: …".',
    "webhook-header": 'A header of the webhook is written as "Name: value", in ASCII.',
    "webhook-own-header": "The header {name} of the webhook is set by hyperfsad.",
    "webhook-header-file": "{path} cannot be read: {why}.",
    "webhook-events": _events,
    "webhook-no-threshold": "The detector has no threshold, so no image would be anomalous: set"
    " one with `hyperfsad calibrate`, or send all results ({option[webhook_on]} all).",
    "webhook-undelivered": _undelivered,
    "webhook-state-unfit": "{path} does not fit {results}; earlier results are not sent.",
    "webhook-state-unsaved": "The progress of the webhook was not saved ({why}).",
    "webhook-waits": "The webhook waits: {why}.",
    "webhook-recovered": "The webhook at {host} accepts results again.",
    "webhook-retries": "The webhook at {host} did not accept a result ({why}); hyperfsad tries"
    " again until it does.",
    "webhook-refused": "The webhook at {host} refused the result of {image} ({why}); it is not"
    " sent again but kept in {file}.",
}
