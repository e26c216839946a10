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

from ..decisions.routing import Route
from ..disk.files import write_file
from ..errors import UsageError
from ..images.loading import LoadedImage, save_picture
from .neighbours import NormalPatch, NormalView, as_it_is
from .page import LINE, NOTHING, PAGE_MARGIN, PALE, PAPER, Page, SupportPictures, fitted

if TYPE_CHECKING:
    from ..method.incidence import Incidence

Counts = NDArray[np.int64]

_SIDE, _GAP = 440, 32
_VIEW_SIDE = (_SIDE - 16) // 2
"""Two good parts stand side by side below an image."""
_MOST_VIEWS = 6
_HEAD_HEIGHT, _BAR = 76, 14
# From pale to dark, one hue after the other: legible for the colour-blind and in grey.
_RAMP = np.array(((255, 247, 188), (254, 196, 79), (217, 95, 14), (140, 20, 60), (60, 0, 70)))
_PATCH_OPACITY = 190
"""Of 255, the same for all values, so that colours can be compared with the scale."""
_PALEST = 110
"""What black becomes below them."""


@dataclass(frozen=True)
class Hypergraph:
    """Query patches × normal patches of one layer."""

    image: str
    layer: int
    lookup: str
    sharpness: float
    grid: int
    """Patches along each side, of the image and of every normal view."""
    incidence: "Incidence" = field(repr=False, compare=False)
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
        return self.incidence.sums(axis=0)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of the image's weight that each normal view carries."""
        by_view = self.carried.reshape(len(self.normal), -1).sum(axis=1)
        return np.asarray(by_view / max(float(by_view.sum()), 1e-12))

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
        return _drawn([self, *others], normal)

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
        own, views = self.incidence, self.normal
        arrays: dict[str, Any] = {  # those of `scipy.sparse.save_npz`, then ours
            "format": np.array(b"csr"),
            "shape": np.array(own.shape),
            "data": own.data,
            "indices": own.indices,
            "indptr": own.indptr,
            "_is_array": np.array(True),
            "product": np.array(self.route.nearest if self.route else ""),
            "normal_names": np.array([each.image.name for each in views]),
            "normal_sha256": np.array([each.image.sha256 for each in views]),
            "normal_views": np.array([each.view for each in views]),
            "normal_angles": np.array([each.angle for each in views]),
        }
        for name in ("image", "layer", "lookup", "sharpness", "grid", "sizes", "degrees"):
            arrays[name] = np.asarray(getattr(self, name))
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)
        write_file(target, content.getbuffer())


def _drawn(graphs: Sequence[Hypergraph], normal: Sequence[str | os.PathLike[str]]) -> Image.Image:
    """Sizes of hyperedges over the images, degrees over the good parts: side by side, on the same
    two colour scales."""
    support = [SupportPictures(graph.orientations, normal) for graph in graphs]
    shown = [fitted(graph.picture.rgb(), _SIDE) for graph in graphs]
    heaviest = [sorted(np.argsort(-g.shares, kind="stable")[:_MOST_VIEWS].tolist()) for g in graphs]
    views = [
        [_normal_picture(graph.normal[entry], found) for entry in entries]
        for graph, entries, found in zip(graphs, heaviest, support, strict=True)
    ]
    top = PAGE_MARGIN + _HEAD_HEIGHT
    middle = top + max(picture.height for picture in shown) + 60
    rows = max(-(-len(pictures) // 2) for pictures in views)
    step = max((view.height for own in views for view in own), default=0) + 26
    below = middle + rows * step + 12
    page = Page(2 * PAGE_MARGIN + len(graphs) * (_SIDE + _GAP) - _GAP, below + 70 + PAGE_MARGIN)
    sizes = max(1.0, *(float(graph.sizes.max()) for graph in graphs))
    degrees = max(1.0, *(float(graph.degrees.max()) for graph in graphs))
    for place, graph in enumerate(graphs):
        x = PAGE_MARGIN + place * (_SIDE + _GAP)
        page.text(x, PAGE_MARGIN, graph.image, 18, width=_SIDE)
        for line, words in enumerate(graph.words):
            page.text(x, PAGE_MARGIN + 26 + 18 * line, words, 13, PALE, _SIDE)
        page.canvas.paste(coloured(shown[place], graph.over(graph.sizes), sizes), (x, top))
        words = "size: normal patches that rebuild each patch"
        page.text(x, top + shown[place].height + 5, words, 13, width=_SIDE)
        words = "degree: patches that draw on each normal patch (percent: weight carried)"
        page.text(x, middle - 20, words, 13, width=_SIDE)
        for number, (entry, view) in enumerate(zip(heaviest[place], views[place], strict=True)):
            left, upper = x + (number % 2) * (_VIEW_SIDE + 16), middle + (number // 2) * step
            own = graph.over(graph.degrees, entry)
            page.canvas.paste(coloured(view, own, degrees), (left, upper))
            words = f"{graph.normal[entry].name}: {100 * graph.shares[entry]:.0f} %"
            page.text(left, upper + view.height + 3, words, 12, PALE, _VIEW_SIDE)
    page.draw.line((PAGE_MARGIN, below, page.canvas.width - PAGE_MARGIN, below), fill=LINE)
    _scale(page, PAGE_MARGIN, below + 12, "size", sizes)
    _scale(page, PAGE_MARGIN + _SIDE // 2 + 10, below + 12, "degree", degrees)
    next((found for found in support if found.missing), support[0]).tell_missing(
        page, PAGE_MARGIN, below + 70
    )
    return page.canvas


def _normal_picture(view: NormalView, support: SupportPictures) -> Image.Image:
    """A good part below an image, or an empty picture."""
    found = support.get(view.image.name, view.image.sha256, view.view)
    empty = Image.new("RGB", (_VIEW_SIDE, _VIEW_SIDE), NOTHING)
    return empty if found is None else fitted(found, _VIEW_SIDE)


def coloured(picture: Image.Image, values: NDArray[Any], most: float) -> Image.Image:
    """A pale picture under its patches, the darker the larger their values; 0 shows nothing.

    Patches are drawn as they are: between them there is nothing to show.
    """
    share = np.clip(values / most, 0, 1)
    place = np.linspace(0, 1, len(_RAMP))
    colours = np.stack([np.interp(share, place, channel) for channel in _RAMP.T], axis=-1)
    glow = Image.fromarray(np.rint(colours).astype(np.uint8))
    mask = Image.fromarray(np.where(share > 0, _PATCH_OPACITY, 0).astype(np.uint8))
    pale = picture.convert("L").point(
        [round(_PALEST + (255 - _PALEST) * n / 255) for n in range(256)]
    )
    size, nearest = picture.size, Image.Resampling.NEAREST
    shown = glow.resize(size, nearest), pale.convert("RGB"), mask.resize(size, nearest)
    return Image.composite(*shown)


def _scale(page: Page, left: int, top: int, name: str, most: float) -> None:
    """A bar of colours with the values at its ends and in the middle."""
    width = _SIDE // 2 - 20
    values = np.linspace(0, most, width)[None]
    bar = coloured(Image.new("RGB", (width, _BAR), PAPER), values, most)
    page.text(left, top, name, 13)
    page.canvas.paste(bar, (left, top + 20))
    for share in (0.0, 0.5, 1.0):
        text = f"{most * share:g}"
        x = left + share * width - (0 if share == 0 else page.draw.textlength(text) / 2)
        page.text(min(x, left + width - 16), top + 37, text, 12, PALE)
