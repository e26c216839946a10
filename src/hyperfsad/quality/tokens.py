"""Tokens in, figures out: what coverage, drift and the theorems share."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import to_numpy
from ..detector.detector import HyperFSAD
from ..encoders.encoder import ImageTokens, prepare
from ..images.loading import NormalImage
from ..images.reading import Images, distinct_images
from ..method.memory import MemoryBank

Array = NDArray[np.float64]


def encode_images(
    detector: HyperFSAD,
    images: Images,
    *,
    distinct: bool = False,
    known: Iterable[NormalImage] = (),
) -> Iterator[tuple[str, ImageTokens]]:
    """Name and tokens of each readable image, in order; the others cause a warning.

    `distinct` leaves out copies of earlier pictures: a copy would count as a neighbour. `known`
    pictures are left out too, where only images count that the detector has not learnt.
    """
    refuse_departures(detector, patches=False)
    learnt = {image.sha256: image.name for image in known}
    found = distinct_images(
        images,
        lambda image: prepare(image, detector.encoding_),
        detector.skipped_,
        learnt,
        copies=not distinct,
    )
    for image, pixels in found:
        tokens = detector.encoder_.encode_prepared([pixels])
        yield image.name, ImageTokens(tuple(tokens.patches[0]), tokens.cls[0])


def numbers(values: Any) -> Array:
    """An array of any library as one of numpy, in float64."""
    return to_numpy(values).astype(np.float64)


def plain(value: Any) -> Any:
    """A report for JSON: dataclasses as dictionaries, arrays as lists, infinity as null."""
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def fitted_bank(detector: HyperFSAD) -> MemoryBank:
    """The memory bank of a detector, where its encoder has its tokens."""
    detector.require_fitted()
    return detector.memory_.to(detector.encoder_.tokens_on)


def refuse_departures(detector: HyperFSAD, *, patches: bool = True) -> None:
    """The theory holds for the paper's algorithm; `patches=False`: only the CLS token counts."""
    detector.check("theory" if patches else "theory of the CLS token")
