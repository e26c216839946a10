"""From good parts to a memory bank: reading them, and what is chosen from the first few."""

import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..decisions.roi import make_region
from ..encoders.encoder import Encoder, prepare
from ..errors import ImageError, NotFiniteError, UsageError
from ..images.loading import ImageSource, LoadedImage, NormalImage, batched, load_image
from ..images.reading import Images, distinct_images, single_images
from ..messages import Notify
from ..method.memory import MemoryBank
from ..views import PlainView
from .choices import (
    MAX_COST,
    ROTATED_COPIES,
    ROTATIONS_COST,
    TRIED,
    RotationChoice,
    choose_rotations,
    choose_view,
    upright,
)
from .encoding import (
    EncodedMemory,
    Orientations,
    batch_of,
    make_view,
    orientations_of,
    read_ahead_of,
)
from .settings import Settings, find_recipe

Sources: TypeAlias = Iterable[ImageSource | LoadedImage]


class SupportReader:
    """Makes memory banks of good parts, as a view sees them."""

    def __init__(
        self, view: PlainView, encoder: Encoder, batch_size: int | None, *, half: bool = False
    ) -> None:
        """`half` rounds patch tokens to what a file keeps of them at half precision, so that a
        saved detector says the same."""
        self._view, self._encoder, self._half = view, encoder, half
        self._batch_size = batch_of(view, encoder, batch_size)
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
                names = list(dict.fromkeys(normal.name for _, normal, _ in batch))
                raise NotFiniteError("good-part-not-finite", names=names, cause=error) from error
            bank = MemoryBank.of(tokens, [normal for _, normal, _ in batch])
            bank = bank.rounded() if self._half else bank
            pictures = [picture for _, _, picture in batch if picture is not None]
            banks.append(self._view.remember(bank, pictures, self._encoder))
            batch.clear()  # a picture goes before another is read
            pictures.clear()
        return banks

    def joined(self, banks: list[MemoryBank]) -> MemoryBank:
        """One bank of all; there must be at least one."""
        if not banks:
            raise UsageError("no-good-part", unreadable=len(self.skipped))
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

        ahead = read_ahead_of(view)
        found = distinct_images(
            images, entries, self.skipped, self._names, count=ahead, learnt=learnt
        )
        for normal, of_image in found:
            of_image.reverse()
            while of_image:
                pixels, whole = of_image.pop()
                yield pixels, normal, whole
                del whole


class Learner:
    """Reads good parts; from the first few it chooses how they are seen and remembered."""

    def __init__(self, settings: Settings, memory: EncodedMemory, notify: Notify) -> None:
        """`memory` has the encoder, which a choice may change."""
        self._settings, self._memory, self._notify = settings, memory, notify
        self.tile_side = settings.tile_side
        self.rotations = settings.first_rotations
        self.tentative = False
        self.region = make_region(settings.roi, None, settings.encoding.grid)
        self.skipped: list[ImageError] = []
        """Images that could not be read."""

    def learn(self, images: Images) -> MemoryBank:
        """The memory bank of good parts."""
        given, memory = self._settings, self._memory
        memory.see(given.encoding)
        rest: Images = images
        free = given.resolution is None and given.tiles is None and given.roi is None
        few: list[ImageSource | LoadedImage] = []
        if free or given.has_mask or self._may_rotate:
            few, rest = first_few(images)
        if free:
            self._choose_view(few)
        if given.has_mask:
            size = first_size(few)
            rest = rest if size else ()  # only the first pictures can measure the mask
            self.region = make_region(given.roi, size, memory.settings.grid)
        reader, banks = self._reader(), list[MemoryBank]()
        if self._may_rotate:
            choice, bank = self._tried(reader, few)
            few, self.rotations, self.tentative = [], choice.rotations, choice.tentative
            if choice.notice is not None:
                self._notify(choice.notice)
            banks = [] if bank is None else [bank if choice.rotations > 1 else upright(bank)]
            del bank
        orientations = orientations_of(memory.settings, self.rotations)
        for images in (few, rest):
            banks += reader.banks(images, (), orientations)
        return reader.joined(banks)

    def _choose_view(self, few: list[ImageSource | LoadedImage]) -> None:
        """Chooses resolution or tiles from the first few pictures."""
        plain, cost, size = self._settings.encoding, self._settings.max_cost, first_size(few)
        if size is None:
            return
        choice = choose_view(size, plain, cost)
        if choice.tile is not None and self._may_rotate and len(few) > 1:
            rotations, _ = self._tried(self._reader(), few)
            if rotations.rotations > 1 and not rotations.tentative:
                choice = choose_view(size, plain, cost, tiles=False)  # tiles have a fixed place
        if choice.notice is not None:
            self._notify(choice.notice)
        self._memory.see(replace(plain, resolution=choice.resolution))
        self.tile_side = choice.tile

    @property
    def _may_rotate(self) -> bool:
        """Whether it may find out if rotated copies help."""
        cost = MAX_COST if self._settings.max_cost is None else self._settings.max_cost
        asked = self._settings.rotations == "auto" and self.tile_side is None
        return asked and cost >= ROTATIONS_COST

    def _tried(
        self, reader: SupportReader, few: Sources
    ) -> tuple[RotationChoice, MemoryBank | None]:
        """What a few good parts in all orientations say of rotated copies, and their bank."""
        banks = reader.banks(few, (), orientations_of(self._memory.settings, ROTATED_COPIES))
        bank = MemoryBank.joined(banks) if banks else None
        return choose_rotations(bank), bank

    def _reader(self) -> SupportReader:
        settings, encoder = self._settings, self._memory.encoder
        view = make_view(settings, encoder.settings, self.tile_side, 1, False, self.region)
        half = find_recipe(settings.recipe).half_tokens
        reader = SupportReader(view, encoder, settings.batch_size, half=half)
        self.skipped = reader.skipped
        return reader


def first_few(images: Images) -> tuple[list[ImageSource | LoadedImage], Sources]:
    """The images from which choices are made, and those after them.

    A source may use its buffer again, so they are copied.
    """
    sources = single_images(images)
    found: list[ImageSource | LoadedImage] = []
    for source in itertools.islice(sources, TRIED):
        own = isinstance(source, np.ndarray | Image.Image)
        found.append(source.copy() if own else source)  # type: ignore[union-attr]
    return found, sources


def first_size(sources: Sources) -> tuple[int, int] | None:
    """Width and height of the first picture that can be read."""
    for source in sources:
        try:
            return load_image(source).size
        except ImageError:
            continue
    return None
