"""From an image file to the input of an exported model. Needs numpy and Pillow, nothing else.

>>> pixels = load("part.png", 448)[None]   # (1, 448, 448, 3), uint8; the side stands in model.json
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps


def load(path: str, side: int) -> NDArray[np.uint8]:
    """The upright first frame, laid over white, as RGB, squashed to a square: bicubic."""
    with Image.open(path) as opened:
        image = ImageOps.exif_transpose(opened)
    if image.mode.startswith("I"):  # 16-bit grey on a fixed scale, never stretched per image
        image = Image.fromarray(np.asarray(image).astype(np.float32) / np.float32(257))
    elif image.mode == "F":  # grey from 0 to 1
        image = Image.fromarray(np.asarray(image) * np.float32(255))
    elif image.mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info:
        colours = image.convert("RGBA")
        white = Image.new("RGBA", colours.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, colours).convert("RGB")
    elif image.mode != "RGB":
        image = image.convert("RGB")
    values = np.asarray(image.resize((side, side), Image.Resampling.BICUBIC))
    if values.ndim == 2:  # the only pictures that lose something: the model takes 8 bits
        values = np.repeat(np.clip(np.rint(values), 0, 255)[:, :, None], 3, axis=2)
    return np.ascontiguousarray(values.astype(np.uint8))
