"""Reading good parts: each is checked, encoded in its orientations, and remembered."""

from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..encoders.encoder import Encoder, prepare
from ..errors import ImageError, NotFiniteError, UsageError
from ..images.loading import LoadedImage, NormalImage, batched
from ..images.reading import Images, distinct_images
from ..method.memory import MemoryBank
from ..views import Plain

Orientations: TypeAlias = Callable[[LoadedImage], list[LoadedImage]]
"""What is remembered of a normal image: itself first, and perhaps turned copies."""


class SupportReader:
    """Makes memory banks of good parts, as a view looks at them."""

    def __init__(self, view: Plain, encoder: Encoder, batch_size: int, read_ahead: int) -> None:
        self._view, self._encoder = view, encoder
        self._batch_size, self._read_ahead = batch_size, read_ahead
        self.skipped: list[ImageError] = []
        """Images that could not be read."""
        self._names: dict[str, str] = {}

    def banks(
        self, images: Images, known: tuple[NormalImage, ...], orientations: Orientations
    ) -> list[MemoryBank]:
        """A bank for each batch of normal images that are readable and new.

        New is what is neither `known` from before nor was read by this reader.
        """
        learnt = {image.sha256: image.name for image in known}
        self._names |= learnt
        banks = []
        for batch in batched(self._new_images(images, learnt, orientations), self._batch_size):
            try:
                tokens = self._encoder.encode_prepared([pixels for pixels, _, _ in batch])
            except NotFiniteError as error:
                names = ", ".join(dict.fromkeys(normal.name for _, normal, _ in batch))
                raise NotFiniteError("not-learnt", images=names, error=error) from error
            bank = MemoryBank.of(tokens, [normal for _, normal, _ in batch])
            pictures = [picture for _, _, picture in batch if picture is not None]
            banks.append(self._view.remember(bank, pictures, self._encoder))
            batch.clear()  # a picture goes before another is read
            pictures.clear()
        return banks

    def joined(self, banks: list[MemoryBank]) -> MemoryBank:
        """One bank of all, of which there must be one."""
        if not banks:
            reason = "none could be read" if self.skipped else "none was given"
            raise UsageError(f"There is no normal image to learn from: {reason}.")
        return MemoryBank.joined(banks)

    def _new_images(
        self, images: Images, learnt: Collection[str], orientations: Orientations
    ) -> Iterator[tuple[NDArray[np.float32], NormalImage, LoadedImage | None]]:
        """The encoder's input for each entry, the image it shows, and its picture if needed."""
        view, settings = self._view, self._encoder.settings

        def entries(image: LoadedImage) -> list[tuple[NDArray[np.float32], LoadedImage | None]]:
            shown = [view.visible(copy) for copy in orientations(view.visible(image))]
            return [
                (prepare(copy, settings), copy if view.needs_pictures else None) for copy in shown
            ]

        found = distinct_images(
            images,
            entries,
            self.skipped,
            self._names,
            count=self._read_ahead,
            learnt=learnt,
        )
        for normal, of_image in found:
            of_image.reverse()
            while of_image:
                pixels, whole = of_image.pop()
                yield pixels, normal, whole
                del whole
