"""The image as a whole: squashed to the encoder's square, compared with all normal patches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..decisions.interest import Interest
from ..decisions.thresholds import LeaveOneOut
from ..encoders.encoder import Encoder, PreparedImage
from ..encoders.tokens import ImageTokens, Tokens
from ..errors import UsageError
from ..evidence.active import Namer, layer_evidence
from ..evidence.patch import Neighbour
from ..images.grid import PatchGrid
from ..images.loading import LoadedImage
from ..images.perturbation import perturbed
from ..images.rotation import angle_of, turned_back
from ..messages import Progress, no_progress
from ..method.matching import Matcher, distances_apart
from ..method.memory import MemoryBank
from ..method.scoring import TokenScore
from .view import (
    LEVEL_IMAGES,
    SELF_DISTANCE,
    Place,
    ReadAgain,
    Rules,
    Shown,
    View,
    cells,
    distance_of_places,
    left_out,
)

LEVEL_BANK = 16
"""Normal images that those of the colour scale are compared with; hundreds would cost minutes and
change no colour."""

LEVEL_ENTRIES = 128
"""Entries of the bank that they are compared with, where each image has many orientations."""

PERTURBED = 6
"""Normal images that are perturbed for a threshold; each costs the time of five more."""
TIMES = 4
"""How often a part of them is left out; a memory bank is made each time."""
ALL_AT_ONCE = 16
"""With more normal images than this, those that are perturbed are left out together."""
MOST = 64
"""Normal images that they are compared with at most; copies of hundreds would fill the memory."""


@dataclass(frozen=True)
class _Perturbed:
    """The tokens of one normal image, and of its perturbed copies."""

    entries: list[int]
    itself: Tokens
    copies: Tokens


class WholeView(View):
    """Looks at the whole image at once, within a region of interest."""

    def __init__(self, rules: Rules, interest: Interest) -> None:
        super().__init__(rules)
        self.interest = interest

    def fitted(self, bank: MemoryBank) -> "WholeView":
        return self._over(bank, self.interest.learnt(bank, self.rules.comparison.grid))

    def _over(self, bank: MemoryBank, interest: Interest) -> "WholeView":
        view = WholeView(self.rules, interest)
        how = self.rules.comparison
        view.bank = bank
        view._rows = interest.rows(bank, how.grid)
        view._matcher = Matcher(bank.patches, how, view._rows)
        return view

    _matcher: Matcher
    _rows: Tensor | None
    """The rows of the bank that are compared with; None means all."""

    def visible(self, image: LoadedImage) -> LoadedImage:
        settings = self.rules.settings
        return self.interest.visible(image, settings.mean, settings.grid)

    def score(self, images: Sequence[PreparedImage], encoder: Encoder) -> list[TokenScore]:
        return self.score_tokens(encoder.encode_prepared([image.pixels for image in images]))

    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        return [self._score(image) for image in tokens.images()]

    def _score(self, image: ImageTokens) -> TokenScore:
        grid = self.rules.comparison.grid
        scales, kept = self.distances(image.patches)
        finest = scales[0] if kept is None else scales[0][kept]
        branches = self.rules.scoring(finest, image.cls, self.bank.cls)
        anomaly_map = scales.mean(dim=0).reshape(grid, grid).cpu().numpy()
        inside = None if kept is None else kept.reshape(grid, grid).cpu().numpy()
        return TokenScore(anomaly_map, branches, inside)

    def distances(self, patches: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
        """The distances of an image's patches, (scales, N), and which of them were compared."""
        kept = self.interest.patches(patches, self.rules.comparison.grid)
        return self._matcher.distances(patches, kept), kept

    def normal_distances(self) -> Tensor:
        """Each normal image against the others, or a lone one against itself without the patch in
        question and its neighbours."""
        entries = self.bank.entries
        images = min(LEVEL_BANK, max(LEVEL_IMAGES, LEVEL_ENTRIES // max(map(len, entries))))
        entries = entries[:images]
        bank = self.bank.first(sum(map(len, entries)))
        if len(entries) == 1:
            maps = [self._self_distances(bank.first(1))]
        else:
            maps = [self._held_out(bank, of_image) for of_image in entries[:LEVEL_IMAGES]]
        return torch.cat([scales.mean(dim=0) for scales in maps])

    def _held_out(self, bank: MemoryBank, entries: Sequence[int]) -> Tensor:
        others = self._over(bank.without(*entries), self.interest)
        scales, kept = others.distances(bank.patches_of(entries[0]))
        return scales if kept is None else scales[:, kept]

    def _self_distances(self, lone: MemoryBank) -> Tensor:
        """The distances of a lone image from itself; only of patches that are compared."""
        how = self.rules.comparison
        kept = self.interest.rows(lone, how.grid)
        places = cells(how.grid).to(lone.cls.device)
        places = places if kept is None else places[kept]
        tokens = [how.tokens(lone.patches, scale, kept) for scale in how.scales]
        found = distances_apart(tokens, tokens, distance_of_places(places, places), how)
        asked = self.interest.patches(lone.patches, how.grid) if kept is None else None
        return found if asked is None else found[:, asked]

    def leave_one_out(
        self, read_again: ReadAgain, encoder: Encoder, progress: Progress = no_progress
    ) -> LeaveOneOut | None:
        bank = self.bank
        asked = [
            found
            for entries in progress(bank.entries[:PERTURBED], "threshold")
            if (found := self._perturbed(entries, read_again, encoder)) is not None
        ]
        if not asked:
            return None
        total = min(len(bank.entries), MOST)
        passed_over = [entry for of_image in bank.entries[MOST:] for entry in of_image]
        remembered = [Shown.worst(self.score_tokens(image.copies)) for image in asked]
        held_out: list[Shown] = []
        largest = 0
        for group in _groups(asked, total) if total > 1 else ():
            left = [entry for image in group for entry in image.entries]
            others = self.fitted(bank.without(*left, *passed_over))
            held_out += [
                Shown.worst(others.score_tokens(image.itself) + others.score_tokens(image.copies))
                for image in group
            ]
            largest = max(largest, len(group))
        alone = [self._self_distances(bank.only(image.entries[0]))[0] for image in asked]
        apart = [float(SELF_DISTANCE(distances)) for distances in alone]
        return left_out(remembered, held_out, apart, total, total - largest)

    def _perturbed(
        self, entries: list[int], read_again: ReadAgain, encoder: Encoder
    ) -> _Perturbed | None:
        bank = self.bank
        picture = read_again(bank.images[entries[0]])
        if picture is None:
            return None
        copies = [encoder.encode([self.visible(copy)]) for copy in perturbed(picture)]
        return _Perturbed(entries, bank.tokens_of(entries[0]), Tokens.joined(copies))

    def grid_over(self, size: tuple[int, int]) -> PatchGrid:
        grid = self.rules.comparison.grid
        return PatchGrid(grid, grid, size)

    def place(
        self, picture: LoadedImage, at: tuple[float, float] | None, encoder: Encoder
    ) -> Place:
        how = self.rules.comparison
        (image,) = encoder.encode([self.visible(picture)]).images()
        scales, kept = self.distances(image.patches)
        anomaly_map = scales.mean(dim=0)
        if at is None:
            compared = anomaly_map if kept is None else anomaly_map.where(kept, -1)
            row, column = divmod(int(compared.argmax()), how.grid)
        else:
            row, column = self.grid_over(picture.size).cell(*at)
        patch = row * how.grid + column
        if at is not None and kept is not None and not kept[patch]:
            raise UsageError(
                f"{at[0]:g}, {at[1]:g} of {picture.name} lies outside the region of interest, where"
                " nothing is compared."
            )
        place = patch if kept is None else int(kept[:patch].sum())
        named = self._namer()
        layers = [
            layer_evidence(layer, scale, query[place], memory, how, named)
            for scale in how.scales
            for layer, query, memory in zip(
                self.rules.settings.layers,
                how.tokens(image.patches, scale, kept),
                how.tokens(self.bank.patches, scale, self._rows),
                strict=True,
            )
        ]
        value = float(anomaly_map[patch])
        return Place(row, column, value, value, tuple(layers))

    def _namer(self) -> Namer:
        """Names rows of the memory that is compared with."""
        bank, grid = self.bank, self.rules.comparison.grid
        kept = None if self._rows is None else self._rows.nonzero().flatten().tolist()
        orientation = {entry: n for group in bank.entries for n, entry in enumerate(group)}

        def named(row: int, weight: float, similarity: float) -> Neighbour:
            entry, patch = divmod(row if kept is None else kept[row], grid**2)
            image, (down, across) = bank.images[entry], divmod(patch, grid)
            turn = orientation[entry]
            angle = angle_of(turn, self.rules.rotations) if self.rules.rotations > 1 else 0.0
            x, y = (across + 0.5) / grid, (down + 0.5) / grid
            return Neighbour(
                image=image.name,
                sha256=image.sha256,
                view=turn,
                row=down,
                column=across,
                weight=weight,
                similarity=similarity,
                rows=grid,
                columns=grid,
                angle=angle,
                centre=turned_back(x, y, angle, image.size or (1, 1)),
            )

        return named


def _groups(asked: Sequence[_Perturbed], total: int) -> Iterator[Sequence[_Perturbed]]:
    """Who is left out together; somebody always stays."""
    times = 1 if total > ALL_AT_ONCE else min(len(asked), TIMES)
    for first in range(times):
        yield asked[first::times]
