"""All that can be done for an image before the encoder sees it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..images.loading import LARGEST_DRAWN, ImageSource, LoadedImage, load_image
from .encoder import prepare
from .specs import EncoderSettings


@dataclass(frozen=True)
class PreparedImage:
    """An image as the encoder takes it; its own pixels are dropped unless they are asked for."""

    source: ImageSource
    name: str
    size: tuple[int, int]
    pixels: NDArray[np.float32]
    """The encoder's input, (3, resolution, resolution)."""
    picture: LoadedImage | None
    """To draw upon: the image, or a reduced copy of a large one."""
    whole: LoadedImage | None = None
    """The image itself, where a detector cuts tiles from it."""


Sight = Callable[[LoadedImage], LoadedImage]
"""What an encoder may see of a picture."""


def everything(image: LoadedImage) -> LoadedImage:
    """An encoder may see all of it."""
    return image


def prepared(
    source: ImageSource,
    settings: EncoderSettings,
    keep_picture: bool,
    seen: Sight = everything,
    *,
    keep_whole: bool = False,
) -> PreparedImage:
    """All that can be done for an image before the encoder sees it; `seen` is what it may see."""
    return prepared_picture(
        load_image(source), settings, keep_picture, seen, source, keep_whole=keep_whole
    )


def prepared_picture(
    loaded: LoadedImage,
    settings: EncoderSettings,
    keep_picture: bool = False,
    seen: Sight = everything,
    source: "ImageSource | None" = None,
    *,
    keep_whole: bool = False,
) -> PreparedImage:
    """The same for a picture that was read already."""
    return PreparedImage(
        loaded.pixels if source is None else source,
        loaded.name,
        loaded.size,
        prepare(seen(loaded), settings),
        loaded.reduced(LARGEST_DRAWN) if keep_picture else None,
        loaded if keep_whole else None,
    )
