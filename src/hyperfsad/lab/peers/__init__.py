"""Other training-free few-shot detectors, behind the same fit and predict, on the same tokens
unless they need their own."""

from typing import Any

from ...encoders import SUBSTITUTE
from ...errors import UsageError
from .authors import FastReconAuthors, SubspaceADAuthors
from .fastrecon import FastRecon
from .musc import MuSc
from .nearest import NearestNeighbour
from .patchcore import PatchCore
from .peer import OwnTokens, Peer
from .rad import RAD
from .subspace import SubspaceAD
from .winclip import WinCLIP

PEERS: dict[str, type[Peer]] = {
    "nearest": NearestNeighbour,
    "patchcore": PatchCore,
    "subspace": SubspaceAD,
    "fastrecon": FastRecon,
    "rad": RAD,
    "subspace-authors": SubspaceADAuthors,
    "fastrecon-authors": FastReconAuthors,
    "winclip": WinCLIP,
    "musc": MuSc,
}
SAME_TOKENS = tuple(
    name for name, kind in PEERS.items() if not issubclass(kind, OwnTokens) and not kind.unlabelled
)
"""Those that learn from few good parts, on the tokens that all methods share."""


def make_peer(name: str, backbone: str = SUBSTITUTE, **options: Any) -> Peer:
    """The peer of that name; the options are its own and those of every detector."""
    if name not in PEERS:
        raise UsageError("peer-unknown", given=name, known=", ".join(PEERS))
    return PEERS[name](backbone, **options)


__all__ = [
    "PEERS",
    "RAD",
    "SAME_TOKENS",
    "FastRecon",
    "FastReconAuthors",
    "MuSc",
    "NearestNeighbour",
    "PatchCore",
    "SubspaceAD",
    "SubspaceADAuthors",
    "WinCLIP",
    "make_peer",
]
