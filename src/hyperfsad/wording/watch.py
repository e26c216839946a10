"""Sentences about `watch`."""

from . import Sentences, count


def _adapted(
    parts: int,
    before: tuple[float | None, float | None],
    after: tuple[float | None, float | None],
    changed: int,
    path: object,
    **_: object,
) -> str:
    (old, new), (old_map, new_map) = (
        ["none" if value is None else f"{value:.3f}" for value in pair]
        for pair in zip(before, after, strict=True)
    )
    return (
        f"Adapted to {parts} inspected parts: threshold {old} → {new}, of the map {old_map} →"
        f" {new_map}; {count(changed, 'verdict')} on these parts would change; saved as {path}."
    )


WATCH_SENTENCES: Sentences = {
    "watch-seconds": lambda name, given, option, **_: (
        f"{option[name]} must be a number of seconds, not {given}."
    ),
    "watch-started": "Watching {folder}; images done before: {done}; results go to {results}.",
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
    "watch-adapt-one": "{option[adapt]} needs a detector of one product.",
    "watch-adapt-gone": "Only {there} of the newest {parts} parts are still there as they were"
    " inspected.",
    "watch-adapted": _adapted,
    "watch-adapted-before": "The detector is adapted to {parts} inspected parts: {path}.",
    "watch-not-adapted": "The detector stays as it is: {cause}",
}
