"""Whether all copies of an encoder's weights are the same, and as published: every number counts.

The fingerprint in detector files covers the first row of each matrix, since it is computed at every
start; the checksum here covers all tensors that tokens depend on.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ..errors import EncoderError, UnreachableError
from ..messages import Notify, silent
from . import folders, store
from .specs import FAMILIES, EncoderSpec

_NEWER_NAMES = {
    "vision_model.": "",
    "attention.attention.query.": "attention.q_proj.",
    "attention.attention.key.": "attention.k_proj.",
    "attention.attention.value.": "attention.v_proj.",
    "attention.output.dense.": "attention.o_proj.",
}


@dataclass(frozen=True)
class WeightsCopy:
    """The weights of one source."""

    source: str
    folder: Path | None
    """None where the source could not be reached."""
    checksum: str | None
    """None where the copy cannot be read either."""
    problem: str = ""


@dataclass(frozen=True)
class Verification:
    """The weights of an encoder from all its sources."""

    copies: tuple[WeightsCopy, ...]
    known: str | None
    """The checksum of the published weights, where the registry has it."""

    @property
    def at_hand(self) -> list[WeightsCopy]:
        """The copies that this machine has."""
        return [copy for copy in self.copies if copy.folder is not None]

    @property
    def suspects(self) -> list[WeightsCopy]:
        """Copies that are damaged or not as published; all of them where nobody knows which."""
        found = {copy.checksum for copy in self.at_hand if copy.checksum is not None}
        expected = {self.known} if self.known is not None else found
        return [copy for copy in self.at_hand if copy.checksum not in expected or len(expected) > 1]

    @property
    def agree(self) -> bool:
        """Whether there is a copy, and all that there are agree."""
        return bool(self.at_hand) and not self.suspects

    @property
    def verdict(self) -> str:
        """What was found, in a few sentences."""
        missing = [copy.source for copy in self.copies if copy.folder is None]
        number = len(self.at_hand)
        told = [f"The {source} could not be reached, so it was not compared." for source in missing]
        if not number:
            return " ".join(told)
        if self.suspects:
            places = ", ".join(str(copy.folder) for copy in self.suspects)
            told.append(f"The weights differ or are damaged: {places}.")
        elif self.known is not None:
            told.append(f"All {number} copies" if number > 1 else "The copy at hand")
            told[-1] += f" {'have' if number > 1 else 'has'} the checksum that hyperfsad knows."
        else:
            nothing = "One copy is at hand, and nothing to compare it with."
            told.append(f"All {number} copies agree." if number > 1 else nothing)
        return " ".join(told)


def verify(spec: EncoderSpec, notify: Notify = silent) -> Verification:
    """Compares the copies of all sources, fetching those that this machine can reach."""
    copies = []
    for source in spec.sources:
        try:
            folder = store.cached_source(spec, source) or store.fetch_source(spec, source, notify)
            copies.append(_copy(spec, str(source), folder))
        except UnreachableError as error:
            copies.append(WeightsCopy(str(source), None, None, f"not compared: {error}"))
    brought = store.brought_folder(spec)
    if brought is not None:
        copies.append(_copy(spec, "folder brought along", brought))
    return Verification(tuple(copies), spec.wheel.tensors if spec.wheel is not None else None)


def _copy(spec: EncoderSpec, source: str, folder: Path) -> WeightsCopy:
    try:
        return WeightsCopy(source, folder, checksum(folder, spec.family, spec.depth))
    except EncoderError as error:
        return WeightsCopy(source, folder, None, str(error))


def checksum(folder: Path, family: str, depth: int) -> str:
    """The sha256 over all tensors that tokens depend on, float32, ordered by their names."""
    tensors = folders.load_model(folder, family, depth).state_dict()
    names = {canonical(name): name for name in tensors if name not in FAMILIES[family].unused}
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(name.encode())
        digest.update(tensors[names[name]].float().contiguous().numpy().tobytes())
    return digest.hexdigest()


def canonical(name: str) -> str:
    """A tensor's name, whichever version of `transformers` gave it."""
    for older, newer in _NEWER_NAMES.items():
        name = name.replace(older, newer)
    return name
