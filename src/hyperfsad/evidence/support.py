"""The pictures of good parts: under their stored names, or elsewhere by their hashes."""

import os
from collections.abc import Sequence

from PIL import Image

from ..errors import ImageError, UsageError
from ..images.finding import find_images
from ..images.loading import LoadedImage, load_image
from .patch import Neighbour, PatchEvidence


class SupportPictures:
    """The pictures of support images, as far as they are still on disk."""

    def __init__(self, evidence: PatchEvidence, normal: Sequence[str | os.PathLike[str]]) -> None:
        self._views = evidence.orientations
        self._normal = normal
        self._known: dict[str, list[Image.Image] | None] = {}
        self._elsewhere: dict[str, str] | None = None
        self.missing: dict[str, None] = {}
        """Names of those that are not, in the order in which they were asked for."""

    def get(self, neighbour: Neighbour) -> Image.Image | None:
        """What the neighbour is a patch of, or None."""
        if neighbour.sha256 not in self._known:
            found = self._find(neighbour)
            self._known[neighbour.sha256] = (
                None if found is None else [view.rgb() for view in self._views(found)]
            )
        pictures = self._known[neighbour.sha256]
        if pictures is None or neighbour.view >= len(pictures):
            self.missing[neighbour.image] = None
            return None
        return pictures[neighbour.view]

    def _find(self, neighbour: Neighbour) -> LoadedImage | None:
        picture = _loaded(neighbour.image)
        if picture is not None and picture.sha256() == neighbour.sha256:
            return picture
        if self._elsewhere is None:
            self._elsewhere = {}
            for path in find_images(self._normal).paths if self._normal else []:
                if (found := _loaded(path)) is not None:
                    self._elsewhere[found.sha256()] = path
        place = self._elsewhere.get(neighbour.sha256)
        return None if place is None else _loaded(place)


def _loaded(path: str) -> LoadedImage | None:
    try:
        return load_image(path)
    except (ImageError, UsageError):
        return None
