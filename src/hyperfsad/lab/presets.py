"""The paper's tables as presets: which methods to run, and what stands in which column."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..detector.detector import HyperFSAD
from ..detector.settings import PAPER, PAPER_OFFLINE, find_recipe
from ..encoders import EncoderSettings
from ..errors import UsageError
from ..method.lookups import LOOKUPS
from .peers import PEERS, SAME_TOKENS
from .peers.peer import FewShotDetector, OwnTokens

OURS = "Hyper-FSAD"


@dataclass(frozen=True)
class Variant:
    """A method of a table: the paper's algorithm with some settings, our recipe, or a peer."""

    label: str
    lookup: str = "sparsemax"
    layers: tuple[int, ...] | None = None
    pooling: str = "max"
    lam: float = 0.5
    peer: str | None = None
    recipe: str | None = None
    """Ours, by one of its recipes; the other settings are then the recipe's."""
    options: tuple[tuple[str, Any], ...] = ()
    """A peer's own, by name."""

    @property
    def shared(self) -> bool:
        """Whether it can share its distances with others: the paper's algorithm can."""
        return self.peer is None and self.recipe is None

    @property
    def angles(self) -> tuple[float, ...]:
        """Degrees by which what it remembers of a support image is turned, 0 first."""
        kind = PEERS[self.peer] if self.peer is not None else None
        if kind is not None and issubclass(kind, OwnTokens):
            return kind.angles
        return (0.0,)

    def named(self, category: str) -> "Variant":
        """The variant for a category, where a peer asks what the part is called."""
        if self.peer is None or "class_name" not in PEERS[self.peer].OPTIONS:
            return self
        return replace(self, options=(*self.options, ("class_name", category)))

    def detector(self, settings: EncoderSettings) -> FewShotDetector:
        """The method by itself."""
        common: dict[str, Any] = {"layers": settings.layers, "resolution": settings.resolution}
        common["last_norm"] = settings.last_norm
        if self.peer is not None:
            return PEERS[self.peer](settings.name, **common, **dict(self.options))
        common["recipe"] = self.recipe or PAPER_OFFLINE
        return HyperFSAD(settings.name, **common)


@dataclass(frozen=True)
class Preset:
    """One of the paper's comparisons: what it varies, and the tables that show it."""

    title: str
    variants: Callable[[EncoderSettings], tuple[Variant, ...]]
    tables: tuple[tuple[str, ...], ...]
    """The metrics of each table that it writes."""
    published: str
    """The kind of published rows beside ours."""
    resolutions: tuple[int | None, ...] = (None,)
    apart: tuple[str, ...] = ()
    """Peers with tokens of their own, where the encoder permits them."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of all its tables."""
        return tuple(dict.fromkeys(metric for metrics in self.tables for metric in metrics))


_ALL_METRICS = (("I-AUROC", "P-AUROC"), ("I-F1", "I-AP"), ("PRO", "P-AP"))


def beside(names: Sequence[str]) -> tuple[Variant, ...]:
    """Our own row, and those of peers."""
    return (Variant(OURS), *(Variant(name, peer=name) for name in names))


def _lookups(_: EncoderSettings) -> tuple[Variant, ...]:
    """All lookups, the paper's last."""
    order = dict.fromkeys(["top-1", "top-p", "softmax", *LOOKUPS])
    order["sparsemax"] = order.pop("sparsemax")
    return tuple(Variant(name, lookup=name) for name in order)


def _layer_sets(settings: EncoderSettings) -> tuple[Variant, ...]:
    """The middle layer, the last, both, and all: the paper's {6}, {12}, {6, 12}, {3, 6, 9, 12}."""
    layers = settings.layers
    middle, last = layers[(len(layers) - 1) // 2], layers[-1]
    sets = dict.fromkeys([(middle,), (last,), (middle, last), layers])
    return tuple(Variant(",".join(map(str, chosen)), layers=chosen) for chosen in sets)


PRESETS: dict[str, Preset] = {
    "main": Preset(
        "Comparison with published methods",
        lambda _: (Variant(OURS),),
        _ALL_METRICS,
        "main",
    ),
    "peers": Preset(
        "Methods on the same tokens and supports",
        lambda _: beside(SAME_TOKENS),
        _ALL_METRICS,
        "main",
        apart=("winclip",),
    ),
    "authors": Preset(
        "Peers on the same tokens, and with their authors' settings",
        lambda _: beside(("subspace", "fastrecon")),
        _ALL_METRICS,
        "main",
        apart=("subspace-authors", "fastrecon-authors"),
    ),
    "lookup": Preset("Lookup", _lookups, (("I-AUROC", "P-AUROC"), ("PRO", "P-AP")), "lookup"),
    "layers": Preset("Layer selection", _layer_sets, (("I-AUROC", "P-AUROC"),), "layers"),
    "resolution": Preset(
        "Input resolution",
        lambda settings: (Variant(str(settings.resolution)),),
        (("I-AUROC", "P-AUROC"),),
        "resolution",
        (224, 336, 448, 560, 672),
    ),
    "lambda": Preset(
        "Fusion weight λ",
        lambda _: tuple(Variant(f"{lam:g}", lam=lam) for lam in (0.0, 0.25, 0.5, 0.75, 1.0)),
        (("I-AUROC", "I-F1", "I-AP"),),
        "lambda",
    ),
    "pooling": Preset(
        "Pooling of the map",
        lambda _: tuple(Variant(name, pooling=name) for name in ("top-10", "top-1%", "max")),
        (("I-AUROC", "I-F1", "I-AP"),),
        "pooling",
    ),
}


Pass: TypeAlias = tuple[EncoderSettings, tuple[Variant, ...]]
"""Variants that read the same tokens."""


def passes(name: str, backbone: str, resolution: int | None, recipe: str) -> list[Pass]:
    """What an encoder runs, at one resolution or at those of the preset: variants on the tokens
    that all share, then those with tokens of their own."""
    preset = PRESETS[name]
    found: list[Pass] = []
    for size in (resolution,) if resolution else preset.resolutions:
        shared = find_recipe(recipe).settings(backbone, size)
        found.append((shared, with_recipe(name, preset.variants(shared), recipe)))
        apart: dict[EncoderSettings, tuple[Variant, ...]] = {}
        for peer in preset.apart:
            kind = PEERS[peer]
            assert issubclass(kind, OwnTokens)
            for label, options in kind.rows(backbone).items():
                settings = kind(backbone).encoding_
                variant = Variant(label, peer=peer, options=tuple(options.items()))
                apart[settings] = (*apart.get(settings, ()), variant)
        found += apart.items()
    return found


def with_recipe(preset: str, variants: tuple[Variant, ...], recipe: str) -> tuple[Variant, ...]:
    """Our own row by a recipe; `paper` and `paper-offline` differ in the encoder alone."""
    if recipe in (PAPER, PAPER_OFFLINE):
        return variants
    if preset not in ("main", "peers", "authors"):
        raise UsageError("preset-recipe", preset=preset, given=recipe)
    return tuple(
        replace(v, label=f"{v.label}, {recipe} recipe", recipe=recipe) if v.shared else v
        for v in variants
    )
