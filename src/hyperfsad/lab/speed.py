"""What an inspection costs on this machine, stage by stage, beside other methods."""

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any, TypeVar

from .. import threads
from ..arrays import Array, gathered, like, namespace, positive
from ..demo.drawing import draw
from ..detector.detector import HyperFSAD
from ..detector.settings import find_recipe
from ..encoders.encoder import Tokens, prepare
from ..errors import UsageError
from ..images.loading import NormalImage, load_image
from ..method.memory import MemoryBank
from ..method.scoring import cosines
from .peers import SAME_TOKENS, make_peer
from .peers.peer import FewShotDetector
from .timing import Meter

_Item = TypeVar("_Item")

INSPECTED_PARTS = 6
"""Different parts that are inspected in every round."""
WARM_UP = 2
TEXTBOOK_ROWS = 8192
"""The textbook's dense weights over more rows than this take too long to be worth a comparison."""
PEER_ROWS = 16_384
"""Memory rows beyond which peers are left out: PatchCore's greedy coreset alone takes minutes."""
COMPARED_PEERS = ("nearest", "patchcore", "subspace")


@dataclass(frozen=True)
class PeerCost:
    """What a method needs for one image, in milliseconds."""

    name: str
    match: float
    """From the tokens of an image to its map and score, the median over all rounds."""
    learn: float
    """From the tokens of the normal images to the fitted method, once."""


@dataclass(frozen=True)
class Cost:
    """Milliseconds per image with K normal images, each the median over all rounds."""

    shots: int
    match: float
    textbook: float | None
    """The same matching by full sort and dense product."""
    textbook_over_ours: float | None
    end_to_end: float
    """From file to result in a stream of files, everything included."""
    encode: float
    """The encoder alone, measured in turns with `end_to_end`."""
    over_encoder: float
    bank_bytes: int
    peak_bytes: int
    """The largest memory: of the process so far, or of tensors on a GPU."""
    peers: tuple[PeerCost, ...] = ()
    """Ours, then others on the same tokens; empty where the memory is too large for them."""


@dataclass(frozen=True)
class SpeedReport:
    """What the command `speed` found."""

    encoder: str
    resolution: int
    engine: str
    precision: str
    threads: int
    decode: float
    prepare: float
    encode: float
    costs: tuple[Cost, ...]
    device: str = "CPU"

    def to_json(self) -> dict[str, Any]:
        """All figures and ratios."""
        return asdict(self)

    def to_text(self) -> str:
        """The figures as aligned tables."""
        machine = f"{self.engine}, {self.precision}, {self.device}, {self.threads} threads"
        lines = [
            f"{self.encoder}, {self.resolution} px, {machine}",
            f"decode {self.decode:.1f} ms, prepare {self.prepare:.1f} ms, encode"
            f" {self.encode:.1f} ms",
            "",
            "shots  match ms  textbook ms  textbook/ours  end to end ms  encoder ms  over encoder"
            "  bank MB  peak MB",
        ]
        for cost in self.costs:
            both = (cost.textbook, cost.textbook_over_ours)
            textbook, ratio = ("-" if figure is None else f"{figure:.1f}" for figure in both)
            lines.append(
                f"{cost.shots:5}  {cost.match:8.1f}  {textbook:>11}  {ratio:>13}"
                f"  {cost.end_to_end:13.1f}  {cost.encode:10.1f}  {cost.over_encoder:12.2f}"
                f"  {cost.bank_bytes / 1e6:7.0f}  {cost.peak_bytes / 1e6:7.0f}"
            )
        if any(cost.peers for cost in self.costs):
            lines += ["", "shots  method      match ms  over ours  encoder + match ms  learn ms"]
        lines += [
            f"{cost.shots:5}  {one.name:10}  {one.match:8.1f}"
            f"  {one.match / cost.peers[0].match:9.2f}  {cost.encode + one.match:18.1f}"
            f"  {one.learn:8.0f}"
            for cost in self.costs
            for one in cost.peers
        ]
        return "\n".join(lines)


def measure_speed(
    detector: HyperFSAD,
    shots: Sequence[int],
    rounds: int = 5,
    progress: Callable[[str], None] = lambda _: None,
    peers: Sequence[str] = COMPARED_PEERS,
) -> SpeedReport:
    """Draws parts, learns from K of them and inspects others; peers score the same tokens."""
    if not shots or min(shots) < 1 or rounds < 1:
        raise UsageError("shots-rounds", shots=list(shots), rounds=rounds)
    for name in peers:
        if name not in SAME_TOKENS:
            raise UsageError("speed-peer", given=name, known=", ".join(SAME_TOKENS))
    encoder, settings = detector.encoder_, detector.encoding_
    meter = Meter(encoder.device)
    with tempfile.TemporaryDirectory(prefix="hyperfsad-speed-") as folder:
        paths = [f"{folder}/{seed}.png" for seed in range(INSPECTED_PARTS)]
        for seed, path in enumerate(paths):
            draw("plate", seed=seed, defect="scratch" if seed % 2 else None).image.save(path)
        pictures = [load_image(path) for path in paths]
        arrays = [prepare(picture, settings) for picture in pictures]
        queries = [encoder.encode_prepared([array]) for array in arrays]
        costs, encodes = [], []
        for count in sorted(set(shots)):
            progress(f"learning from {count} parts")
            seeds = range(INSPECTED_PARTS, INSPECTED_PARTS + count)
            banks = []
            for seed in seeds:
                tokens = encoder.encode([load_image(draw("plate", seed=seed).image)])
                banks.append(MemoryBank.of(tokens, [NormalImage(f"part {seed}", str(seed))]))
            bank = MemoryBank.joined(banks)
            if find_recipe(detector.settings.recipe).half_tokens:  # as `fit` does
                bank = bank.rounded()
            meter.reset()
            detector.remember(bank)
            detector.scale_  # noqa: B018 (made once, before the clock starts)
            progress(f"inspecting with {count} normal images")
            laps: dict[str, list[float]] = {"stream": [], "encode": [], "match": []}
            for _ in range(rounds):
                laps["stream"] += _stream(detector, paths)
                laps["encode"] += _laps(meter, lambda a: encoder.encode_prepared([a]), arrays)
                laps["match"] += _laps(meter, detector.score_tokens, queries)
            encodes += laps["encode"]
            peak, textbook = meter.peak(), None  # before the textbook, whose memory is not ours
            if len(bank.patches[0]) <= TEXTBOOK_ROWS:
                textbook = median(_laps(meter, partial(textbook_scores, bank), queries[:3]))
            stream, encode, match = (median(taken) for taken in laps.values())
            costs.append(
                Cost(
                    shots=count,
                    match=match,
                    textbook=textbook,
                    textbook_over_ours=None if textbook is None else textbook / match,
                    end_to_end=stream,
                    encode=encode,
                    over_encoder=stream / encode,
                    bank_bytes=sum(layer.nbytes for layer in (*bank.patches, bank.cls)),
                    peak_bytes=peak,
                    peers=_peer_costs(peers, detector, queries, rounds, meter),
                )
            )
        decode = median(_laps(meter, load_image, paths * rounds))
        shrink = median(_laps(meter, lambda picture: prepare(picture, settings), pictures * rounds))
    return SpeedReport(
        settings.name,
        settings.resolution,
        encoder.engine,
        encoder.precision,
        threads.count(),
        decode,
        shrink,
        median(encodes),
        tuple(costs),
        meter.name,
    )


def textbook_scores(bank: MemoryBank, tokens: Tokens) -> list[Array]:
    """The distances of one image in every layer."""
    pairs = zip(tokens.patches[0], bank.patches, strict=True)
    return [textbook_distances(queries, memory) for queries, memory in pairs]


def textbook_distances(queries: Array, memory: Array) -> Array:
    """Equation 1 as it is written: every similarity sorted, dense weights times the memory."""
    z, xp = queries @ memory.T, namespace(queries)
    ordered = -xp.sort(-z, axis=-1)
    sums = xp.cumulative_sum(ordered, axis=-1)
    sizes = like(range(1, z.shape[1] + 1), z, z.dtype)
    size = xp.sum(1 + sizes * ordered > sums, axis=-1, keepdims=True)
    excess = gathered(sums, size - 1) - 1
    weights = positive(z - excess / xp.astype(size, z.dtype))
    return 1 - cosines(queries, weights @ memory)


def _peer_costs(
    names: Sequence[str],
    ours: HyperFSAD,
    queries: Sequence[Tokens],
    rounds: int,
    meter: Meter,
) -> tuple[PeerCost, ...]:
    """Ours and the peers on the same memory, in turns; empty where it is too large for them."""
    bank, settings = ours.memory_, ours.encoding_
    if not names or len(bank.patches[0]) > PEER_ROWS:
        return ()
    methods: dict[str, FewShotDetector] = {"ours": ours.unfitted()}
    common = {"layers": settings.layers, "resolution": settings.resolution}
    for name in names:
        methods[name] = make_peer(name, settings.name, **common, last_norm=settings.last_norm)
        methods[name].use_encoder(ours.encoder_)
    learn = {name: _laps(meter, method.remember, [bank])[0] for name, method in methods.items()}
    taken: dict[str, list[float]] = {name: [] for name in methods}
    for place in range(rounds + 1):
        for name, method in methods.items():
            laps = _laps(meter, method.score_tokens, queries)
            taken[name] += laps if place else []  # the first round warms up
    return tuple(PeerCost(name, median(taken[name]), learn[name]) for name in methods)


def _stream(detector: HyperFSAD, paths: Sequence[str]) -> list[float]:
    """Milliseconds from result to result in a stream of files that has got going."""
    ends = [time.perf_counter() for _ in detector.predict_many([*paths[:WARM_UP], *paths])]
    return [1000 * (b - a) for a, b in zip(ends[WARM_UP - 1 :], ends[WARM_UP:], strict=False)]


def _laps(meter: Meter, work: Callable[[_Item], object], items: Iterable[_Item]) -> list[float]:
    """Milliseconds of the work on each item, until the device has finished it."""
    laps = []
    meter.lap()
    for item in items:
        work(item)
        laps.append(1000 * meter.lap())
    return laps
