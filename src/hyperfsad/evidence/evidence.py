"""Evidence as users hold it: the data of `patch`, with the picture of `picture` as a method."""

import os
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from ..images.loading import save_picture
from .patch import PatchEvidence
from .picture import draw_evidence


class Evidence(PatchEvidence):
    """Why the map has its value at one patch of an image."""

    def plot(
        self, normal: Sequence[str | os.PathLike[str]] = (), *, by_name: bool = True
    ) -> Image.Image:
        """The patch in its image, its neighbours in theirs, and what is left unexplained.

        Support images are looked for under their stored names, then by their hash in `normal`
        (files, globs or folders). Of those that are not on disk any more, only the names and places
        are shown, and a warning names them. `by_name=False` looks in `normal` alone: the names in a
        stranger's detector file may be any paths.
        """
        return draw_evidence(self, normal, by_name)

    def save(
        self, path: str | os.PathLike[str], normal: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        """Writes the picture of `plot()`; the kind of file follows from the name."""
        save_picture(self.plot(normal), Path(path))
