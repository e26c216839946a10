"""Whether all copies of an encoder's weights on this machine are the published ones.

The fingerprint in detector files covers the first row of each matrix, since it is computed at every
start; the checksum here covers all tensors that tokens depend on.
"""

from dataclasses import dataclass
from pathlib import Path

from ..errors import EncoderError, UnreachableError
from ..messages import Notice, Notify, log
from . import folders, runtime, weights
from .specs import EncoderSpec


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

    copies: list[WeightsCopy]
    known: str | None
    """The checksum of the published weights, where the registry has it."""

    @property
    def suspects(self) -> list[WeightsCopy]:
        """Copies that are damaged or not as published; all of them where nobody knows which."""
        here = [copy for copy in self.copies if copy.folder is not None]
        found = {copy.checksum for copy in here} - {None}
        expected = {self.known} if self.known is not None else found
        return [copy for copy in here if copy.checksum not in expected or len(expected) > 1]

    @property
    def verdict(self) -> Notice:
        """The outcome, in a few sentences."""
        unreachable = [copy.source for copy in self.copies if copy.folder is None]
        return Notice(
            "weights-verdict",
            unreachable=unreachable,
            copies=len(self.copies) - len(unreachable),
            suspects=[copy.folder for copy in self.suspects],
            published=self.known is not None,
        )

    @property
    def agree(self) -> bool:
        """Whether there is a copy, and all copies agree."""
        return bool(self.verdict.facts["copies"]) and not self.suspects


def verify(spec: EncoderSpec, notify: Notify = log) -> Verification:
    """Compares the copies of all sources, fetching those that this machine can reach."""
    copies, homes = [], {}
    for source in spec.sources:
        try:
            cached = runtime.cached_source(spec, source)
            homes[str(source)] = cached or weights.fetch_source(spec, source, notify)
        except UnreachableError as error:
            problem = f"not compared: {error.facts['reason']}"
            copies.append(WeightsCopy(str(source), None, None, problem))
    supplied = runtime.supplied_folder(spec)
    if supplied is not None:
        homes["supplied folder"] = supplied
    for name, folder in homes.items():
        try:
            checksum = folders.weights_checksum(folder, spec.family, spec.depth)
            copies.append(WeightsCopy(name, folder, checksum))
        except EncoderError as error:
            copies.append(WeightsCopy(name, folder, None, str(error)))
    return Verification(copies, spec.wheel.tensors if spec.wheel is not None else None)
