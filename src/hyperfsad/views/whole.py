"""The image as a whole: squashed to the encoder's square, compared with all normal patches."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..decisions.region_of_interest import RegionOfInterest
from ..decisions.thresholds import LeaveOneOut
from ..encoders.encoder import Encoder, ImageTokens, PreparedImage, Tokens
from ..errors import UsageError
from ..evidence.active import Namer, layer_evidence
from ..evidence.hypergraph import Hypergraph, NormalView
from ..evidence.patch import MissingPiece, Neighbour
from ..images.geometry import PatchGrid, rotate_back, rotation_angle
from ..images.loading import LoadedImage
from ..messages import Progress, no_progress
from ..method.lookups import incidence, placed
from ..method.matching import Matcher, distances_apart, masked
from ..method.memory import MemoryBank
from ..method.missing import Missing, MissingPieces, missing_weight
from ..method.scoring import ImageScoring, TokenScore, cls_similarities
from .view import (
    LEVEL_IMAGES,
    SELF_DISTANCE,
    Place,
    Rules,
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

FACING = 2
"""Orientations of a normal image that an image is compared with, by their CLS tokens. On screws at
any angle two of eight rank as well as all eight (docs/rotations.md), at a quarter of the cost."""

CLEARLY_BETTER = 0.7
"""How far the CLS distance must fall by turning before tentative copies count."""

ASKED = 16
"""Normal images that are left out for a threshold."""
TIMES = 8
"""How often some of them are left out; a memory bank is made each time."""
ALL_AT_ONCE = 64
"""With this many normal images, those that are asked are left out together."""
MOST = 64
"""Normal images that they are compared with at most: copies of hundreds would fill the memory."""


class WholeView(View):
    """Looks at the whole image at once, within a region of interest."""

    def __init__(self, rules: Rules, region: RegionOfInterest) -> None:
        super().__init__(rules)
        self.region = region

    def fitted(self, bank: MemoryBank) -> "WholeView":
        return self._over(bank, self.region.learnt(bank, self.rules.comparison.grid))

    def compacted(self, kept: Tensor) -> "WholeView":
        return self._over(self.bank, self.region, kept.to(self.bank.cls.device))

    def _over(
        self, bank: MemoryBank, region: RegionOfInterest, core: Tensor | None = None
    ) -> "WholeView":
        view = WholeView(self.rules, region)
        how = self.rules.comparison
        view.bank, view.core = bank, core
        rows = region.rows(bank, how.grid)
        view._rows = core if rows is None else rows if core is None else rows & core
        view._matcher = Matcher(bank.patches, how, view._rows)
        view._pieces = view._find_pieces()
        view._scoring = self.rules.scoring
        if (most := self.rules.scoring.weights.get("missing")) is not None:
            weight = 0.0
            if view._pieces is not None:
                weight = missing_weight(most, len(bank.entries), view._pieces.difference())
            weights = {**view._scoring.weights, "missing": weight}
            view._scoring = replace(view._scoring, weights=weights)
        return view

    _matcher: Matcher
    _rows: Tensor | None
    """The rows of the bank that are compared with; None means all."""
    _pieces: MissingPieces | None
    """What is looked for in an image; None where that is not asked, or cannot be known."""
    _scoring: ImageScoring
    """With the weights that a bank of this size has."""

    @property
    def pieces(self) -> MissingPieces | None:
        """What is looked for in an image; None where that is not asked, or cannot be known."""
        return self._pieces

    @property
    def scoring(self) -> ImageScoring:
        """How an image score comes about, with the weights that a bank of this size has."""
        return self._scoring

    def _find_pieces(self) -> MissingPieces | None:
        """Pieces of the parts as they lie, of the layer in the middle; turned ones never match
        exactly."""
        bank, rules, grid = self.bank, self.rules, self.rules.comparison.grid
        asked = rules.scoring.weights.get("missing") and (rules.rotations == 1 or rules.tentative)
        if not asked or len(bank.entries) < 2:
            return None
        upright = [entries[0] for entries in bank.entries]
        images = [bank.patches_of(entry) for entry in upright]
        middle = len(rules.settings.layers) // 2
        kept = [self.region.patches(layers, grid) for layers in images]
        return MissingPieces(
            [layers[middle] for layers in images], bank.cls[upright, middle], grid, kept
        )

    def _missing(self, image: ImageTokens, facing: Tensor | None) -> Missing | None:
        """What an image lacks; None where that is not asked, or the part lies turned."""
        pieces, middle = self._pieces, len(self.rules.settings.layers) // 2
        upright = [entries[0] for entries in self.bank.entries]
        if pieces is None or (facing is not None and facing.sum() > facing[upright].sum()):
            return None
        return pieces.find(image.patches[middle], image.cls[middle])

    def _facing(self, cls: Tensor) -> Tensor | None:
        """The entries that an image is compared with, as a mask, (K,); None means all."""
        if self.rules.rotations == 1:
            return None
        distances = (1 - cls_similarities(cls, self.bank.cls)).clamp(min=0).mean(dim=1)
        chosen = distances.new_zeros(len(distances), dtype=torch.bool)
        for entries in self.bank.entries:
            own = distances[entries]
            if self.rules.tentative and own.min() > CLEARLY_BETTER * own[0]:
                chosen[entries[0]] = True
            else:
                nearest = own.topk(min(FACING, len(entries)), largest=False).indices
                chosen[torch.tensor(entries, device=cls.device)[nearest]] = True
        return chosen

    def _rows_of_entries(self, chosen: Tensor | None) -> Tensor | None:
        """The rows of these entries, (K·N,); None means all."""
        size = self.rules.comparison.grid**2
        return None if chosen is None else chosen.repeat_interleave(size)

    def _facing_cls(self, facing: Tensor | None) -> Tensor:
        """The CLS tokens that an image's is compared with: all, but for copies that do not count.

        Of a part that lies at any angle all count: each costs a product of two vectors.
        """
        return (
            self.bank.cls[facing] if self.rules.tentative and facing is not None else self.bank.cls
        )

    def visible(self, image: LoadedImage) -> LoadedImage:
        settings = self.rules.settings
        return self.region.visible(image, settings.mean, settings.grid)

    def score(self, images: Sequence[PreparedImage], encoder: Encoder) -> list[TokenScore]:
        return self.score_tokens(encoder.encode_prepared([image.pixels for image in images]))

    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        return [self._score(image) for image in tokens.images()]

    def score_entry(self, bank: MemoryBank, entry: int) -> TokenScore:
        (found,) = self.score_tokens(bank.tokens_of(entry))
        return found

    def _score(self, image: ImageTokens) -> TokenScore:
        grid = self.rules.comparison.grid
        facing = self._facing(image.cls)
        distances, kept = self.distances(image)
        compared = distances if kept is None else distances[kept]
        missing = self._missing(image, facing)
        lacking = self._lacking(missing, kept)
        lacks = missing.score if missing else 0.0
        branches = self._scoring(compared, image.cls, self._facing_cls(facing), lacks)
        forward = self.rules.comparison.map_of(distances, kept)
        maps = [forward] if lacking is None else [forward + lacking, lacking]
        shown, *added = [each.reshape(grid, grid).cpu().numpy() for each in maps]
        inside = None if kept is None else kept.reshape(grid, grid).cpu().numpy()
        return TokenScore(shown, branches, inside, *added)

    def _lacking(self, missing: Missing | None, kept: Tensor | None) -> Tensor | None:
        """What missing pieces add to the map, (N,); None: nothing."""
        if missing is None or not len(missing.places):
            return None
        added = self._scoring.weights["missing"] * missing.on_map(self.rules.comparison.grid**2)
        return added if kept is None else added * kept

    def distances(self, image: ImageTokens) -> tuple[Tensor, Tensor | None]:
        """The distances of an image's patches, (N,), and which of them were compared."""
        kept = self.region.patches(image.patches, self.rules.comparison.grid)
        rows = self._rows_of_entries(self._facing(image.cls))
        return self._matcher.distances(image.patches, kept, rows), kept

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
        return torch.cat(maps)

    def _held_out(self, bank: MemoryBank, entries: Sequence[int]) -> Tensor:
        others = self._over(bank.without(*entries), self.region)
        own = ImageTokens(bank.patches_of(entries[0]), bank.cls[entries[0]])
        distances, kept = others.distances(own)
        found = self.rules.comparison.map_of(distances, kept)
        return found if kept is None else found[kept]

    def _self_distances(self, lone: MemoryBank) -> Tensor:
        """The distances of a lone image from itself; only of patches that are compared."""
        how = self.rules.comparison
        kept = self.region.rows(lone, how.grid)
        places = cells(how.grid).to(lone.cls.device)
        places = places if kept is None else places[kept]
        tokens = masked(lone.patches, kept)
        found = distances_apart(tokens, tokens, distance_of_places(places, places), how)
        asked = self.region.patches(lone.patches, how.grid) if kept is None else None
        return found if asked is None else found[asked]

    def leave_one_out(self, progress: Progress = no_progress) -> LeaveOneOut:
        bank = self.bank
        asked = bank.entries[:ASKED]
        total = min(len(bank.entries), MOST)
        passed_over = [entry for of_image in bank.entries[MOST:] for entry in of_image]
        groups = _groups(asked, total) if total > 1 else []
        shown: dict[int, TokenScore] = {}
        for group in progress(groups, "threshold"):
            left = [entry for entries in group for entry in entries]
            others = self.fitted(bank.without(*left, *passed_over))
            for entries in group:
                shown[entries[0]] = others.score_entry(bank, entries[0])
        held_out = [shown[place] for place in sorted(shown)]  # as they were given
        apart = [self._self_distances(bank.only(entries[0])) for entries in asked]
        return left_out(held_out, [float(SELF_DISTANCE(each)) for each in apart], len(bank.entries))

    def grid_over(self, size: tuple[int, int]) -> PatchGrid:
        grid = self.rules.comparison.grid
        return PatchGrid(grid, grid, size)

    def place(
        self, picture: LoadedImage, at: tuple[float, float] | None, encoder: Encoder
    ) -> Place:
        how = self.rules.comparison
        (image,) = encoder.encode([self.visible(picture)]).images()
        facing = self._facing(image.cls)
        distances, kept = self.distances(image)
        missing = self._missing(image, facing)
        lacking = self._lacking(missing, kept)
        forward = how.map_of(distances, kept)
        anomaly_map = forward if lacking is None else forward + lacking
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
        rows = self._compared(facing)
        named = self._namer(rows)
        layers = [
            layer_evidence(layer, query[place], tokens, how, named)
            for layer, query, tokens in zip(
                self.rules.settings.layers,
                masked(image.patches, kept),
                masked(self.bank.patches, rows),
                strict=True,
            )
        ]
        piece = None if missing is None or lacking is None else self._piece(missing, patch)
        value, shown = float(distances[patch]), float(anomaly_map[patch])
        return Place(row, column, value, shown, tuple(layers), piece)

    def hypergraph(self, picture: LoadedImage, layer: int | None, encoder: Encoder) -> Hypergraph:
        how, layers = self.rules.comparison, self.rules.settings.layers
        layer = layers[-1] if layer is None else layer
        if layer not in layers:
            used = ", ".join(map(str, layers))
            raise UsageError(f"The layer is one that the detector uses ({used}), not {layer}.")
        (image,) = encoder.encode([self.visible(picture)]).images()
        kept = self.region.patches(image.patches, how.grid)
        rows, place = self._compared(self._facing(image.cls)), layers.index(layer)
        (query,) = masked([image.patches[place]], kept)
        (memory,) = masked([self.bank.patches[place]], rows)
        found = incidence(query, memory, how.lookup, how.sharpness)
        return Hypergraph(
            image=picture.name,
            layer=layer,
            lookup=how.lookup,
            sharpness=how.sharpness,
            grid=how.grid,
            incidence=placed(found, kept, rows),
            normal=self._entries(),
            picture=picture,
        )

    def _entries(self) -> tuple[NormalView, ...]:
        """What each entry of the bank shows."""
        found = {
            entry: NormalView(self.bank.images[entry], turn, self._angle(turn))
            for group in self.bank.entries
            for turn, entry in enumerate(group)
        }
        return tuple(found[entry] for entry in range(len(self.bank)))

    def _angle(self, turn: int) -> float:
        """Degrees by which an orientation of a normal image is turned."""
        return rotation_angle(turn, self.rules.rotations) if self.rules.rotations > 1 else 0.0

    def _compared(self, facing: Tensor | None) -> Tensor | None:
        """The rows of the bank that an image is compared with, as a mask; None means all."""
        rows = self._rows_of_entries(facing)
        return self._rows if rows is None else rows if self._rows is None else rows & self._rows

    def _piece(self, missing: Missing, patch: int) -> MissingPiece | None:
        """The piece of a good part that should be at a patch of an image."""
        source = missing.source_at(patch)
        if source is None:
            return None
        row = self.bank.entries[missing.image][0] * self.rules.comparison.grid**2 + source
        similarity, excess = float(missing.similarity[source]), float(missing.excess[source])
        return MissingPiece(self._namer(None)(row, 1.0, similarity), excess)

    def _namer(self, rows: Tensor | None) -> Namer:
        """Names the rows of the memory that a mask leaves; None leaves all."""
        bank, grid = self.bank, self.rules.comparison.grid
        kept = None if rows is None else rows.nonzero().flatten().tolist()
        orientation = {entry: n for group in bank.entries for n, entry in enumerate(group)}

        def named(row: int, weight: float, similarity: float) -> Neighbour:
            entry, patch = divmod(row if kept is None else kept[row], grid**2)
            image, (down, across) = bank.images[entry], divmod(patch, grid)
            turn = orientation[entry]
            angle = self._angle(turn)
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
                centre=rotate_back(x, y, angle, image.size or (1, 1)),
            )

        return named


def _groups(asked: Sequence[list[int]], total: int) -> list[Sequence[list[int]]]:
    """Who is left out together; somebody always stays."""
    times = 1 if total >= ALL_AT_ONCE else min(len(asked), TIMES)
    return [asked[first::times] for first in range(times)]
