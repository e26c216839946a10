"""How an image is seen: one interface, as a whole (`whole`) or in tiles (`tiled`).

A view is made unfitted; `fitted` gives one that knows a memory bank and can be asked. It knows
nothing of the detector that uses it, only its rules.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..decisions.roi import RegionOfInterest
from ..decisions.thresholds import LeaveOneOut
from ..disk.tensors import StreamedTensor
from ..encoders import EncoderSettings
from ..encoders.encoder import Encoder, PreparedImage, Tokens
from ..errors import UsageError
from ..evidence.evidence import Evidence
from ..evidence.hypergraph import Hypergraph
from ..evidence.neighbours import LayerEvidence, LineEvidence, MissingPiece
from ..images.geometry import PatchGrid
from ..images.loading import LoadedImage
from ..messages import Progress, no_progress
from ..method.matching import Comparison
from ..method.memory import MemoryBank
from ..method.scoring import ImageScoring, Pooling, TokenScore

Cells: TypeAlias = NDArray[np.int64]
"""Rows and columns of patches on a grid, (N, 2)."""

SELF_DISTANCE = Pooling.parse("top-2%")
"""How far the places of a good part are from one another, in one number."""


@dataclass(frozen=True)
class ViewSettings:
    """All that a view needs to know of its detector."""

    settings: EncoderSettings
    comparison: Comparison
    scoring: ImageScoring
    rotations: int = 1
    """Orientations in which the memory bank holds each normal image."""
    tentative: bool = False
    """Whether rotated copies count only for images that they fit clearly better: one good part
    cannot tell whether parts lie at any angle."""
    batch_size: int | None = None


@dataclass(frozen=True)
class ScoreAndPeak:
    """The score of an image, and the peak of its map."""

    score: float
    peak: float


@dataclass(frozen=True)
class ExplainedPatch:
    """What a view found at one patch."""

    row: int
    column: int
    value: float
    """What is explained: the mean of what the layers leave over, or what unlabelled parts leave."""
    shown: float
    """What the map shows there."""
    layers: tuple[LayerEvidence, ...]
    missing: MissingPiece | None = None
    """The piece of a good part that should be there."""
    line: LineEvidence | None = None
    """The unlabelled parts that have it; None: they changed nothing there."""


class PlainView:
    """Images as they are: nothing is hidden, nothing is kept beside their tokens."""

    needs_pictures = False
    """Whether it cuts up pictures itself: then one at a time is held."""

    def prepare(self) -> None:
        """Makes at once what the first image would wait for."""

    def visible(self, image: LoadedImage) -> LoadedImage:
        """What the encoder may see of an image."""
        return image

    def remember(
        self, bank: MemoryBank, pictures: Sequence[LoadedImage], encoder: Encoder
    ) -> MemoryBank:
        """The bank of a few good parts with all that is kept of their pictures."""
        return bank


class View(PlainView, ABC):
    """Remembers good parts, and says of other images how far they are from them."""

    rules: ViewSettings
    region: RegionOfInterest
    bank: MemoryBank
    """The memory bank; there once it is fitted."""
    core: Array | None = None
    """The rows of the bank that a compact memory keeps, as a mask; None means all."""
    unlabelled: MemoryBank | None = None
    """Parts of the line that nobody has called good; None: there are none."""
    signs = False
    """Whether scores have signatures."""

    @abstractmethod
    def fitted(self, bank: MemoryBank) -> "View":
        """The same view with a memory bank, ready to be asked."""

    def compacted(self, kept: Array) -> "View":
        """The same view, compared with some rows of its bank alone; of whole images only."""
        raise NotImplementedError

    def adapted(self, unlabelled: MemoryBank | None, *, at_first: bool = False) -> "View":
        """The same view, which also knows unlabelled parts; of whole images only. `at_first` there
        may be bad ones among them."""
        raise NotImplementedError

    def signing(self) -> "View":
        """The same view, whose scores have signatures; of whole images only."""
        raise NotImplementedError

    def signed(
        self, image: PreparedImage, at: tuple[float, float] | None, encoder: Encoder
    ) -> TokenScore:
        """The score of an image with the signature of its strongest place, or of the strongest
        around a pixel; of whole images only."""
        raise NotImplementedError

    @abstractmethod
    def score(self, images: Sequence[PreparedImage], encoder: Encoder) -> list[TokenScore]:
        """The scores of a few images, as one batch."""

    @abstractmethod
    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        """The scores of images of which only the tokens as a whole are known."""

    @abstractmethod
    def score_entry(self, bank: MemoryBank, entry: int) -> "ScoreAndPeak | TokenScore":
        """What an image of another bank shows, whose tokens are known already."""

    @abstractmethod
    def leave_one_out(self, progress: Progress = no_progress) -> LeaveOneOut:
        """How the normal images score while they are left out."""

    @abstractmethod
    def grid_over(self, size: tuple[int, int]) -> PatchGrid:
        """The patches of the map over an image of a size."""

    @abstractmethod
    def explained(
        self, picture: LoadedImage, at: tuple[float, float] | None, encoder: Encoder
    ) -> ExplainedPatch:
        """What it finds at a pixel of an image; without one, at the map's peak."""

    def evidence(
        self, picture: LoadedImage, x: float | None, y: float | None, encoder: Encoder
    ) -> Evidence:
        """Which normal patches rebuilt the patch at x, y; without a place, at the map's peak."""
        if (x is None) != (y is None):
            raise UsageError("place-incomplete")
        at = None if x is None or y is None else (x, y)
        check_place(at, picture.size, picture.name)
        found, grid = self.explained(picture, at, encoder), self.grid_over(picture.size)
        x, y = grid.centre(found.row, found.column) if at is None else at
        return Evidence(
            image=picture.name,
            x=x,
            y=y,
            row=found.row,
            column=found.column,
            grid=self.rules.comparison.grid,
            bbox=grid.box(found.row, found.column),
            value=found.value,
            layers=found.layers,
            picture=picture,
            shown=found.shown,
            rows=grid.rows,
            columns=grid.columns,
            missing=found.missing,
            line=found.line,
        )

    def hypergraph(self, picture: LoadedImage, layer: int | None, encoder: Encoder) -> Hypergraph:
        """Which normal patches rebuild which patches of an image, in one layer; of whole images
        only."""
        raise NotImplementedError

    def stored(self) -> Any:
        """How images are cut up, as a detector's header says it; of tiles only."""
        raise NotImplementedError

    def tensors(self) -> dict[str, StreamedTensor]:
        """What a detector file keeps beside the memory bank; of tiles only."""
        raise NotImplementedError

    def reads_from(self, path: Path) -> bool:
        """Whether tokens are read from this file while images are scored."""
        return False

    def release(self, path: Path) -> None:
        """Lets a file be replaced that tokens are read from."""


def check_place(at: tuple[float, float] | None, size: tuple[int, int], image: str) -> None:
    """Refuses a place that does not lie in an image."""
    width, height = size
    if at is not None and not (0 <= at[0] < width and 0 <= at[1] < height):
        x, y = at
        raise UsageError("place-outside", x=x, y=y, image=image, width=width, height=height)


def cells(grid: int) -> Cells:
    """Row and column of each patch of a square grid, (N, 2)."""
    return np.stack(np.divmod(np.arange(grid * grid), grid), axis=-1)


def grid_distance(own: Cells, others: Cells) -> NDArray[np.int64]:
    """How many patches apart two sets of places are, (own, others)."""
    rows, columns = (np.abs(np.subtract.outer(own[:, k], others[:, k])) for k in (0, 1))
    return np.asarray(np.maximum(rows, columns))
