"""The image as a whole: squashed to the encoder's square, compared with all normal patches."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, like, namespace, single, to_numpy
from ..decisions.roi import RegionOfInterest
from ..decisions.thresholds import LeaveOneOut
from ..encoders.encoder import Encoder, ImageTokens, PreparedImage, Tokens
from ..errors import UsageError
from ..evidence.hypergraph import Hypergraph
from ..evidence.neighbours import (
    LineEvidence,
    MissingPiece,
    Namer,
    Neighbour,
    NormalView,
    layer_evidence,
)
from ..images.geometry import PatchGrid, rotation_angle
from ..images.loading import LoadedImage
from ..messages import Progress, no_progress
from ..method.incidence import incidence, placed
from ..method.lookups import reconstruct
from ..method.matching import Matcher, distances_apart, masked
from ..method.memory import MemoryBank
from ..method.missing import Missing, MissingPieces, missing_weight
from ..method.scoring import ImageScoring, TokenScore, cls_similarities
from ..method.signature import Signature, make_signature, signature_layers, strongest_place
from ..method.unlabelled import AGREEING, AGREEING_AT_FIRST, UnlabelledParts, agreeing
from .view import (
    SELF_DISTANCE,
    ExplainedPatch,
    View,
    ViewSettings,
    cells,
    check_place,
    grid_distance,
)

COMPARED_ORIENTATIONS = 2
"""Orientations of a normal image that an image is compared with, by their CLS tokens. On screws at
any angle two of eight rank as well as all eight (docs/measurements/rotations.md), at a
quarter of the cost."""

CLEARLY_BETTER = 0.7
"""How far the CLS distance must fall by turning before tentative copies count."""

SAME_PICTURE = 1e-4
"""CLS tokens of one picture differ by less, also in float16; those of two good parts by 1e-3."""

HELD_OUT_IMAGES = 16
"""Normal images that are left out for a threshold."""
HELD_OUT_GROUPS = 8
"""How often some of them are left out; a memory bank is made each time."""
ALL_AT_ONCE = 64
"""With this many normal images, those that are left out are left out together."""
HELD_OUT_BANK = 64
"""Normal images that they are compared with at most: copies of hundreds would fill the memory."""


@dataclass(frozen=True)
class Compared:
    """An image against the memory bank."""

    entries: NDArray[np.bool_] | None
    """The entries that it was compared with, as a mask, (K,); None means all."""
    inside: Array | None
    """The patches that were compared, as a mask, (N,); None means all."""
    support: Array
    """The distances of its patches to the support, (N,)."""
    distances: Array
    """The same after unlabelled parts have lowered some, (N,)."""
    missing: Missing | None
    """What it lacks; None where that is not asked, or the part lies turned."""
    added: Array | None
    """What missing pieces add to the map, (N,); None: nothing."""
    anomaly_map: Array
    """With that, (N,)."""


class WholeView(View):
    """Sees the whole image at once, within a region of interest."""

    _matcher: Matcher
    _rows: Array | None
    """The rows of the bank that are compared with; None means all."""
    _line: UnlabelledParts | None = None
    """The unlabelled parts; None: there are none."""
    pieces: MissingPieces | None
    """What is searched for in an image; None where that is not asked, or cannot be known."""
    scoring: ImageScoring
    """How an image score comes about, with the weights that a bank of this size has."""

    def __init__(self, rules: ViewSettings, region: RegionOfInterest) -> None:
        self.rules, self.region = rules, region
        self._grid = rules.comparison.grid
        self._middle = len(rules.settings.layers) // 2
        """The layer in which missing pieces are searched for."""

    def fitted(self, bank: MemoryBank) -> "WholeView":
        return self._over(bank, self.region.learnt(bank, self._grid))

    def compacted(self, kept: Array) -> "WholeView":
        return self._over(self.bank, self.region, like(kept, self.bank.cls))

    def adapted(self, unlabelled: MemoryBank | None, *, at_first: bool = False) -> "WholeView":
        view = self._over(self.bank, self.region, self.core, unlabelled)
        if unlabelled is not None:
            share = AGREEING_AT_FIRST if at_first else AGREEING
            view._line = view._ready(unlabelled, agreeing(len(unlabelled), share))
        return view

    def _over(
        self,
        bank: MemoryBank,
        region: RegionOfInterest,
        core: Array | None = None,
        unlabelled: MemoryBank | None = None,
    ) -> "WholeView":
        view = WholeView(self.rules, region)
        view.bank, view.core, view.unlabelled = bank, core, unlabelled
        view._rows = _both(region.rows(bank, self._grid), core)
        view._matcher = Matcher(bank.patches, self.rules.comparison, view._rows)
        view.pieces, view.scoring = view._find_pieces(), self.rules.scoring
        if (most := self.rules.scoring.weights.get("missing")) is not None:
            weight = 0.0
            if view.pieces is not None:
                weight = missing_weight(most, len(bank.entries), view.pieces.difference())
            weights = {**view.scoring.weights, "missing": weight}
            view.scoring = replace(view.scoring, weights=weights)
        return view

    def _ready(self, unlabelled: MemoryBank, m: int) -> UnlabelledParts:
        """Unlabelled parts within the region of interest, ready to be asked."""
        parts = []
        for part in range(len(unlabelled)):
            layers = [single(layer) for layer in unlabelled.patches_of(part)]
            parts.append(masked(layers, self.region.patches(layers, self._grid)))
        return UnlabelledParts(parts, self.rules.comparison, m)

    def _itself(self, cls: Array) -> int | None:
        """The unlabelled part that an image is, if it was learnt itself; no part may explain
        itself."""
        assert self.unlabelled is not None
        alike = to_numpy(cls_similarities(cls, self.unlabelled.cls)).min(axis=1)
        place = int(alike.argmax())
        return place if alike[place] > 1 - SAME_PICTURE else None

    def _find_pieces(self) -> MissingPieces | None:
        """Pieces of the parts as they lie; turned ones never match exactly."""
        bank, rules = self.bank, self.rules
        asked = rules.scoring.weights.get("missing") and (rules.rotations == 1 or rules.tentative)
        if not asked or len(bank.entries) < 2:
            return None
        upright = [entries[0] for entries in bank.entries]
        images = [bank.patches_of(entry) for entry in upright]
        masks = [self.region.patches(layers, self._grid) for layers in images]
        middle = [layers[self._middle] for layers in images]
        return MissingPieces(middle, bank.cls[upright, self._middle], self._grid, masks)

    def _compared_entries(self, cls: Array) -> NDArray[np.bool_] | None:
        """The entries that an image is compared with, as a mask, (K,); None means all."""
        if self.rules.rotations == 1:
            return None
        similarities = to_numpy(cls_similarities(cls, self.bank.cls))
        distances = np.maximum(1 - similarities, 0).mean(axis=1)
        chosen = np.zeros(len(distances), dtype=np.bool_)
        for entries in self.bank.entries:
            own = distances[entries]
            if self.rules.tentative and own.min() > CLEARLY_BETTER * own[0]:
                chosen[entries[0]] = True
            else:
                count = min(COMPARED_ORIENTATIONS, len(entries))
                chosen[np.array(entries)[own.argsort(stable=True)[:count]]] = True
        return chosen

    def prepare(self) -> None:
        self._matcher.prepare()

    def visible(self, image: LoadedImage) -> LoadedImage:
        return self.region.visible(image, self.rules.settings.mean)

    def score(self, images: Sequence[PreparedImage], encoder: Encoder) -> list[TokenScore]:
        return self.score_tokens(encoder.encode_prepared([image.pixels for image in images]))

    def score_tokens(self, tokens: Tokens) -> list[TokenScore]:
        return [self._score(image) for image in tokens.images()]

    def score_entry(self, bank: MemoryBank, entry: int) -> TokenScore:
        (found,) = self.score_tokens(bank.tokens_of(entry))
        return found

    def signing(self) -> "WholeView":
        view = copy(self)
        view.signs = True
        return view

    def signed(
        self, image: PreparedImage, at: tuple[float, float] | None, encoder: Encoder
    ) -> TokenScore:
        check_place(at, image.size, image.name)
        cell = None if at is None else self.grid_over(image.size).cell(*at)
        (tokens,) = encoder.encode_prepared([image.pixels]).images()
        found = self.signing()._score(tokens, cell)
        if at is not None and found.inside is not None and not found.inside[cell]:
            raise UsageError("place-outside-roi", x=at[0], y=at[1], image=image.name)
        return found

    def _score(self, image: ImageTokens, near: tuple[int, int] | None = None) -> TokenScore:
        """`near` is the row and the column around which the signature is taken."""
        found = self._compare(image)
        # of a part that lies at any angle all CLS tokens count: each costs a product of two vectors
        few = self.rules.tentative and found.entries is not None
        cls = self.bank.cls[like(found.entries, self.bank.cls)] if few else self.bank.cls
        (compared,) = masked([found.distances], found.inside)
        lacks = found.missing.score if found.missing else 0.0
        branches = self.scoring(compared, image.cls, cls, lacks)
        shown, inside, added = (
            None if each is None else to_numpy(each).reshape(self._grid, self._grid)
            for each in (found.anomaly_map, found.inside, found.added)
        )
        signature = self._signature(image, found, near) if self.signs else None
        return TokenScore(shown, branches, inside, added, signature)  # type: ignore[arg-type]

    def _signature(
        self, image: ImageTokens, found: Compared, near: tuple[int, int] | None
    ) -> Signature | None:
        """What the strongest place of an image has that good parts do not."""
        anomaly_map = to_numpy(found.anomaly_map).reshape(self._grid, self._grid)
        place, how = strongest_place(anomaly_map, near), self.rules.comparison
        rows, residuals = _both(self._rows_of(found.entries), self._rows), []
        queries = image.patches[-1]
        for layer in signature_layers(len(image.patches)):
            tokens = single(image.patches[layer])
            queries = namespace(tokens).take(tokens, like(place.patches, tokens), axis=0)
            (memory,) = masked([self.bank.patches[layer]], rows)
            rebuilt = reconstruct(how.sharpness * queries, single(memory), how.lookup)
            residuals.append(to_numpy(queries - rebuilt))
        return make_signature(residuals, to_numpy(queries), place.weights)

    def _compare(self, image: ImageTokens) -> Compared:
        """The distances of an image's patches, what it lacks, and its map."""
        entries = self._compared_entries(image.cls)
        support, inside = self._distances(image, entries)
        distances = support
        if self._line is not None:
            count = len(distances) if inside is None else int(to_numpy(inside).sum())
            decisive = self.scoring.pooling.patches_of(count)
            distances = self._line.lowered(
                distances, image.patches, decisive, without=self._itself(image.cls)
            )
        missing = self._missing(image, entries)
        anomaly_map, added = self.rules.comparison.map_of(distances, inside), None
        if missing is not None and bool(namespace(missing.on_map).any(missing.on_map > 0)):
            added = self.scoring.weights["missing"] * missing.on_map
            if inside is not None:
                added = added * namespace(added).astype(inside, added.dtype)
            anomaly_map = anomaly_map + added
        return Compared(entries, inside, support, distances, missing, added, anomaly_map)

    def distances(self, image: ImageTokens) -> tuple[Array, Array | None]:
        """The distances of an image's patches, (N,), and which of them were compared."""
        return self._distances(image, self._compared_entries(image.cls))

    def _distances(
        self, image: ImageTokens, entries: NDArray[np.bool_] | None
    ) -> tuple[Array, Array | None]:
        inside = self.region.patches(image.patches, self._grid)
        return self._matcher.distances(image.patches, inside, self._rows_of(entries)), inside

    def _rows_of(self, entries: NDArray[np.bool_] | None) -> Array | None:
        """The rows of these entries, (K·N,); None means all."""
        return None if entries is None else like(entries.repeat(self._grid**2), self.bank.cls)

    def _missing(self, image: ImageTokens, entries: NDArray[np.bool_] | None) -> Missing | None:
        """What an image lacks; None where that is not asked, or the part lies turned."""
        upright = [group[0] for group in self.bank.entries]
        turned = entries is not None and bool(entries.sum() > entries[upright].sum())
        if self.pieces is None or turned:
            return None
        return self.pieces.find(image.patches[self._middle], image.cls[self._middle])

    def _self_distances(self, lone: MemoryBank) -> Array:
        """The distances of a lone image from itself; only of patches that are compared."""
        rows = self.region.rows(lone, self._grid)
        places = cells(self._grid)
        places = places if rows is None else places[to_numpy(rows)]
        tokens, apart = masked(lone.patches, rows), like(grid_distance(places, places), lone.cls)
        found = distances_apart(tokens, tokens, apart, self.rules.comparison)
        inside = self.region.patches(lone.patches, self._grid) if rows is None else None
        return found if inside is None else found[inside]

    def leave_one_out(self, progress: Progress = no_progress) -> LeaveOneOut:
        bank = self.bank
        asked = bank.entries[:HELD_OUT_IMAGES]
        total = min(len(bank.entries), HELD_OUT_BANK)
        passed_over = [entry for of_image in bank.entries[HELD_OUT_BANK:] for entry in of_image]
        times = 1 if total >= ALL_AT_ONCE else min(len(asked), HELD_OUT_GROUPS)
        groups = [asked[first::times] for first in range(times)] if total > 1 else []
        shown: dict[int, TokenScore] = {}
        for group in progress(groups, "threshold"):
            left = [entry for entries in group for entry in entries]
            others = self.fitted(bank.without(*left, *passed_over))
            for entries in group:
                shown[entries[0]] = others.score_entry(bank, entries[0])
        held_out = [shown[place] for place in sorted(shown)]  # as they were given
        apart = [self._self_distances(bank.only(entries[0])) for entries in asked]
        return LeaveOneOut.of(held_out, map(SELF_DISTANCE, apart), len(bank.entries))

    def grid_over(self, size: tuple[int, int]) -> PatchGrid:
        return PatchGrid(self._grid, self._grid, size)

    def explained(
        self, picture: LoadedImage, at: tuple[float, float] | None, encoder: Encoder
    ) -> ExplainedPatch:
        (image,) = encoder.encode([self.visible(picture)]).images()
        found = self._compare(image)
        anomaly_map = to_numpy(found.anomaly_map)
        inside = None if found.inside is None else to_numpy(found.inside)
        if at is None:
            compared = anomaly_map if inside is None else np.where(inside, anomaly_map, -1)
            row, column = divmod(int(compared.argmax()), self._grid)
        else:
            row, column = self.grid_over(picture.size).cell(*at)
        patch = row * self._grid + column
        if at is not None and inside is not None and not inside[patch]:
            raise UsageError("place-outside-roi", x=at[0], y=at[1], image=picture.name)
        rows = _both(self._rows_of(found.entries), self._rows)
        named, memory = self._namer(rows), masked(self.bank.patches, rows)
        layers = [
            layer_evidence(layer, query[patch], tokens, self.rules.comparison, named)
            for layer, query, tokens in zip(
                self.rules.settings.layers, image.patches, memory, strict=True
            )
        ]
        missing = found.missing if found.added is not None else None
        piece = None if missing is None else self._piece(missing, patch)
        value, shown = float(found.distances[patch]), float(anomaly_map[patch])
        line = self._line_evidence(image, patch, found)
        return ExplainedPatch(row, column, value, shown, tuple(layers), piece, line)

    def _line_evidence(
        self, image: ImageTokens, patch: int, found: Compared
    ) -> LineEvidence | None:
        """The unlabelled parts that have a patch; None where they did not lower its distance."""
        line, support = self._line, float(found.support[patch])
        if line is None or not float(found.distances[patch]) < support:
            return None
        assert self.unlabelled is not None
        own, itself = [layer[patch : patch + 1] for layer in image.patches], self._itself(image.cls)
        apart = to_numpy(line.distances(own, without=itself))[:, 0]
        parts = [part for part in range(len(self.unlabelled)) if part != itself]
        nearer = [one for one in apart.argsort(stable=True).tolist() if float(apart[one]) < support]
        return LineEvidence(
            len(parts),
            line.m,
            support,
            tuple(float(apart[one]) for one in nearer),
            tuple(self._most_similar(parts[one], own) for one in nearer),
        )

    def _most_similar(self, part: int, own: Sequence[Array]) -> Neighbour:
        """The patch of an unlabelled part that is most similar to one, (1, D) for each layer."""
        assert self.unlabelled is not None
        layers = [single(layer) for layer in self.unlabelled.patches_of(part)]
        inside = self.region.patches(layers, self._grid)
        pairs = zip(own, layers, strict=True)
        alike = np.mean([to_numpy(query @ layer.T)[0] for query, layer in pairs], axis=0)
        compared = alike if inside is None else np.where(to_numpy(inside), alike, -1)
        best = int(compared.argmax())
        shape = self._grid, self._grid
        place = NormalView(self.unlabelled.images[part]).patch(*divmod(best, self._grid), *shape)
        return Neighbour.of(place, 1.0, float(alike[best]), shape)

    def hypergraph(self, picture: LoadedImage, layer: int | None, encoder: Encoder) -> Hypergraph:
        how, layers = self.rules.comparison, self.rules.settings.layers
        layer = layers[-1] if layer is None else layer
        if layer not in layers:
            raise UsageError("layer-unused", given=layer, used=", ".join(map(str, layers)))
        (image,) = encoder.encode([self.visible(picture)]).images()
        inside, place = self.region.patches(image.patches, self._grid), layers.index(layer)
        rows = _both(self._rows_of(self._compared_entries(image.cls)), self._rows)
        (query,) = masked([image.patches[place]], inside)
        (memory,) = masked([self.bank.patches[place]], rows)
        found = placed(incidence(query, memory, how.lookup, how.sharpness), inside, rows)
        return Hypergraph(
            picture.name,
            layer,
            how.lookup,
            how.sharpness,
            self._grid,
            incidence=found,
            normal=self._normal_views(),
            picture=picture,
        )

    def _normal_views(self) -> tuple[NormalView, ...]:
        """What each entry of the bank shows."""
        rotations = self.rules.rotations
        found = {
            entry: NormalView(
                self.bank.images[entry],
                view,
                rotation_angle(view, rotations) if rotations > 1 else 0.0,
            )
            for group in self.bank.entries
            for view, entry in enumerate(group)
        }
        return tuple(found[entry] for entry in range(len(self.bank)))

    def _piece(self, missing: Missing, patch: int) -> MissingPiece | None:
        """The piece of a good part that should be at a patch of an image."""
        source = missing.source_at(patch, self._grid)
        if source is None:
            return None
        row = self.bank.entries[missing.image][0] * self._grid**2 + source
        similarity, excess = float(missing.similarity[source]), float(missing.excess[source])
        return MissingPiece(self._namer(None)(row, 1.0, similarity), excess)

    def _namer(self, rows: Array | None) -> Namer:
        """Names the rows of the memory that a mask leaves; None leaves all."""
        index = None if rows is None else np.flatnonzero(to_numpy(rows)).tolist()
        views, grid = self._normal_views(), self._grid

        def named(row: int, weight: float, similarity: float) -> Neighbour:
            entry, patch = divmod(row if index is None else index[row], grid**2)
            row, column = divmod(patch, grid)
            place = views[entry].patch(row, column, grid, grid)
            return Neighbour.of(place, weight, similarity, (grid, grid))

        return named


def _both(one: Array | None, other: Array | None) -> Array | None:
    """Both masks at once; None means all."""
    return other if one is None else one if other is None else one & other
