"""A vision tower as an OpenVINO graph, from pixels to tokens.

Every tower here is the same: patches, CLS and registers with their positions, then blocks of
attention and MLP. Blocks past the last selected layer are not built. Nodes are named after the
modules of `transformers`, so that one can be found again.

Where a patch is depends on the size of the picture alone, so in a graph it is a constant: tables of
positions are resized as `transformers` does it, bicubic, pixel centres at half, which torch rounds
to float32; the angles are those of its DINOv3.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .eight_bits import rounded
from .families import ATTENTION
from .folders import TowerWeights
from .runtime import import_openvino, openvino_operations
from .specs import EncoderSettings

_Scale: TypeAlias = NDArray[np.float32] | None


def token_model(
    weights: TowerWeights, settings: EncoderSettings, images: int = 1, *, eight_bits: bool = False
) -> Any:
    """The graph from pixels (images, 3, side, side) to the patch and the CLS tokens of the selected
    layers. -1 images: any number. `eight_bits`: the matrices are rounded to that."""
    openvino, ops = import_openvino(), openvino_operations()
    side = settings.resolution
    pixels = ops.parameter([images, 3, side, side], np.float32, name="pixels")
    outputs = tokens(weights, settings, pixels, eight_bits=eight_bits)
    return openvino.Model(list(outputs), [pixels], "encoder")


def tokens(
    weights: TowerWeights, settings: EncoderSettings, pixels: Any, *, eight_bits: bool = False
) -> tuple[Any, Any]:
    """From the node of the pixels to those of the patch tokens (images, planes, patches, D) and the
    CLS tokens (images, planes, D), in the form that the settings ask for."""
    graph = _Graph(weights, settings, eight_bits)
    ops, layers, found = graph.ops, settings.layers, []
    states = graph.embedded(pixels)
    for block in range(layers[-1]):
        states = graph.block(states, block)
        if block + 1 in layers:
            last = settings.last_norm and block + 1 == layers[-1]
            normed = settings.final_norm or last
            found.append(graph.norm(states, weights.tower.layout.final_norm) if normed else states)
    planes = ops.concat([ops.unsqueeze(each, _ints([1])) for each in found], 1)
    if settings.form == "mean":
        planes = ops.reduce_mean(planes, _ints([1]), keep_dims=True)
    if settings.form == "unit":
        planes = ops.normalize_l2(planes, _ints([3]), 1e-24, "max")
    prefix = weights.tower.prefix
    patches = ops.slice(planes, _ints([prefix]), _ints([2**31 - 1]), _ints([1]), _ints([2]))
    return patches, ops.gather(planes, _ints(0), _ints(2))


def _ints(values: Any) -> NDArray[np.int64]:
    return np.array(values, np.int64)


class _Graph:
    """The parts of a tower."""

    def __init__(self, weights: TowerWeights, settings: EncoderSettings, eight_bits: bool) -> None:
        self.ops = openvino_operations()
        self._matrix = rounded if eight_bits else self._constant
        self._weights, self._tower, self._grid = weights, weights.tower, settings.grid
        self._turns = None
        if self._tower.layout.positions is None:
            cosine, sine = rotary(
                self._grid, self._tower.head_width, self._tower.rope_theta, self._tower.prefix
            )
            half = self._tower.head_width // 2
            sine[:, :half] *= -1  # of the pair (x, y), x becomes x·cos − y·sin
            self._turns = self._constant(cosine), self._constant(sine)

    def embedded(self, pixels: Any) -> Any:
        """What the first block sees: CLS, registers and patches, each with its position."""
        ops, layout, weights = self.ops, self._tower.layout, self._weights
        step = [self._tower.patch] * 2
        kernel = self._constant(weights[f"{layout.patch}.weight"])
        states = ops.convolution(pixels, kernel, step, [0, 0], [0, 0], [1, 1])
        if layout.patch_bias:
            bias = weights[f"{layout.patch}.bias"].reshape(1, -1, 1, 1)
            states = ops.add(states, self._constant(bias))
        states = ops.reshape(states, _ints([0, 0, -1]), special_zero=True)
        states = ops.transpose(states, _ints([0, 2, 1]))
        none, before = _ints([0, 0, 0]), _ints([0, self._tower.prefix, 0])
        states = ops.pad(states, before, none, "constant", ops.constant(np.float32(0)))
        states = ops.add(states, self._constant(self._places()))
        return self.norm(states, layout.pre_norm) if layout.pre_norm else states

    def _places(self) -> NDArray[np.float32]:
        """What is added to the patches and the empty places before them."""
        tower, layout, weights = self._tower, self._tower.layout, self._weights
        cls = weights[layout.cls].reshape(1, tower.width)
        patches = np.zeros((self._grid**2, tower.width), np.float32)
        if layout.positions is not None:
            table = weights[layout.positions].reshape(-1, tower.width)
            cls = cls + table[:1]
            patches = resized(table[1:], self._grid, layout.antialias)
        registers = weights[layout.registers][0] if layout.registers else cls[:0]
        return np.concatenate([cls, registers, patches])[None]

    def block(self, states: Any, number: int) -> Any:
        """One block: attention, then the MLP, each added to what came in."""
        tower, layout, start = self._tower, self._tower.layout, self._block(number)
        scales = dict(enumerate(self._weights[start + name] for name in layout.scales))
        seen = self.norm(states, start + layout.norms[0])
        found = self._attention(seen, start, scales.get(0))
        states = self.ops.add(found, states)
        seen = self.norm(states, start + layout.norms[1])
        first, second = (start + module for module in tower.mlp)
        found = self._linear(seen, first)
        if tower.gated:
            gate = self._activated(self._linear(seen, f"{start}mlp.gate_proj"))
            found = self.ops.multiply(gate, found)
        else:
            found = self._activated(found)
        return self.ops.add(self._linear(found, second, scales.get(1)), states)

    def _block(self, number: int) -> str:
        return self._tower.layout.block.format(number)

    def _attention(self, states: Any, start: str, scale: _Scale) -> Any:
        ops, tower, layout = self.ops, self._tower, self._tower.layout
        heads = _ints([0, 0, tower.heads, tower.head_width])
        swap = _ints([0, 2, 1, 3])
        # 1/√d goes into the queries' matrix: OpenVINO would scale the keys, which takes longer
        scales = {"q_proj": np.full(tower.width, tower.head_width**-0.5, np.float32)}
        parts = []
        for name in ATTENTION:
            part = self._linear(states, f"{start}{layout.attention}{name}", scales.get(name))
            part = ops.transpose(ops.reshape(part, heads, special_zero=True), swap)
            parts.append(part if name == "v_proj" else self._turned(part))
        mask, factor = np.float32(0), np.float32(1)
        found = ops.scaled_dot_product_attention(*parts, mask, factor)
        whole = _ints([0, 0, tower.width])
        found = ops.reshape(ops.transpose(found, swap), whole, special_zero=True)
        return self._linear(found, f"{start}{layout.attention}{layout.projection}", scale)

    def _turned(self, part: Any) -> Any:
        """Queries or keys, turned by the angles of their places where a family does so."""
        if self._turns is None:
            return part
        ops, (cosine, sine) = self.ops, self._turns
        first, second = ops.split(part, _ints(3), 2).outputs()
        crossed = ops.concat([second, first], 3)
        return ops.add(ops.multiply(part, cosine), ops.multiply(crossed, sine))

    def _activated(self, states: Any) -> Any:
        return _ACTIVATIONS[self._tower.activation](self.ops, states)

    def norm(self, states: Any, name: str) -> Any:
        """A layer norm."""
        ops, weights = self.ops, self._weights
        found = ops.mvn(states, _ints([2]), True, self._tower.eps, "INSIDE_SQRT")
        found = ops.multiply(found, self._constant(weights[f"{name}.weight"]))
        return ops.add(found, self._constant(weights[f"{name}.bias"]))

    def _linear(self, states: Any, module: str, scale: _Scale = None) -> Any:
        """A product and its bias; a scale of its outputs is part of the matrix, since OpenVINO
        computes a product alone faster."""
        matrix, *bias = (self._weights[name] for name in self._tower.linear(module))
        if scale is not None:
            matrix, bias = matrix * scale[:, None], [each * scale for each in bias]
        found = self.ops.matmul(states, self._matrix(matrix), False, True, name=f"{module}/MatMul")
        for each in bias:
            found = self.ops.add(found, self._constant(each))
        return found

    def _constant(self, values: NDArray[np.float32]) -> Any:
        """A constant that takes no memory of its own."""
        whole = np.ascontiguousarray(values)
        return import_openvino().op.Constant(whole, shared_memory=True)


_ACTIVATIONS: dict[str, Any] = {
    "gelu": lambda ops, x: ops.gelu(x, "erf"),
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh"), lambda ops, x: ops.gelu(x, "tanh")),
    "quick_gelu": lambda ops, x: ops.swish(x, np.float32(1.702)),
    **dict.fromkeys(("silu", "swish"), lambda ops, x: ops.swish(x)),
    "relu": lambda ops, x: ops.relu(x),
}
"""By the names that configs use."""


def resized(table: NDArray[np.float32], side: int, antialias: bool = False) -> NDArray[np.float32]:
    """A table of (patches of a square, D), row by row, for a square of side × side patches."""
    trained = math.isqrt(len(table))
    if trained**2 != len(table):
        raise ValueError(f"a table of {len(table)} positions is no square")
    if trained == side:
        return table
    weights = (_smoothed_weights if antialias else _cubic_weights)(trained, side)
    grid = table.reshape(trained, trained, -1).astype(np.float64)
    found: NDArray[np.float64] = np.einsum("ir,jc,rcd->ijd", weights, weights, grid, optimize=True)
    return found.reshape(side * side, -1).astype(np.float32)


def _cubic(distance: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
    """The cubic convolution kernel (Keys, 1981) at some distances."""
    x = np.abs(distance)
    near = (slope + 2) * x**3 - (slope + 3) * x**2 + 1
    far = slope * (x**3 - 5 * x**2 + 8 * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _centres(trained: int, side: int) -> NDArray[np.float32]:
    """The middle of each of `side` places on a scale of `trained` ones."""
    middles = np.arange(side, dtype=np.float32) + np.float32(0.5)
    found: NDArray[np.float32] = middles * np.float32(trained / side)
    return found


def _cubic_weights(trained: int, side: int) -> NDArray[np.float64]:
    """What each of `side` places takes from each of `trained` ones; beyond the edge it repeats."""
    centres = _centres(trained, side) - np.float32(0.5)
    weights = np.zeros((side, trained))
    for step in range(-1, 3):
        place = np.floor(centres).astype(int) + step
        amount = _cubic(centres.astype(np.float64) - place, -0.75)
        np.add.at(weights, (np.arange(side), place.clip(0, trained - 1)), amount)
    return weights


def _smoothed_weights(trained: int, side: int) -> NDArray[np.float64]:
    """The same with the kernel as wide as a place; beyond the edge there is nothing."""
    width = max(trained / side, 1.0)
    centres = _centres(trained, side).astype(np.float64)[:, None]
    places = np.arange(trained)[None]
    first = np.maximum((centres - 2 * width + 0.5).astype(int), 0)
    last = np.minimum((centres + 2 * width + 0.5).astype(int), trained)
    weights = _cubic((places - centres + 0.5) / width, -0.5)
    weights = np.where((places >= first) & (places < last), weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def rotary(
    side: int, head_width: int, theta: float, prefix: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cosine and sine, each (prefix + patches, head_width), by which DINOv3 turns queries and keys.

    The tokens before the patches have no place and are not turned.
    """
    centres = (np.arange(side) + 0.5) / side * 2 - 1
    rows, columns = np.meshgrid(centres, centres, indexing="ij")
    places = np.stack([rows, columns], axis=-1).reshape(-1, 2, 1)
    frequencies = theta ** -(np.arange(head_width // 4) * 4 / head_width)
    angles = (2 * np.pi * places * frequencies).reshape(len(places), -1)
    angles = np.tile(angles, 2)
    none = np.zeros((prefix, head_width))
    angles = np.concatenate([none, angles])
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
