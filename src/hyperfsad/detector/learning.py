"""Reading good parts: each is checked, shown to the encoder in its views, and remembered."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..encoders.encoder import prepare
from ..errors import ImageError, UsageError
from ..images.loading import LARGEST_DRAWN, LoadedImage, NormalImage, batched
from ..images.reading import Images, distinct_images
from ..method.memory import MemoryBank
from .predicting import Predictor

IN_HAND = 6
"""Normal images that are kept as pictures while a detector is fitted."""

Follow: TypeAlias = "Callable[[Sequence[Any], str], Iterable[Any]]"
"""Passes items on, and may show how far it is; the text says what is being done."""

View = tuple[NDArray[np.float32], LoadedImage | None]
"""What the encoder takes, and the picture where the detector cuts it up itself."""


def unseen(items: Sequence[Any], what: str) -> Iterable[Any]:
    """Shows nothing."""
    return items


class Learner(Predictor):
    """Makes memory banks of good parts."""

    skipped_: list[ImageError]
    """Normal images of the last `fit` or `extend` that could not be read."""
    follow: Follow
    """How long work on images that were read before shows itself; commands have a bar."""
    _in_hand: dict[str, LoadedImage]
    """Normal images that came as pictures, while a method may still want to see them."""

    def support_views(self, image: LoadedImage) -> list[LoadedImage]:
        """What is remembered of a normal image: the image itself, first, and perhaps variants.

        Each view counts as one image of the memory bank, under the name and hash of its image.
        """
        return [image]

    def closer(self, bank: MemoryBank, pictures: Sequence[LoadedImage]) -> MemoryBank:
        """The bank of a few views, with whatever else a method keeps of their pictures."""
        return bank

    def _new_banks(self, images: Images, known: tuple[NormalImage, ...]) -> list[MemoryBank]:
        """A bank for each batch of normal images that are readable and new."""
        self.skipped_ = []
        self._in_hand = {}
        hashes = {image.sha256: image.name for image in known}
        banks = []
        for batch in batched(self._new_images(images, hashes), self._held_at_once):
            tokens = self.encoder_.encode_prepared([view for view, _, _ in batch])
            bank = MemoryBank.of(tokens, [normal for _, normal, _ in batch])
            banks.append(self.closer(bank, [picture for _, _, picture in batch if picture]))
            batch.clear()  # a picture goes before another is read
        return banks

    def _joined(self, banks: list[MemoryBank]) -> MemoryBank:
        """One bank of all, of which there must be one."""
        if not banks:
            reason = "none could be read" if self.skipped_ else "none was given"
            raise UsageError(f"There is no normal image to learn from: {reason}.")
        return MemoryBank.joined(banks)

    def _new_images(
        self, images: Images, hashes: dict[str, str]
    ) -> Iterator[tuple[NDArray[np.float32], NormalImage, LoadedImage | None]]:
        """What the encoder takes of each view, what it is a view of, and its picture if needed."""

        def views(image: LoadedImage) -> tuple[list[View], LoadedImage | None]:
            shown = [self.seen(view) for view in self.support_views(self.seen(image))]
            found = [
                (prepare(view, self.settings), view if self.needs_pictures else None)
                for view in shown
            ]
            return found, image if _cannot_be_read_again(image) else None

        found = distinct_images(
            images,
            views,
            self.skipped_,
            hashes,
            kind="A normal image",
            count=self.read_ahead,
        )
        for normal, (prepared_views, picture) in found:
            if picture is not None and len(self._in_hand) < IN_HAND:
                self._in_hand[normal.sha256] = picture
            prepared_views.reverse()
            while prepared_views:
                view, whole = prepared_views.pop()
                yield view, normal, whole
                del whole


def _cannot_be_read_again(image: LoadedImage) -> bool:
    """Whether it is no file; large ones are let go all the same, as they would fill the memory."""
    width, height = image.size
    return width * height <= LARGEST_DRAWN and not os.path.isfile(image.name)
