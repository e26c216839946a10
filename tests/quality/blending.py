"""Pictures of one kind, with more or less of something else in them."""

from pathlib import Path

from PIL import Image

from tests.conftest import make_picture


def blended(folder: Path, seeds: range, share: float) -> Path:
    """A new folder with one picture for each seed; `share` of it is the seed's own."""
    folder.mkdir()
    base = make_picture(0)
    for seed in seeds:
        Image.blend(base, make_picture(seed), share).save(folder / f"{seed:02}.png")
    return folder
