"""Sentences about the peers."""

from . import Sentences

PEERS_SENTENCES: Sentences = {
    "peer-unknown": "The peer is one of {known}, not {given!r}.",
    "peer-option-unknown": "{peer} has no option {given}; it has {known}.",
    "peer-rotations": "{option[rotations]} of a peer must be 1 or 8, not {given}.",
    "coreset-fraction-range": "The coreset is a fraction above 0 and up to 1, not {given}.",
    "neighbours-range": "PatchCore needs at least 2 neighbours, not {given}.",
    "rad-radius-range": "The radius is 0 or more, or None for everywhere, not {given}.",
    "regularisation-range": "The regularisation is 0 or more, not {given}.",
    "retrieved-range": "RAD retrieves at least 1 image, not {given}.",
    "variance-range": "The share of variance lies between 0 and 1, not at {given}.",
    "winclip-resolution": (
        "WinCLIP needs 3×3 patches; with {encoder} that is a resolution of {least} or more, not"
        " {given}."
    ),
    "class-name-empty": "The class name is what prompts call the part; it must not be empty.",
}
