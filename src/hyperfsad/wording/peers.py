"""Sentences about the peers."""

from collections.abc import Sequence

from . import Sentences


def _unknown_option(peer: str, given: str, known: Sequence[str], **_: object) -> str:
    return f"{peer} has no option {given}; its own are {', '.join(known) or 'none'}."


PEERS_SENTENCES: Sentences = {
    "peer-unknown": "The peer must be one of {known}, not {given!r}.",
    "peer-option-unknown": _unknown_option,
    "peer-option-range": "{peer} needs {expected}, not {given}.",
    "musc-alone": "MuSc scores images by each other; one alone has no score.",
    "winclip-resolution": "WinCLIP needs 3×3 patches; with {encoder} that is a resolution of"
    " {least} or more, not {given}.",
}
