"""The hypergraph of one image and layer: which normal patches rebuild which patches of the image.

Sparse Hyper Matching (Section 4.2 of the paper) matches one patch to a set. So every patch of the
image is a hyperedge, whose members are its active normal patches, and the whole image is a
hypergraph. `evidence` explains one place; this shows all places at once, and which good patches
carry the image.
"""

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..decisions.route import Route
from ..disk.files import write_file
from ..errors import UsageError
from ..images.loading import LoadedImage, save_picture
from .hypergraph_picture import DegreePanel, Panel, draw_hypergraphs
from .patch import NormalPatch, NormalView, as_it_is

if TYPE_CHECKING:  # scipy takes a while to load, and few ask for a hypergraph
    from scipy.sparse import csr_array

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Hypergraph:
    """Query patches × normal patches of one layer."""

    image: str
    layer: int
    lookup: str
    sharpness: float
    grid: int
    """Patches along each side, of the image and of every normal view."""
    incidence: "csr_array" = field(repr=False, compare=False)
    """Row r·grid + c is the patch in row r and column c of the image; the columns go view by view
    in the same order. Entries are the weights; a row adds up to 1, or to 0 outside a region of
    interest, where nothing is compared."""
    normal: tuple[NormalView, ...]
    picture: LoadedImage = field(repr=False, compare=False)
    orientations: Callable[[LoadedImage], list[LoadedImage]] = field(
        repr=False, compare=False, default=as_it_is
    )
    """What the detector remembers of a support image: itself, and perhaps turned copies."""
    route: Route | None = None
    """The image's product, where the detector knows several; its good parts are the columns."""

    @property
    def sizes(self) -> Counts:
        """The size of each hyperedge: how many normal patches rebuild a query patch, (N,)."""
        return np.asarray(np.diff(self.incidence.indptr), dtype=np.int64)

    @property
    def degrees(self) -> Counts:
        """The degree of each normal patch: how many query patches draw on it, (M,)."""
        return np.bincount(self.incidence.indices, minlength=self.incidence.shape[1])

    @property
    def carried(self) -> NDArray[np.float64]:
        """The weight that each normal patch carries of the whole image, (M,): a column's sum."""
        return np.asarray(self.incidence.sum(axis=0, dtype=np.float64))

    def place(self, column: int) -> NormalPatch:
        """The normal patch of a column: its image, and where it is in it."""
        if not 0 <= column < self.incidence.shape[1]:
            raise UsageError("column-unknown", given=column, last=self.incidence.shape[1] - 1)
        entry, patch = divmod(int(column), self.grid**2)
        row, across = divmod(patch, self.grid)
        return self.normal[entry].patch(row, across, self.grid, self.grid)

    def over(self, values: NDArray[Any], entry: int | None = None) -> NDArray[Any]:
        """Values of the query patches, or of the normal patches of one view, as a map."""
        start = 0 if entry is None else entry * self.grid**2
        own: NDArray[Any] = values[start : start + self.grid**2]
        return own.reshape(self.grid, self.grid)

    @property
    def words(self) -> tuple[str, str]:
        """What it is: the hyperedges, and the normal patches."""
        sizes, used = self.sizes[self.sizes > 0], np.count_nonzero(self.degrees)
        columns = self.incidence.shape[1]
        least, middle, most = np.quantile(sizes, [0, 0.5, 1]) if len(sizes) else (0, 0, 0)
        return (
            f"layer {self.layer}: {least:.0f} to {most:.0f} normal patches a patch (median"
            f" {middle:g})",
            f"{used} of {columns} normal patches used, by {self.degrees.max(initial=0)} patches at"
            " most",
        )

    def plot(
        self, *others: "Hypergraph", normal: Sequence[str | os.PathLike[str]] = ()
    ) -> Image.Image:
        """The sizes over the image, and the degrees over the normal images.

        `others` stand beside it on the same colour scales, such as a bad part beside a good one.
        Support images are looked for as in `Evidence.plot`.
        """
        return draw_hypergraphs([graph._panel() for graph in (self, *others)], normal)

    def save(
        self, path: str | os.PathLike[str], normal: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        """Writes the incidence (.npz) or the picture of `plot()`, as the name says.

        `scipy.sparse.load_npz` reads the matrix; numpy reads what else the file holds
        (docs/hypergraph.md). Nothing in it is pickled.
        """
        target = Path(path)
        if target.suffix.lower() != ".npz":
            save_picture(self.plot(normal=normal), target)
            return
        content = io.BytesIO()
        arrays: Any = self._arrays()
        np.savez_compressed(content, **arrays)
        write_file(target, content.getbuffer())

    def _panel(self) -> Panel:
        degrees, carried = self.degrees, self.carried
        total = max(float(carried.sum()), 1e-12)
        views = [
            DegreePanel(
                view.name,
                view.image.name,
                view.image.sha256,
                view.view,
                self.over(degrees, entry).astype(np.float64),
                float(self.over(carried, entry).sum()) / total,
            )
            for entry, view in enumerate(self.normal)
        ]
        sizes = self.over(self.sizes).astype(np.float64)
        picture = self.picture.rgb()
        return Panel(self.image, self.words, picture, sizes, tuple(views), self.orientations)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """The members of the file: those of `scipy.sparse.save_npz`, then ours."""
        own = self.incidence
        views = self.normal
        return {
            "format": np.array(b"csr"),
            "shape": np.array(own.shape),
            "data": own.data,
            "indices": own.indices,
            "indptr": own.indptr,
            "_is_array": np.array(True),
            "image": np.array(self.image),
            "product": np.array(self.route.nearest if self.route else ""),
            "layer": np.array(self.layer),
            "lookup": np.array(self.lookup),
            "sharpness": np.array(self.sharpness),
            "grid": np.array(self.grid),
            "sizes": self.sizes,
            "degrees": self.degrees,
            "normal_names": np.array([each.image.name for each in views]),
            "normal_sha256": np.array([each.image.sha256 for each in views]),
            "normal_views": np.array([each.view for each in views]),
            "normal_angles": np.array([each.angle for each in views]),
        }
