"""Sentences about `cluster`."""

from collections.abc import Sequence

from . import Sentences


def _passed_over(address: str, number: int, **_: object) -> str:
    files = "1 file that is not an image" if number == 1 else f"{number} files that are not images"
    return f"{address}: {files} passed over."


def _ray_started(workers: int, address: str, cores: int, gpus: float, **_: object) -> str:
    pool = "1 worker" if workers == 1 else f"{workers} workers"
    where = "a Ray of its own" if address == "local" else f"the Ray at {address}"
    return f"{pool} on {where} with {cores} cores{f' and {gpus:g} GPUs' if gpus else ''}."


def _no_images(notes: Sequence[str], **_: object) -> str:
    return " ".join(notes) or "No image was given."


CLUSTER_SENTENCES: Sentences = {
    "storage-unreachable": "{address} cannot be reached: {why}.",
    "storage-unknown": "{address} is of a kind that fsspec does not know.",
    "storage-missing": "{address} does not exist.",
    "storage-unreadable": "{address} cannot be read: {why}.",
    "storage-unwritable": "{address} cannot be written: {why}.",
    "storage-unlisted": "{address} cannot be listed: {why}.",
    "storage-no-match": "No file matches {pattern}.",
    "storage-passed-over": _passed_over,
    "cluster-workers": "There is at least one worker, with at least one core.",
    "cluster-gpus": (
        "A worker has a share of a graphics card, or a whole number of them, not {given:g}."
    ),
    "cluster-part-size": "A part has at least one image, not {given}.",
    "cluster-no-images": _no_images,
    "cluster-worker-lost": (
        "A worker failed, and with it the run: {why}; what is done is kept, so run it again."
    ),
    "benchmark-worker-failed": "A worker cannot go on ({why}).",
    "benchmark-worker-differs": (
        "A worker has another version of hyperfsad, other weights of {encoder} or another engine"
        " than this machine, or does not share the folder {work}; make them the same on all."
    ),
    "ray-not-installed": "{option[on]} ray needs `pip install 'hyperfsad[ray]'`: {why}.",
    "ray-not-started": "Ray does not start here: {why}.",
    "ray-not-found": (
        "There is no Ray at {address}: {why}; give the {option[address]} that Ray's head node"
        " printed when it started."
    ),
    "ray-started": _ray_started,
    "ray-fewer-workers": (
        "Ray has room for fewer workers now; the others start as soon as it has more."
    ),
}
