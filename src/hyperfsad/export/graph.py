"""A whole detector as one formula for any number of images: tokens in, scores and map out.

It does what `WholeView` does image by image, in operations that a graph can hold. The memory, the
positions and all that follows from the good parts alone are constants in it. Called with arrays it
computes; called with nodes (`nodes.py`) it draws the graph.
"""

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, like, namespace, positive, to_numpy, top_k
from ..detector.pipeline import Levels
from ..method.matching import smoothed
from ..method.scoring import cls_similarities, mean_of_layers
from ..views.whole import CLEARLY_BETTER, COMPARED_ORIENTATIONS, WholeView
from .matching import MissingGraph, distances

THRESHOLD_OUTPUTS = {"score": "threshold", "map": "map_threshold"}
"""The outputs that are constants: what the score and the peak of the map are held against."""


@dataclass(frozen=True)
class ComparedEntries:
    """The entries of the memory bank that each image is compared with."""

    entries: Array
    """(images, few); one may stand there twice, and then is allowed once."""
    allowed: Array
    """Which of them count, (images, few)."""
    plain: Array
    """Whether of each good part only itself counts, as it lies, (images, good parts)."""


class Graph:
    """A detector of one product, for whole pictures."""

    def __init__(self, view: WholeView, levels: Levels) -> None:
        bank = view.bank
        self.how, self._scoring = view.rules.comparison, view.scoring
        self._count = self.how.grid**2
        self._pooled = min(self._scoring.pooling.patches_of(self._count), self._count)
        self._turned, self._tentative = view.rules.rotations > 1, view.rules.tentative
        self.missing = None if view.pieces is None else MissingGraph(view.pieces, self.how.grid)
        self._thresholds = {
            name: value
            for name, value in (("score", levels.threshold), ("map", levels.map_threshold))
            if value is not None
        }
        self._groups = np.array(bank.entries)
        self._cls = to_numpy(bank.cls)
        self._memory = [to_numpy(layer) for layer in bank.patches]

    @property
    def outputs(self) -> list[str]:
        """The names of what comes out, in its order."""
        names = ["score", "map", *(f"score_{name}" for name in self._scoring.weights)]
        names += ["map_missing"] if self.missing is not None else []
        for name in self._thresholds:
            names += [f"anomalous_by_{name}", THRESHOLD_OUTPUTS[name]]
        return names

    @property
    def size(self) -> int:
        """Bytes of its constants."""
        constants = [*self._memory, self._cls]
        if self.missing is not None:
            constants += [self.missing.images, self.missing.usual]
        return sum(each.nbytes for each in constants)

    def __call__(self, patches: Array, cls: Array) -> dict[str, Array]:
        """What `outputs` names, from the tokens of images, (images, layers, N, D) and
        (images, layers, D)."""
        xp = namespace(patches)
        compared = self._compared_entries(cls) if self._turned else None
        found_distances = mean_of_layers(
            self._distances(patches[:, layer, :, :], memory, compared)
            for layer, memory in enumerate(self._memory)
        )
        shown = found_distances
        if self.how.smooth:
            shown = smoothed(found_distances, self.how.grid)
        found = {
            "score_map": xp.mean(top_k(found_distances, self._pooled)[0], axis=-1),
            "score_cls": self._cls_score(cls, compared),
        }
        weights = self._scoring.weights
        if "missing" in weights:
            found["score_missing"] = xp.zeros_like(found["score_map"])
        if self.missing is not None:
            middle = patches.shape[1] // 2
            score, added = self.missing(patches[:, middle, :, :], cls[:, middle, :])
            if compared is not None:  # of a part that lies turned, no piece is searched for
                upright = xp.astype(xp.all(compared.plain, axis=-1), score.dtype)
                score, added = score * upright, added * upright[:, None]
            added = weights["missing"] * added
            found["score_missing"], shown = score, shown + added
            found["map_missing"] = self._on_grid(added)
        found["score"] = sum(weights[name] * found[f"score_{name}"] for name in weights)
        found["map"] = self._on_grid(shown)
        highest = {"score": found["score"], "map": xp.max(shown, axis=-1)}
        for name, value in self._thresholds.items():
            threshold = like(value, shown, shown.dtype)
            found[f"anomalous_by_{name}"] = highest[name] > threshold
            found[THRESHOLD_OUTPUTS[name]] = threshold
        return {name: found[name] for name in self.outputs}

    def _on_grid(self, values: Array) -> Array:
        grid = self.how.grid
        return namespace(values).reshape(values, (values.shape[0], grid, grid))

    def _compared_entries(self, cls: Array) -> ComparedEntries:
        """The entries that each image is compared with."""
        xp, images = namespace(cls), cls.shape[0]
        parts, turns = self._groups.shape
        alike = cls_similarities(cls, like(self._cls, cls))
        apart = xp.mean(positive(1 - alike), axis=-1)
        own = xp.take(apart, like(self._groups.ravel(), cls), axis=1)
        own = xp.reshape(own, (images, parts, turns))
        few = min(COMPARED_ORIENTATIONS, turns)
        _, nearest = top_k(-own, few)
        places = nearest + like(turns * np.arange(parts)[:, None], nearest)
        entries = xp.take(like(self._groups.ravel(), cls), xp.reshape(places, (-1,)), axis=0)
        entries = xp.reshape(entries, (images, parts, few))
        plain = xp.min(own, axis=-1) > CLEARLY_BETTER * own[..., 0]
        plain = plain & like(self._tentative, plain)
        entries = xp.where(plain[..., None], like(self._groups[:, :1], entries), entries)
        allowed = ~plain[..., None] | like(np.arange(few) == 0, plain)
        shape = (images, parts * few)
        return ComparedEntries(xp.reshape(entries, shape), xp.reshape(allowed, shape), plain)

    def _distances(self, queries: Array, rows: Array, compared: ComparedEntries | None) -> Array:
        """1 − cos(q, ε) of each patch in a layer, (images, N), whose memory is `rows`."""
        xp, memory, allowed = namespace(queries), like(rows, queries), None
        if compared is not None:
            images, few = compared.entries.shape
            of_entries = xp.reshape(memory, (-1, self._count, rows.shape[1]))
            picked = xp.take(of_entries, xp.reshape(compared.entries, (-1,)), axis=0)
            memory = xp.reshape(picked, (images, few * self._count, rows.shape[1]))
            each = xp.broadcast_to(compared.allowed[:, :, None], (images, few, self._count))
            allowed = xp.reshape(each, (images, few * self._count))
        return distances(queries, memory, self.how.sharpness, allowed)

    def _cls_score(self, cls: Array, compared: ComparedEntries | None) -> Array:
        """S_cls (Equation 4) of each image."""
        xp, alike = namespace(cls), cls_similarities(cls, like(self._cls, cls))
        if compared is not None and self._tentative:
            entries = compared.entries[..., None]
            shape = (*compared.entries.shape, alike.shape[-1])
            alike = xp.take_along_axis(alike, xp.broadcast_to(entries, shape), axis=1)
        return xp.mean(positive(1 - xp.max(alike, axis=1)), axis=-1)
