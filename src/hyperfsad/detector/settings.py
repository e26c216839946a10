"""Every choice of a detector: its type and range, its default, and what it goes together with.

`Settings` is what Python takes, what a detector file stores, what `info` prints, what the station
edits and what the options of the command line are made from. It is a plain dataclass with metadata
for each field: pydantic is a dependency of the station alone.

A recipe sets every choice that is not given. `paper` is the paper's configuration, exactly; its
weights come from the model hub. `paper-offline` is the paper's algorithm on an encoder that needs
no hub, so its figures are not the paper's. `default` is ours: what measurements on real parts led
to (docs/measurements/accuracy.md). Nothing in a recipe depends on the product.
"""

import math
import numbers
import os
import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    get_args,
)

from ..decisions.thresholds import Lone
from ..encoders import (
    ENGINES,
    PRECISIONS,
    SUBSTITUTE,
    EncoderSettings,
    EncoderSpec,
    find_spec,
)
from ..encoders.devices import has_precision, runs_on
from ..encoders.runtime import named_engine
from ..encoders.specs import FULL, EngineName, PrecisionName
from ..errors import UsageError, brief
from ..messages import Notify

DEFAULT_RECIPE, PAPER, PAPER_OFFLINE = "default", "paper", "paper-offline"
EXACT, COMPACT = "exact", "compact"
MAX_ROTATIONS = 72
"""Every 5 degrees; memory and time grow with the number."""
RecipeName: TypeAlias = Literal["default", "paper", "paper-offline"]
LookupName: TypeAlias = Literal["sparsemax", "softmax", "top-1", "top-p", "entmax-1.5"]
MemoryKind: TypeAlias = Literal["exact", "compact"]
Auto: TypeAlias = Literal["auto"]
LOOKUP_NAMES: tuple[str, ...] = get_args(LookupName)

Given = ParamSpec("Given")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Recipe:
    """The default of each choice, and what no user chooses."""

    backbone: str
    lookup: str = "sparsemax"
    pooling: str = "max"
    lam: float = 0.5
    sharpness: float = 1.0
    smooth: bool = False
    last_norm: bool = False
    missing: float = 0.0
    rotations: int | str = 1
    precision: str = FULL
    half_tokens: bool = False
    """Whether patch tokens are rounded to half precision as they are learnt, which halves the file.
    """
    quarters: tuple[int, ...] = (1, 2, 3, 4)
    """Which of the encoder's four layers are used."""
    lone: Lone = (0.94, 1.78)
    """The thresholds of score and map for one good part, relative to its self-distance."""
    foreign: float = 0.5
    """How far the CLS tokens of an image may be from those of the good parts before it looks like
    another product, relative to their distance from empty pictures."""

    def layers(self, spec: EncoderSpec) -> tuple[int, ...]:
        """The layers of an encoder that the recipe uses."""
        return tuple(layer for n, layer in enumerate(spec.layers, 1) if n in self.quarters)

    def settings(self, backbone: str | None = None, size: int | None = None) -> EncoderSettings:
        """How the recipe's encoder, or another, computes tokens."""
        spec = find_spec(self.backbone if backbone is None else backbone)
        return spec.settings(self.layers(spec), size, last_norm=self.last_norm)


RECIPES: dict[str, Recipe] = {
    DEFAULT_RECIPE: Recipe(
        "dinov2-vits14",
        pooling="top-0.5%",
        lam=1.0,
        sharpness=64.0,
        smooth=True,
        last_norm=True,
        missing=0.15,
        rotations="auto",
        precision="auto",
        half_tokens=True,
        quarters=(1, 3, 4),
        lone=(1.58, 1.43),
        foreign=0.55,
    ),
    PAPER: Recipe("dinov3-vitb16"),
    PAPER_OFFLINE: Recipe(SUBSTITUTE),
}


def find_recipe(name: str) -> Recipe:
    """The recipe of a name."""
    if name not in RECIPES:
        raise UsageError("setting-invalid", name="recipe", given=name, choices=tuple(RECIPES))
    return RECIPES[name]


@dataclass(frozen=True)
class Setting:
    """What one choice may be, and how it is explained."""

    name: str
    kind: str
    """`text`, `whole`, `number`, `wholes`, `flag`, `tiles` or `roi`."""
    help: str
    group: str
    """`memory`, `recipe` or `machine`; the choices of the machine are not saved."""
    within: tuple[float | None, float | None] = (None, None)
    choices: tuple[str, ...] = ()
    """All that it may be; of a whole number, names that may stand instead."""
    pattern: str = ""
    """What a text looks like, where it is not one of the choices."""
    examples: tuple[str, ...] = ()
    """Texts that fit the pattern, for whoever gave another one."""
    metavar: str | None = None

    def checked(self, value: Any) -> Any:
        """The value as its kind; None stands for the default."""
        if value is None:
            return None
        try:
            found = _CONVERTERS[self.kind](value, self)
        except (TypeError, ValueError):
            found = None
        if found is None:
            names = ("name", "kind", "choices", "examples")
            facts = {name: getattr(self, name) for name in names}
            facts["low"], facts["high"] = self.within
            raise UsageError("setting-invalid", given=brief(value), **facts)
        return found


def _text(value: Any, setting: Setting) -> str | None:
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        return None
    wrong = setting.choices and text not in setting.choices
    return None if wrong or not re.fullmatch(setting.pattern or "(?s:.*)", text) else text


def _number(value: Any, setting: Setting) -> float | None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    number = value if isinstance(value, int) else float(value)
    low, high = setting.within
    in_range = (low is None or number >= low) and (high is None or number <= high)
    return number if math.isfinite(number) and in_range else None


def _whole(value: Any, setting: Setting) -> int | str | None:
    if isinstance(value, str) and value in setting.choices:
        return value
    number = _number(value, setting) if isinstance(value, numbers.Integral) else None
    return None if number is None else int(number)


def _wholes(value: Iterable[Any], setting: Setting) -> tuple[Any, ...] | None:
    found = tuple(_whole(each, setting) for each in value)
    return None if None in found else found


_CONVERTERS: dict[str, Callable[[Any, Setting], Any]] = {
    "text": _text,
    "whole": _whole,
    "number": _number,
    "wholes": _wholes,
    "flag": lambda value, _: value if isinstance(value, bool) else None,
    "tiles": lambda value, setting: value if isinstance(value, bool) else _whole(value, setting),
    "roi": lambda value, _: value,  # checked where it is drawn: `decisions.roi`
}


def _choice(what: str, help: str, **more: Any) -> Any:
    """A field of `Settings`: its group, its kind and perhaps how help calls its value. Its default
    is the recipe's, or it has none."""
    found = dict(zip(("group", "kind", "metavar"), what.split(), strict=False), help=help)
    return field(default=None, metadata={**found, **more})


@dataclass(frozen=True)
class Settings:
    """Every choice of a detector as given; what is not given is the recipe's, or None where `fit`
    decides. What `fit` learns never changes them."""

    backbone: str = _choice(
        "recipe text NAME", "encoder, as `hyperfsad encoders` lists them, or a folder"
    )
    _: KW_ONLY
    recipe: RecipeName = _choice(
        "recipe text",
        "default is ours; paper is the paper's configuration (DINOv3 ViT-B/16, needs weights from"
        " the model hub); paper-offline is the paper's algorithm on an encoder that needs no hub,"
        " so its figures are not the paper's",
        choices=tuple(RECIPES),
    )
    layers: Sequence[int] = _choice(
        "recipe wholes 3,6,9", "transformer blocks to compare, counted from 1"
    )
    resolution: int | None = _choice(
        "recipe whole PX",
        "side of the encoder's square input in pixels, a multiple of its patch size",
        within=(1, 65_536),
    )
    lookup: LookupName = _choice(
        "recipe text RULE",
        f"how to weight normal patches: {', '.join(LOOKUP_NAMES)}",
        choices=LOOKUP_NAMES,
    )
    pooling: str = _choice(
        "recipe text RULE",
        "how the map becomes a score: max, or the mean of its highest patches: top-10, top-1%",
        pattern=r"max|top-[0-9]{1,9}(\.[0-9]{1,9})?%?",
        examples=("max", "top-10", "top-1%"),
    )
    lam: float = _choice(
        "recipe number WEIGHT",
        "weight of the map in the image score, 0 to 1; the CLS token has the rest",
        within=(0, 1),
    )
    sharpness: float = _choice(
        "recipe number FACTOR",
        "similarities are multiplied by it before the lookup; the paper has 1",
        within=(1e-6, 1000),
    )
    smooth: bool = _choice(
        "recipe flag", "average the map with its neighbours; its score is never smoothed"
    )
    last_norm: bool = _choice(
        "recipe flag", "apply the encoder's final norm to its last block, if that is used"
    )
    missing: float = _choice(
        "recipe number WEIGHT",
        "weight of pieces that good parts have and an image lacks; 0: do not look for them",
        within=(0, 10),
    )
    rotations: int | Auto = _choice(
        "memory whole N",
        "remember each good part in N orientations (1 to 72), for parts that lie at any angle;"
        " auto: choose N from the good parts (default: auto with the recipe default and without"
        " tiles, otherwise 1)",
        within=(1, MAX_ROTATIONS),
        choices=("auto",),
    )
    roi: Any = _choice(
        "memory roi MASK",
        "region of interest: a mask image (bright: inspect), a polygon 'x,y x,y x,y' in pixels of"
        " the first good part, or auto (find the part in each image) (default: the whole image)",
    )
    tiles: int | bool | None = _choice(
        "memory tiles PX",
        "cut images into tiles with sides of PX pixels, to find small defects in large images;"
        " without PX: the encoder's resolution; no: never (default: no tiles, unless --max-cost"
        " allows them)",
        within=(1, 1_000_000),
    )
    max_cost: float | None = _choice(
        "memory number TIMES",
        "what an image may cost, as a multiple of the plain cost: `fit` chooses tiles or a higher"
        " resolution within it (default: 2, for rotated copies alone)",
        within=(1, None),
    )
    memory: MemoryKind = _choice(
        "memory text",
        "exact: compare with every patch of the good parts; compact: of a large memory (more than"
        " about 16 good parts) compare with a quarter of the patches that leaves none of the others"
        " far away, for less time (default: exact)",
        choices=(EXACT, COMPACT),
    )
    device: str = _choice(
        "machine text",
        "cpu, gpu or npu (OpenVINO), cuda or mps (torch), or auto: cuda where torch has it,"
        " otherwise cpu",
        pattern=r"(auto|cpu|gpu|npu|cuda|mps)(:\d+)?",
        examples=("auto", "cpu", "gpu", "npu", "cuda", "mps"),
    )
    engine: EngineName = _choice("machine text", "library that runs the encoder", choices=ENGINES)
    precision: PrecisionName = _choice(
        "machine text",
        "what the encoder computes in: float32, bf16, int8 or float16; bf16 is the fastest where"
        " the device has it, and finds as much (docs/measurements/speed.md)",
        choices=PRECISIONS,
    )
    batch_size: int | None = _choice(
        "machine whole N",
        "images to encode at once (default: 1 on a CPU, otherwise 8)",
        within=(1, None),
    )

    several: ClassVar[bool] = False
    """Whether the detector knows several products; what kind it is says `check`, not a choice."""
    adapted: ClassVar[bool] = False
    """Whether the detector has learnt from unlabelled parts."""
    taught: ClassVar[bool] = False
    """Whether the detector can name defects."""

    given: ClassVar[dict[str, Any]]
    """The choices as they were given; None: not at all."""

    def __post_init__(self) -> None:
        """Checks each choice, fills in the recipe's, and refuses what does not go together."""
        usual: dict[str, Any] = {"recipe": DEFAULT_RECIPE, "memory": EXACT}
        usual |= {"device": "auto", "engine": "auto"}
        chosen = {name: one.checked(getattr(self, name)) for name, one in SETTINGS.items()}
        object.__setattr__(self, "given", {name: getattr(self, name) for name in SETTINGS})
        recipe = find_recipe(chosen["recipe"] or DEFAULT_RECIPE)
        usual |= {name: value for name, value in vars(recipe).items() if name in SETTINGS}
        if chosen["tiles"]:
            usual["rotations"] = 1
        chosen = {
            name: usual.get(name) if value is None else value for name, value in chosen.items()
        }
        if chosen["layers"] is None:
            chosen["layers"] = recipe.layers(find_spec(chosen["backbone"]))
        for name, value in chosen.items():
            object.__setattr__(self, name, value)
        named_engine(self.engine)
        self.check()

    @property
    def encoding(self) -> EncoderSettings:
        """How tokens are computed, unless `fit` chooses another resolution."""
        spec = find_spec(self.backbone)
        return spec.settings(tuple(self.layers), self.resolution, last_norm=self.last_norm)

    @property
    def tile_side(self) -> int | None:
        """Of a tile in pixels of the image; None: images are seen as a whole."""
        if not self.tiles:
            return None
        encoding = self.encoding
        side = encoding.resolution if self.tiles is True else self.tiles
        if side < encoding.grid:
            raise UsageError(
                "setting-invalid", name="tiles", given=side, kind="tiles", low=encoding.grid
            )
        return side

    finds_part = property(lambda self: isinstance(self.roi, str) and self.roi == "auto")
    """Whether the region of interest is the part itself, found in each image."""
    first_rotations = property(lambda self: 1 if self.rotations == "auto" else self.rotations)
    """In how many orientations parts are remembered until `fit` chooses."""
    has_mask = property(lambda self: self.roi is not None and not self.finds_part)
    """Whether the region of interest is a mask or a polygon."""
    as_exported = property(
        lambda self: (
            self.engine == "auto"
            and self.precision in ("auto", FULL)
            and self.device.startswith(("auto", "cpu"))
        )
    )
    """Whether an exported model, which runs its own encoder, does what is asked of the machine."""
    is_compact = property(lambda self: self.memory == COMPACT)
    may_tile = property(lambda self: bool(self.tiles) or self.max_cost is not None)
    departs = property(lambda self: self.sharpness != 1 or self.smooth or bool(self.missing))
    """Whether the algorithm is not the paper's."""

    def check(self, use: str = "", **learnt: Any) -> None:
        """Refuses choices that do not go together, or not with a use such as `products`; what `fit`
        has learnt counts instead of what was given."""
        seen = copy(self)
        for name, value in learnt.items():
            object.__setattr__(seen, name, value)
        for conflict in CONFLICTS:
            if conflict.use == use and conflict.holds(seen):
                names = ("lookup", "recipe", "device", "precision")
                facts = {name: getattr(seen, name) for name in names}
                raise UsageError(conflict.code, engine=named_engine(seen.engine), **facts)

    def changed(self, **choices: Any) -> "Settings":
        """The same with other choices."""
        return replace(self, **choices)

    def to_dict(self) -> dict[str, Any]:
        """What a detector file stores: all but the machine; a region is a tensor of its own."""
        kept = {name: getattr(self, name) for name, one in SETTINGS.items() if one.group != MACHINE}
        return {**kept, "layers": list(self.layers), "roi": "auto" if self.finds_part else None}


def takes(
    settings: Callable[Given, Settings],
) -> Callable[[Callable[[Made, Settings], None]], Callable[Concatenate[Made, Given], None]]:
    """Gives a constructor the parameters of `Settings`, so that there is one list of them: for
    people, editors and type checkers."""

    def decorated(
        begin: Callable[[Made, Settings], None],
    ) -> Callable[Concatenate[Made, Given], None]:
        @wraps(begin)
        def made(self: Made, /, *given: Given.args, **choices: Given.kwargs) -> None:
            check_names(choices)
            begin(self, settings(*given, **choices))

        first, *_ = signature(begin).parameters.values()
        shown = signature(settings)
        every = [first, *shown.parameters.values()]
        made.__signature__ = shown.replace(parameters=every, return_annotation=None)  # type: ignore[attr-defined]
        return made

    return decorated


def check_names(names: Iterable[str]) -> None:
    """Refuses a choice that there is not, with the one that was probably meant."""
    for name in names:
        if name not in SETTINGS:
            meant = get_close_matches(name, SETTINGS, n=1)
            raise UsageError("setting-unknown", name=name, meant=meant[0] if meant else None)


class Machine(TypedDict, total=False):
    """What `load` takes: the choices of the machine, and where the encoder lies."""

    backbone: str
    """The encoder's folder where it lies elsewhere than on the machine that wrote the file; its
    weights must be the same."""
    device: str
    engine: EngineName
    precision: PrecisionName
    batch_size: int | None
    notify: Notify
    """Takes messages; else they are logged."""


MACHINE = "machine"
SETTINGS: dict[str, Setting] = {
    each.name: Setting(each.name, **each.metadata) for each in fields(Settings)
}
"""What each choice may be, by name."""


class Conflict(NamedTuple):
    """Choices that do not go together."""

    code: str
    use: str
    """What they are wanted for; empty: they never go together."""
    holds: Callable[[Settings], bool]


CONFLICTS = (
    Conflict("tiles-with-rotations", "", lambda s: bool(s.tiles) and s.rotations != 1),
    Conflict("tiles-with-roi", "", lambda s: bool(s.tiles) and s.roi is not None),
    Conflict("compact-with-tiles", "", lambda s: s.is_compact and s.may_tile),
    Conflict("engine-with-device", "", lambda s: not runs_on(s.engine, s.device)),
    Conflict(
        "precision-unsupported", "", lambda s: not has_precision(s.precision, s.engine, s.device)
    ),
    Conflict("compact-with-lookup", "", lambda s: s.is_compact and s.lookup != "sparsemax"),
    Conflict("products-with-roi", "products", lambda s: s.has_mask),
    Conflict("products-with-tiles", "products", lambda s: bool(s.tiles)),
    Conflict("products-with-max-cost", "products", lambda s: s.max_cost is not None),
    Conflict("products-with-compact", "products", lambda s: s.is_compact),
    Conflict("adapt-with-tiles", "adapt", lambda s: bool(s.tiles)),
    Conflict("teach-with-tiles", "teach", lambda s: bool(s.tiles)),
    Conflict("export-with-line", "export", lambda s: s.adapted),
    Conflict("export-with-defects", "export", lambda s: s.taught),
    Conflict("one-product-only", "product", lambda s: not s.several),
    Conflict("hypergraph-with-tiles", "hypergraph", lambda s: bool(s.tiles)),
    Conflict("exported-with-machine", "exported", lambda s: not s.as_exported),
    Conflict("export-with-products", "export", lambda s: s.several),
    Conflict("export-with-tiles", "export", lambda s: bool(s.tiles)),
    Conflict("export-with-roi", "export", lambda s: s.roi is not None),
    Conflict("export-with-compact", "export", lambda s: s.is_compact),
    Conflict("export-with-lookup", "export", lambda s: s.lookup != "sparsemax"),
    Conflict("theory-with-recipe", "theory", lambda s: s.departs),
    Conflict("theory-with-tiles", "theory", lambda s: bool(s.tiles)),
    Conflict("theory-with-compact", "theory", lambda s: s.is_compact),
    Conflict("theory-with-roi", "theory", lambda s: s.roi is not None),
    Conflict("theory-with-roi", "theory of the CLS token", lambda s: s.roi is not None),
)
"""Which choices do not go together: the one place that knows."""
