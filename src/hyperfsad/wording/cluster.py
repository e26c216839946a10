"""Sentences about `cluster`."""

from . import Sentences

CLUSTER_SENTENCES: Sentences = {
    "storage-unreachable": "{address} cannot be reached: {why}.",
    "storage-unknown": "{address} names a file system that fsspec does not know.",
    "storage-missing": "{address} does not exist.",
    "storage-unreadable": "{address} cannot be read: {why}.",
    "storage-unwritable": "{address} cannot be written: {why}.",
    "storage-unlisted": "{address} cannot be listed: {why}.",
    "storage-passed-over": "{address}: files skipped that are not images: {number}.",
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
    "ray-started": "Ray ({address}): {workers} workers, {cores} cores, {gpus:g} GPUs.",
}
