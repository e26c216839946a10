"""How evidence is found: the image is encoded again, and rows of the memory are named."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from ..encoders.tokens import ImageTokens
from ..errors import UsageError
from ..images.loading import LoadedImage, NormalImage
from ..images.rotation import turned_back
from ..method.matcher import Comparison
from ..method.matching import LOOKUPS, SPARSE
from .evidence import Evidence, LayerEvidence, Neighbour

if TYPE_CHECKING:
    from ..detector.hyperfsad import HyperFSAD
    from ..results.result import AnomalyResult

MOST_NEIGHBOURS = 512
"""Active patches listed of a layer: sparsemax has dozens, dense lookups have the whole memory."""

SAME = 1e-3
"""An image or a detector has changed when the map now differs by more than rounding explains."""

Namer: TypeAlias = Callable[[int, float, float], Neighbour]
"""What is told of a row of a memory, given its weight and its similarity."""


def evidence_of(result: "AnomalyResult", x: float | None, y: float | None) -> Evidence:
    """The evidence for a result that a detector gave before."""
    if result.error is not None or result.source is None:
        raise UsageError(f"There is nothing to explain for {result.image}: {result.error}")
    detector = result.detector() if result.detector is not None else None
    if detector is None:
        raise UsageError(
            f"The detector that judged {result.image} is gone; keep it while its results are asked,"
            " or call the evidence method of a loaded one with the image."
        )
    from ..detector.hyperfsad import HyperFSAD

    if not isinstance(detector, HyperFSAD):
        raise UsageError(f"{type(detector).__name__} rebuilds no patches; only HyperFSAD explains.")
    if x is None and y is None:
        row, column = divmod(int(result.anomaly_map.argmax()), result.anomaly_map.shape[1])
        x = (column + 0.5) * result.size[0] / result.anomaly_map.shape[1]
        y = (row + 0.5) * result.size[1] / result.anomaly_map.shape[0]
    found = explain(detector, result.loaded(), x, y)
    if abs(found.shown - float(result.anomaly_map[found.row, found.column])) > SAME:
        raise UsageError(
            f"{result.image} or the detector has changed since the result was made; predict again."
        )
    return found


def explain(
    detector: "HyperFSAD", picture: LoadedImage, x: float | None = None, y: float | None = None
) -> Evidence:
    """The evidence at x, y of an image's own pixels; without a place, at the map's peak."""
    width, height = picture.size
    if (x is None) != (y is None):
        raise UsageError("A place is given by both x and y.")
    if x is not None and y is not None and not (0 <= x < width and 0 <= y < height):
        raise UsageError(
            f"{x:g}, {y:g} lies outside {picture.name}, which has {width}×{height} pixels."
        )
    if detector.tile_side is not None:
        from ..views.tile_evidence import explain_tile

        return explain_tile(detector, picture, x, y)
    grid = detector.settings.grid
    tokens = detector.encoder_.encode([detector.seen(picture)])
    image = ImageTokens(tuple(tokens.patches[0]), tokens.cls[0])
    anomaly_map = detector.patch_scores(image).mean(dim=0)
    inside = detector.inside(image)
    if x is None or y is None:
        looked_at = anomaly_map if inside is None else anomaly_map.where(inside, -1)
        row, column = divmod(int(looked_at.argmax()), grid)
        x, y = (column + 0.5) * width / grid, (row + 0.5) * height / grid
    else:
        row, column = min(int(y * grid / height), grid - 1), min(int(x * grid / width), grid - 1)
    patch = row * grid + column
    if inside is not None and not inside[patch]:
        raise UsageError(
            f"{x:g}, {y:g} of {picture.name} lies outside the region of interest, where nothing is"
            " compared."
        )
    how = detector.comparison
    rows = how.rows(detector.memory_)
    place = patch if inside is None else int(inside[:patch].sum())
    named = _namer(detector, None if rows is None else rows.nonzero().flatten().tolist())
    layers = [
        (scale, *layer)
        for scale in how.scales
        for layer in zip(
            detector.settings.layers,
            how.tokens(image.patches, scale, inside),
            how.tokens(detector.memory_.patches, scale, rows),
            strict=True,
        )
    ]
    value = float(anomaly_map[patch])
    return Evidence(
        picture.name,
        x,
        y,
        row,
        column,
        grid,
        (column * width / grid, row * height / grid, width / grid, height / grid),
        value,
        tuple(
            layer_evidence(layer, scale, query[place], memory, how, named)
            for scale, layer, query, memory in layers
        ),
        picture,
        detector.support_views,
        value,
        grid,
        grid,
    )


def _namer(detector: "HyperFSAD", kept: list[int] | None) -> Namer:
    """Names rows of the memory bank; `kept` are their places in it where some are left out."""
    images, grid = detector.memory_.images, detector.settings.grid
    views = views_of(images)

    def named(row: int, weight: float, similarity: float) -> Neighbour:
        which, patch = divmod(row if kept is None else kept[row], grid**2)
        image, place = images[which], divmod(patch, grid)
        angle = detector.angle_of_view(views[which])
        x, y = (place[1] + 0.5) / grid, (place[0] + 0.5) / grid
        return Neighbour(
            image.name,
            image.sha256,
            views[which],
            *place,
            weight,
            similarity,
            grid,
            grid,
            angle,
            turned_back(x, y, angle, image.size or (1, 1)),
        )

    return named


def layer_evidence(
    layer: int,
    scale: int,
    query: Tensor,
    memory: Tensor,
    how: Comparison,
    named: Namer,
) -> LayerEvidence:
    """The active rows of a memory, `named` as neighbours."""
    similarities = query[None] @ memory.T
    sharp = how.sharpness * similarities
    if how.lookup in SPARSE:
        ((_, index, weights),) = [group for group in SPARSE[how.lookup](sharp) if len(group[0])]
        index, weights = index[0], weights[0]
    else:
        weights, index = LOOKUPS[how.lookup](sharp)[0].sort(descending=True, stable=True)
    rebuilt = weights @ memory[index]
    unexplained = 1 - float(torch.cosine_similarity(query, rebuilt, dim=0))
    active = int((weights > 0).sum())
    told = min(active, MOST_NEIGHBOURS)
    cosines = similarities[0, index[:told]].tolist()
    rows = zip(index[:told].tolist(), weights[:told].tolist(), cosines, strict=True)
    neighbours = [named(row, weight, cosine) for row, weight, cosine in rows]
    rest = max(0.0, float(weights[told:].sum())) if told < active else 0.0
    return LayerEvidence(layer, unexplained, tuple(neighbours), rest, scale)


def views_of(images: tuple[NormalImage, ...]) -> list[int]:
    """For each entry of the memory bank, the how-manieth copy of its image it is."""
    seen: dict[str, int] = {}
    views = []
    for image in images:
        views.append(seen.get(image.sha256, 0))
        seen[image.sha256] = views[-1] + 1
    return views
