"""Peers beside our matching: what each needs for one image, on the same tokens in the same run."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from ..detector.base import FewShotDetector
from ..detector.hyperfsad import HyperFSAD
from ..encoders.encoder import Tokens
from ..errors import UsageError
from ..method.memory import MemoryBank
from .peers import SAME_TOKENS, make_peer
from .peers.peer import Peer

OURS = "ours"
COMPARED = ("nearest", "patchcore", "subspace")
"""What `hyperfsad lab speed` compares with unless it is told otherwise."""

LARGEST = 16_384
"""Rows of the memory beyond which peers are left out: the greedy coreset of PatchCore alone would
take minutes."""

Laps = Callable[[Callable[[Tokens], object], Iterable[Tokens]], list[float]]
"""Milliseconds of work on each item."""


@dataclass(frozen=True)
class PeerCost:
    """What a method needs with so many normal images, in milliseconds."""

    name: str
    match: float
    """From the tokens of an image to its map and score, the median over all rounds."""
    learn: float
    """From the tokens of the normal images to what it remembers, once."""


def beside_peers(
    names: Sequence[str],
    ours: HyperFSAD,
    bank: MemoryBank,
    queries: Sequence[Tokens],
    rounds: int,
    laps: Laps,
) -> tuple[PeerCost, ...]:
    """Ours and the peers on one bank, in turns; nothing where the bank is too large for them."""
    if not names or len(bank.patches[0]) > LARGEST:
        return ()
    methods: dict[str, FewShotDetector] = {OURS: ours.unfitted()}
    methods |= {name: _peer(name, ours) for name in names}
    learn = {}
    for name, method in methods.items():
        start = time.perf_counter()
        method.remember(bank)
        learn[name] = 1000 * (time.perf_counter() - start)
        laps(method.score_tokens, queries[:1])  # what is made at the first question
    taken: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(rounds):
        for name, method in methods.items():
            taken[name] += laps(method.score_tokens, queries)
    return tuple(PeerCost(name, median(taken[name]), learn[name]) for name in methods)


def _peer(name: str, ours: HyperFSAD) -> Peer:
    """A peer on the encoder and the layers of our detector."""
    settings = ours.settings
    peer = make_peer(
        name,
        settings.name,
        layers=settings.layers,
        resolution=settings.resolution,
        last_norm=settings.last_norm,
    )
    peer.use_encoder(ours.encoder_)
    return peer


def check_peers(names: Sequence[str]) -> None:
    """Refuses peers that read other tokens, or that there are not."""
    for name in names:
        if name not in SAME_TOKENS:
            raise UsageError(
                f"The peers to compare with are some of {', '.join(SAME_TOKENS)}, not {name!r}."
            )
