"""Other training-free few-shot detectors, behind the same fit and predict, on the same tokens."""

from inspect import signature
from typing import Any

from ..detector.base import FewShotDetector
from ..encoders import SUBSTITUTE
from ..errors import UsageError
from .fastrecon import FastRecon
from .nearest import NearestNeighbour
from .patchcore import PatchCore
from .peer import Peer
from .rad import RAD
from .subspace import SubspaceAD

PEERS: dict[str, type[Peer]] = {
    "nearest": NearestNeighbour,
    "patchcore": PatchCore,
    "subspace": SubspaceAD,
    "fastrecon": FastRecon,
    "rad": RAD,
}


def make_peer(name: str, backbone: str = SUBSTITUTE, **options: Any) -> Peer:
    """The peer of that name; the options are its own and those of every detector."""
    if name not in PEERS:
        raise UsageError(f"The peer is one of {', '.join(PEERS)}, not {name!r}.")
    own = {*signature(PEERS[name]).parameters} - {"backbone", "common"}
    shared = {*signature(FewShotDetector).parameters} - {"backbone"}
    unknown = sorted({*options} - own - shared)
    if unknown:
        known = ", ".join(sorted(own | shared))
        raise UsageError(f"{name} has no option {unknown[0]}; it has {known}.")
    return PEERS[name](backbone, **options)


__all__ = [
    "PEERS",
    "RAD",
    "FastRecon",
    "NearestNeighbour",
    "PatchCore",
    "SubspaceAD",
    "make_peer",
]
