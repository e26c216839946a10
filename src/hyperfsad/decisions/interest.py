"""Where to look: everywhere, in a fixed region, or at the part itself. One interface for all."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..images.loading import LoadedImage
from ..method.memory import MemoryBank
from .foreground import Foreground, find_foreground
from .roi import Roi, RoiSource, check_region, make_roi

AUTO = "auto"
"""The part itself, found in each picture."""


class Interest:
    """Everywhere; others say where."""

    roi: Roi | None = None
    """The region, where it is the same in all pictures and known by now."""

    @property
    def note(self) -> str | None:
        """What a user should know of it after learning, in one sentence."""
        return None

    def visible(self, image: LoadedImage, mean: Sequence[float], grid: int) -> LoadedImage:
        """What the encoder may see of a picture; `mean` is its mean colour."""
        return image

    def learnt(self, bank: MemoryBank, grid: int) -> "Interest":
        """The same, with what the normal images say of it."""
        return self

    def patches(self, layers: Sequence[Tensor], grid: int) -> Tensor | None:
        """The patches of an image that are compared, given its tokens, (N,); None means all."""
        return None

    def rows(self, bank: MemoryBank, grid: int) -> Tensor | None:
        """The rows of a memory bank that are used, (K·N,); None means all."""
        return None

    def described(self) -> Any:
        """What the header of a detector file says of it."""
        return None

    def tensors(self) -> dict[str, Tensor]:
        """What a detector file keeps of it."""
        return {}


class FixedRegion(Interest):
    """A mask or a polygon: the same place in all pictures, measured by the first one."""

    def __init__(self, source: RoiSource | Roi) -> None:
        self._source = source
        self.roi = source if isinstance(source, Roi) else None
        if not isinstance(source, Roi):
            check_region(source)

    def visible(self, image: LoadedImage, mean: Sequence[float], grid: int) -> LoadedImage:
        if self.roi is None:
            assert not isinstance(self._source, Roi)
            self.roi = make_roi(self._source, image.size, grid)
        return self.roi.hide(image, mean)

    def patches(self, layers: Sequence[Tensor], grid: int) -> Tensor | None:
        return None if self.roi is None else self.roi.touched(grid).to(layers[0].device)

    def rows(self, bank: MemoryBank, grid: int) -> Tensor | None:
        return None if self.roi is None else self.roi.rows(bank, grid)

    def described(self) -> Any:
        return None if self.roi is None else self.roi.described()

    def tensors(self) -> dict[str, Tensor]:
        return {} if self.roi is None else {"roi": self.roi.tensor()}


class PartItself(Interest):
    """The part, found in each picture from its tokens."""

    def __init__(self, foreground: Foreground | None = None) -> None:
        self._foreground = foreground

    @property
    def note(self) -> str | None:
        if self._foreground is not None:
            return None
        return (
            "No part stands out from its surroundings in these pictures; the region of interest"
            " is the whole picture."
        )

    def learnt(self, bank: MemoryBank, grid: int) -> Interest:
        return PartItself(find_foreground(bank, grid))

    def patches(self, layers: Sequence[Tensor], grid: int) -> Tensor | None:
        return None if self._foreground is None else self._foreground.patches(layers, grid)

    def described(self) -> Any:
        return AUTO


def make_interest(source: "RoiSource | Roi | None") -> Interest:
    """What a user asked for: None, `auto`, a mask, or the corners of a polygon."""
    if source is None:
        return Interest()
    if isinstance(source, str) and source == AUTO:
        return PartItself()
    return FixedRegion(source)
