"""Unlabelled parts as a second memory (ours, not the paper's).

Nobody has called these parts good, but nearly all of them are. A patch q is normal if the support
rebuilds it, or if m of the n unlabelled parts do, each by itself and by the same lookup:

    d(q) = min(d_S(q), d_(m)(q))

d_S is the distance to the support, and d_(1) ≤ … ≤ d_(n) are the distances to the unlabelled parts
(Equation 9 for each). So they can only lower a distance. A defect that recurs in fewer than m of
them stays as far as it was: m − 1 of them may be bad, all in the same way.
"""

import math
from collections.abc import Sequence

from ..arrays import Array, descending, like, namespace, put, top_k
from ..threads import each
from .matching import Comparison, distances

AGREEING_AT_FIRST, AGREEING = 1 / 4, 1 / 12
"""The share of the unlabelled parts that must have such a patch: at first, and once those that look
bad are left out (docs/measurements/line.md)."""
LEAST_AGREEING = 2
"""One alone might be a bad part that explains its own kind."""

FIRST_PATCHES = 64
"""Patches that are looked up at first, those farthest from the support."""


def agreeing(parts: int, share: float = AGREEING) -> int:
    """m, how many of n unlabelled parts must have a patch."""
    return max(LEAST_AGREEING, math.ceil(share * parts))


def mth_smallest(found: Array, m: int) -> Array:
    """d_(m) of each patch from its distances to n unlabelled parts, (N,) from (n, N); infinite
    where they are too few."""
    xp = namespace(found)
    if found.shape[0] < m:
        return xp.broadcast_to(like(math.inf, found, found.dtype), found.shape[1:])
    return xp.sort(found, axis=0)[m - 1, :]


class UnlabelledParts:
    """The patches of unlabelled parts, each part ready to be asked by itself."""

    def __init__(self, parts: Sequence[Sequence[Array]], how: Comparison, m: int) -> None:
        """`parts` are the tokens of each part, (N, D) for each layer; `m` of them must agree."""
        self._parts = [how.memory_layers(part) for part in parts]
        self.m = m

    def distances(self, patches: Sequence[Array], without: int | None = None) -> Array:
        """1 − cos(q, ε_j) of patches, (N, D) a layer, from each part but one, (n, N)."""
        asked = [part for place, part in enumerate(self._parts) if place != without]
        return namespace(*patches).stack(each(lambda part: distances(part, patches), asked))

    def _told(self, patches: Sequence[Array], without: int | None) -> Array:
        return mth_smallest(self.distances(patches, without), self.m)

    def lowered(
        self, found: Array, patches: Sequence[Array], decisive: int, without: int | None = None
    ) -> Array:
        """d(q) of each patch of an image from its distances to the support, (N,).

        Only the patches farthest from the support are looked up, until what the others keep is less
        than each of the `decisive` largest results, of which a score is made: it is the same as if
        all were looked up.
        """
        if len(self._parts) - (without is not None) < self.m:
            return found
        xp = namespace(found)
        order = descending(found)
        result, done, more = xp.asarray(found, copy=True), 0, FIRST_PATCHES
        while done < order.shape[0]:
            rows = order[done : min(done + more, order.shape[0])]
            told = self._told([xp.take(layer, rows, axis=0) for layer in patches], without)
            result = put(result, rows, xp.minimum(xp.take(found, rows), told))
            done += rows.shape[0]
            largest, _ = top_k(xp.take(result, order[:done]), min(decisive, done))
            if done < order.shape[0] and found[order[done]] <= largest[-1]:
                break
            more = done
        return result
