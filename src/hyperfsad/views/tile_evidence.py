"""Evidence where images are cut into tiles: which normal patches rebuilt a patch of a tile.

Where tiles overlap, several of them speak of a patch. Told is the one whose centre is nearest,
which weighs most; its value differs a little from the map's, the weighted mean of all.
"""

from typing import TYPE_CHECKING

import numpy as np

from ..evidence.evidence import Evidence, Neighbour
from ..evidence.explaining import layer_evidence, views_of
from ..images.loading import LoadedImage
from .tiled import compared, encoded_tile, tiling_of

if TYPE_CHECKING:
    from ..detector.hyperfsad import HyperFSAD


def explain_tile(
    detector: "HyperFSAD", picture: LoadedImage, x: float | None, y: float | None
) -> Evidence:
    """The evidence at x, y of the image's own pixels; without a place, at the map's peak."""
    encoder, memory, how = detector.encoder_, detector.tile_memory_, detector.comparison
    width, height = picture.size
    tiling = tiling_of(detector, picture.size)
    rows, columns = tiling.rows, tiling.columns
    if x is None or y is None:
        scales = compared(detector, picture)
        row, column = divmod(int(scales.mean(axis=0).argmax()), columns)
        x, y = (column + 0.5) * width / columns, (row + 0.5) * height / rows
    else:
        row, column = (
            min(int(y * rows / height), rows - 1),
            min(int(x * columns / width), columns - 1),
        )
    nearest, shown, value = tiling.nearest(row, column), 0.0, 0.0
    for number in tiling.over(row, column):
        tile = tiling[number]
        tokens = encoded_tile(encoder, picture, tiling, number)
        place = (row - tile.row, column - tile.column)
        distances = memory.distances(tuple(tokens), *tiling.centre(number)).mean(dim=0)
        found = float(distances[place[0] * how.grid + place[1]])
        shown += float(tiling.weight(number)[place]) * found
        if number == nearest:
            value, query, patch = found, tuple(tokens), place[0] * how.grid + place[1]
    places = memory.places(*tiling.centre(nearest))
    images = detector.memory_.images
    views = views_of(images)

    def neighbour(index: int, weight: float, similarity: float) -> Neighbour:
        which, cell = divmod(index, how.grid**2)
        number, tile_number = places[which]
        tiles = memory.images[number].tiling
        tile = tiles[tile_number]
        down, across = divmod(cell, how.grid)
        image = images[number]
        return Neighbour(
            image.name,
            image.sha256,
            views[number],
            tile.row + down,
            tile.column + across,
            weight,
            similarity,
            tiles.rows,
            tiles.columns,
            centre=(
                (tile.column + across + 0.5) / tiles.columns,
                (tile.row + down + 0.5) / tiles.rows,
            ),
        )

    layers = [
        layer_evidence(
            layer,
            scale,
            how.tokens(query, scale)[index][patch],
            memory.rows(places, scale, index),
            how,
            neighbour,
        )
        for scale in how.scales
        for index, layer in enumerate(detector.settings.layers)
    ]
    unit = np.array([width / columns, height / rows])
    left, upper = unit * (column, row)
    return Evidence(
        picture.name,
        x,
        y,
        row,
        column,
        how.grid,
        (float(left), float(upper), float(unit[0]), float(unit[1])),
        value,
        tuple(layers),
        picture,
        detector.support_views,
        shown,
        rows,
        columns,
    )
