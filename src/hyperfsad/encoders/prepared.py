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


Visible = Callable[[LoadedImage], LoadedImage]
"""What an encoder may see of a picture."""


def prepared(
    source: ImageSource | LoadedImage,
    settings: EncoderSettings,
    visible: Visible,
    *,
    keep_picture: bool = False,
    keep_whole: bool = False,
) -> PreparedImage:
    """All that can be done for an image before the encoder sees it."""
    loaded = load_image(source)
    return PreparedImage(
        loaded.pixels if isinstance(source, LoadedImage) else source,
        loaded.name,
        loaded.size,
        prepare(visible(loaded), settings),
        loaded.reduced(LARGEST_DRAWN) if keep_picture else None,
        loaded if keep_whole else None,
    )
