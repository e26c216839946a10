"""Pictures of support images: under their stored names, or by their hashes elsewhere."""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property

from PIL import Image

from ..errors import HyperfsadWarning, ImageError, UsageError
from ..images.loading import LoadedImage, load_image
from ..images.reading import find_images
from ..messages import Notice


class SupportPictures:
    """What a detector remembers of its support images, found again on disk."""

    def __init__(
        self,
        orientations: Callable[[LoadedImage], list[LoadedImage]],
        normal: Sequence[str | os.PathLike[str]],
        by_name: bool = True,
    ) -> None:
        """`normal` says where images may lie that are not where they were: files, globs, folders;
        without `by_name` nothing else is opened.

        `orientations` gives an image in all orientations that are remembered, itself first.
        """
        self._orientations, self._normal, self._by_name = orientations, normal, by_name
        self._known: dict[str, list[Image.Image]] = {}
        self.missing: dict[str, None] = {}
        """Names of those that are not on disk, in the order in which they were asked for."""

    def get(self, name: str, sha256: str, view: int) -> Image.Image | None:
        """A view of the support image with this name and hash, or None."""
        if sha256 not in self._known:
            found = self._find(name, sha256)
            views = self._orientations(found) if found else []
            self._known[sha256] = [view.rgb() for view in views]
        pictures = self._known[sha256]
        if view < len(pictures):
            return pictures[view]
        self.missing[name] = None
        return None

    def warn_missing(self) -> str:
        """Warns of good parts that could not be shown; their names, for the picture."""
        names = list(self.missing)
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        warnings.warn(Notice("support-gone", names=listed), HyperfsadWarning, stacklevel=5)
        return listed

    def _find(self, name: str, sha256: str) -> LoadedImage | None:
        picture = _loaded(name) if self._by_name else None
        if picture and picture.sha256() == sha256:
            return picture
        place = self._elsewhere.get(sha256)
        return _loaded(place) if place else None

    @cached_property
    def _elsewhere(self) -> dict[str, str]:
        """The paths in `normal` by the hashes of their pixels."""
        paths = find_images(self._normal).paths if self._normal else []
        return {found.sha256(): path for path in paths if (found := _loaded(path))}


def _loaded(path: str) -> LoadedImage | None:
    try:
        return load_image(path)
    except (ImageError, UsageError):
        return None
