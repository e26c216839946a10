"""What distinguishes the vision towers of DINOv2, DINOv3 and CLIP: names and a few switches.

All three are the same transformer. A `Layout` says what a family calls its tensors and what of it
varies; a `Tower` is one model of it, as its config.json describes it. The names are those that
`transformers` has in memory; files may have older ones, or timm's (`folders`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

ATTENTION = ("q_proj", "k_proj", "v_proj")
_AFFINE = ("weight", "bias")


@dataclass(frozen=True)
class Rename:
    """What a file may call a tensor, and what it is called here."""

    pattern: str
    name: str
    """With {} where one tensor of the file holds several, row after row."""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """The names of a family's tensors and modules, and how its towers differ."""

    cls: str
    patch: str
    block: str
    """With {} for its number, counted from 0."""
    norms: tuple[str, str]
    attention: str
    projection: str
    """What follows the attention."""
    mlp: tuple[str, str]
    """The first and the second product of the MLP."""
    final_norm: str
    usual: Mapping[str, Any]
    """What holds where a config does not say it, as in `transformers`."""
    positions: str | None = None
    """The table of positions; None: the angles of the attention carry them."""
    antialias: bool = False
    """Whether the table is smoothed where it is made smaller."""
    registers: str | None = None
    pre_norm: str | None = None
    scales: tuple[str, ...] = ()
    """Of what the attention and the MLP find, where a family scales it."""
    gate: str | None = None
    """The field of the config that asks for a gated MLP."""
    gated_mlp: tuple[str, str] = ("mlp.up_proj", "mlp.down_proj")
    gated_activation: str | None = None
    """Where the gated MLP has one of its own."""
    patch_bias: bool = True
    biases: Mapping[str, str] = field(default_factory=dict)
    """Of modules, the field of the config that says whether they have a bias; others have one."""
    renames: tuple[Rename, ...] = ()


_QUERY_KEY_VALUE = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}
_BASE = {
    "hidden_size": 768,
    "num_attention_heads": 12,
    "patch_size": 16,
    "num_register_tokens": 4,
    "rope_theta": 0.0,
}
_DINOV2 = Layout(
    cls="embeddings.cls_token",
    patch="embeddings.patch_embeddings.projection",
    positions="embeddings.position_embeddings",
    block="encoder.layer.{}.",
    norms=("norm1", "norm2"),
    attention="attention.",
    projection="o_proj",
    scales=("layer_scale1.lambda1", "layer_scale2.lambda1"),
    mlp=("mlp.fc1", "mlp.fc2"),
    gate="use_swiglu_ffn",
    gated_activation="silu",
    final_norm="layernorm",
    usual={**_BASE, "layer_norm_eps": 1e-6, "hidden_act": "gelu", "qkv_bias": True},
    biases=dict.fromkeys(ATTENTION, "qkv_bias"),
    renames=(
        Rename(r"dinov2(?:_with_registers)?\.(.*)", r"\1"),
        *(
            Rename(rf"(.*)\.attention\.attention\.{old}\.(.*)", rf"\1.attention.{new}.\2")
            for old, new in _QUERY_KEY_VALUE.items()
        ),
        Rename(r"(.*)\.attention\.output\.dense\.(.*)", r"\1.attention.o_proj.\2"),
        Rename(r"(.*)\.mlp\.weights_in\.(.*)", r"\1.mlp.{}_proj.\2", ("gate", "up")),
        Rename(r"(.*)\.mlp\.weights_out\.(.*)", r"\1.mlp.down_proj.\2"),
    ),
)
_DINOV3 = Layout(
    cls="embeddings.cls_token",
    patch="embeddings.patch_embeddings",
    registers="embeddings.register_tokens",
    block="model.layer.{}.",
    norms=("norm1", "norm2"),
    attention="attention.",
    projection="o_proj",
    scales=("layer_scale1.lambda1", "layer_scale2.lambda1"),
    mlp=("mlp.up_proj", "mlp.down_proj"),
    gate="use_gated_mlp",
    final_norm="norm",
    usual={
        "hidden_size": 384,
        "num_attention_heads": 6,
        "patch_size": 16,
        "layer_norm_eps": 1e-5,
        "hidden_act": "gelu",
        "rope_theta": 100.0,
        "query_bias": True,
        "key_bias": False,
        "value_bias": True,
        "proj_bias": True,
        "mlp_bias": True,
        "num_register_tokens": 0,
    },
    biases={
        "q_proj": "query_bias",
        "k_proj": "key_bias",
        "v_proj": "value_bias",
        "o_proj": "proj_bias",
        **dict.fromkeys(("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"), "mlp_bias"),
    },
    renames=(Rename(r"(layer\..*)", r"model.\1"),),
)
_CLIP = Layout(
    cls="embeddings.class_embedding",
    patch="embeddings.patch_embedding",
    positions="embeddings.position_embedding.weight",
    pre_norm="pre_layrnorm",
    block="encoder.layers.{}.",
    norms=("layer_norm1", "layer_norm2"),
    attention="self_attn.",
    projection="out_proj",
    mlp=("mlp.fc1", "mlp.fc2"),
    final_norm="post_layernorm",
    usual={**_BASE, "layer_norm_eps": 1e-5, "hidden_act": "quick_gelu"},
    patch_bias=False,
    renames=(Rename(r"vision_model\.(.*)", r"\1"),),
)
LAYOUTS = {
    "dinov2": _DINOV2,
    "dinov2_with_registers": replace(
        _DINOV2, registers="embeddings.register_tokens", antialias=True
    ),
    "dinov3_vit": _DINOV3,
    "clip_vision_model": _CLIP,
    "clip": _CLIP,
}
"""By the `model_type` of a config."""


@dataclass(frozen=True)
class Tower:
    """One vision tower."""

    layout: Layout
    width: int
    heads: int
    patch: int
    registers: int
    eps: float
    activation: str
    gated: bool
    rope_theta: float
    unbiased: frozenset[str]
    """Modules without a bias."""

    @classmethod
    def of(cls, family: str, config: Mapping[str, Any]) -> "Tower":
        """The tower that a config describes; one that cannot be is a ValueError."""
        layout = LAYOUTS[family]
        found = {**layout.usual, **config}
        gated = bool(layout.gate and found.get(layout.gate))
        patch = found["patch_size"]
        tower = cls(
            layout,
            width=int(found["hidden_size"]),
            heads=int(found["num_attention_heads"]),
            patch=int(patch if isinstance(patch, int) else patch[0]),
            registers=int(found["num_register_tokens"]) if layout.registers else 0,
            eps=float(found["layer_norm_eps"]),
            activation=(gated and layout.gated_activation) or str(found["hidden_act"]),
            gated=gated,
            rope_theta=float(found["rope_theta"]),
            unbiased=frozenset(module for module, name in layout.biases.items() if not found[name]),
        )
        if min(tower.width, tower.heads, tower.patch) < 1 or tower.width % tower.heads:
            raise ValueError(f"{tower.width} numbers do not make {tower.heads} heads")
        return tower

    @property
    def prefix(self) -> int:
        """The tokens before those of the patches: CLS and registers."""
        return 1 + self.registers

    @property
    def head_width(self) -> int:
        """The numbers of a head."""
        return self.width // self.heads

    @property
    def mlp(self) -> tuple[str, str]:
        """The first and the second product of the MLP."""
        return self.layout.gated_mlp if self.gated else self.layout.mlp

    def linear(self, module: str) -> list[str]:
        """The names of a product's matrix and of its bias, where it has one."""
        biased = not any(module.endswith(name) for name in self.unbiased)
        return [f"{module}.weight", *([f"{module}.bias"] if biased else [])]

    def tensors(self, depth: int) -> list[str]:
        """All that the tokens of the first `depth` blocks depend on, and the final norm, ordered by
        name."""
        layout = self.layout
        found = [layout.cls, f"{layout.patch}.weight"]
        found += [f"{layout.patch}.bias"] if layout.patch_bias else []
        found += [name for name in (layout.positions, layout.registers) if name]
        for norm in filter(None, (layout.pre_norm, layout.final_norm)):
            found += [f"{norm}.weight", f"{norm}.bias"]
        for block in range(depth):
            start = layout.block.format(block)
            found += [f"{start}{norm}.{kind}" for norm in layout.norms for kind in _AFFINE]
            found += [start + scale for scale in layout.scales]
            products = [layout.attention + name for name in (*ATTENTION, layout.projection)]
            products += [*self.mlp, *(["mlp.gate_proj"] if self.gated else [])]
            found += [name for product in products for name in self.linear(start + product)]
        return sorted(found)
