"""Sentences about `cluster`."""

from . import Sentences


def _passed_over(address: str, number: int, **_: object) -> str:
    files = "1 file that is not an image" if number == 1 else f"{number} files that are not images"
    return f"{address}: {files} skipped."


def _ray_started(workers: int, address: str, cores: int, gpus: float, **_: object) -> str:
    pool = "1 worker" if workers == 1 else f"{workers} workers"
    where = "a Ray of its own" if address == "local" else f"the Ray at {address}"
    return f"{pool} on {where} with {cores} cores{f' and {gpus:g} GPUs' if gpus else ''}."


CLUSTER_SENTENCES: Sentences = {
    "storage-unreachable": "{address} cannot be reached: {why}.",
    "storage-unknown": "{address} names a file system that fsspec does not know.",
    "storage-missing": "{address} does not exist.",
    "storage-unreadable": "{address} cannot be read: {why}.",
    "storage-unwritable": "{address} cannot be written: {why}.",
    "storage-unlisted": "{address} cannot be listed: {why}.",
    "storage-passed-over": _passed_over,
    "cluster-workers": "At least one worker with at least one core is needed.",
    "cluster-gpus": "A worker takes a fraction of one GPU, or a whole number of GPUs, not"
    " {given:g}.",
    "cluster-part-size": "{option[part_size]} must be at least 1, not {given}.",
    "cluster-worker-lost": "A worker failed and ended the run: {why}; finished results are kept,"
    " so run it again.",
    "ray-not-installed": "{option[on]} ray needs `pip install 'hyperfsad[ray]'`: {why}.",
    "ray-not-started": "Ray could not be started here: {why}.",
    "ray-not-found": "No Ray was found at {address}: {why}; give the {option[address]} that Ray's"
    " head node printed when it started.",
    "ray-started": _ray_started,
}
