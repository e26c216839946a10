"""SubspaceAD and FastRecon with their authors' own settings, on whichever encoder is at hand.

The other peers read the tokens that all methods share, so that nothing but the method differs.
Here each method has the layers, resolution, preparation and scoring that its authors gave it, as
far as the encoder permits: on another one, the blocks at the same depth. The settings come from
their code (CLendering/SubspaceAD, FzJun26th/FastRecon); docs/measurements/benchmark.md says what
still differs.
"""

import math
import random
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...arrays import Array, to_numpy
from ...encoders import EncoderSpec, find_spec
from ...encoders.encoder import ImageTokens
from ...encoders.specs import MeanSettings, RawSettings
from .fastrecon import FastRecon
from .features import local_features, top_percent
from .peer import Layers, MethodOptions, OwnTokens
from .subspace import SubspaceAD

_random = random.Random(0)


def at_same_depth(blocks: tuple[int, ...], of: int, depth: int) -> tuple[int, ...]:
    """The blocks of a model that lie as deep as theirs in one of `of` blocks."""
    return tuple(sorted({max(1, round(block * depth / of)) for block in blocks}))


class SubspaceADAuthors(OwnTokens, SubspaceAD):
    """SubspaceAD as published, but for the encoder."""

    smoothing = 0.31
    """The deviation of their 3×3 kernel, 0.81 pixels of 672, in pixels of 256."""
    OPTIONS: ClassVar[MethodOptions] = {"variance": SubspaceAD.OPTIONS["variance"]}
    BLOCKS, DEPTH = tuple(range(23, 30)), 40
    RESOLUTION = 672
    angles = (0.0, *(_random.uniform(0, 345) for _ in range(30)))

    def encoding(self, spec: EncoderSpec, layers: Layers, resolution: int | None) -> MeanSettings:
        """Layers and resolution are the authors' unless they are given."""
        blocks = layers or at_same_depth(self.BLOCKS, self.DEPTH, spec.depth)
        size = resolution or max(1, round(self.RESOLUTION / spec.patch)) * spec.patch
        return spec.settings_of(MeanSettings, blocks, size)

    @classmethod
    def rows(cls, backbone: str) -> dict[str, dict[str, Any]]:
        """One row; on their own encoder nothing differs but what the module says."""
        spec = find_spec(backbone)
        theirs = (spec.family, spec.depth) == ("dinov2_with_registers", cls.DEPTH)
        return {f"subspace, authors' settings{'' if theirs else ' on another encoder'}": {}}

    def forget(self) -> None:
        """The memory: 31 views of 48×48 patches are 100 MB for each support image."""
        self._memory.bank = None

    def image_score(self, anomaly_map: Array, image: ImageTokens) -> float:
        """The mean of the largest hundredth of the map at the input's size, blurred."""
        return top_percent(blurred(anomaly_map, self.encoding_.resolution))


class FastReconAuthors(OwnTokens, FastRecon):
    """FastRecon as published, but for the encoder."""

    BLOCKS, DEPTH = (2, 3), 4
    GRID = 28

    def encoding(self, spec: EncoderSpec, layers: Layers, resolution: int | None) -> RawSettings:
        """Layers and resolution are the authors' unless they are given."""
        blocks = layers or at_same_depth(self.BLOCKS, self.DEPTH, spec.depth)
        return spec.settings_of(RawSettings, blocks, resolution or self.GRID * spec.patch)

    @classmethod
    def rows(cls, backbone: str) -> dict[str, dict[str, Any]]:
        """One row; their encoder is not a vision transformer, so it is always another."""
        return {"fastrecon, authors' settings on another encoder": {}}

    def features(self, layers: tuple[Array, ...]) -> Array:
        """Means of 3×3 places with zeros beyond the border, layers side by side."""
        return local_features(layers, self.encoding_.grid, zeros=True)


def blurred(anomaly_map: Array, size: int) -> NDArray[np.float32]:
    """A map at `size` pixels a side, bilinear, under a Gaussian of σ = 4 cut off at 3×3 pixels."""
    small = Image.fromarray(to_numpy(anomaly_map))
    large = np.asarray(small.resize((size, size), Image.Resampling.BILINEAR))
    beside = math.exp(-1 / (2 * 4.0**2))
    for axis in (0, 1):
        framed = np.pad(large, [(1, 1) if axis == each else (0, 0) for each in (0, 1)], "reflect")
        line = np.moveaxis(framed, axis, 0)
        mean = (beside * (line[:-2] + line[2:]) + line[1:-1]) / (1 + 2 * beside)
        large = np.moveaxis(mean, 0, axis)
    return large
