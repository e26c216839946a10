"""Whether weights are what was fetched or published.

Cached weights are checked by the full hash of their files: one flipped bit in 90 MB may turn every
score into nonsense. Hashing takes a quarter of a second, so it happens once for each change of a
file; the result is noted with the file's size and time. A local folder is not checked: its files
are the user's own to change.

`verify` compares the tensors of all copies of an encoder. The fingerprint in detector files covers
the first row of each matrix, since it is computed at every start; the checksum here covers all
tensors that tokens depend on.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from ..disk.files import atomic_path, file_sha256
from ..errors import EncoderError, HyperfsadError, UnreachableError, reason
from ..messages import Notice, Notify, log
from . import folders, runtime, weights
from .specs import EncoderSpec, Hub

Loaded = TypeVar("Loaded")
_Noted: TypeAlias = dict[str, list[int | str | None]]
"""Of each file by name: size, time of change in nanoseconds, sha256."""


def require_intact(spec: EncoderSpec, folder: Path, notify: Notify = log) -> None:
    """Refuses weights that were changed since they were fetched, or are not those we know.

    Weights of the hub whose revision or hash we do not know are used with a notice.
    """
    if not spec.sources:
        return
    supplied, of_wheel = folder == runtime.supplied_folder(spec), weights.is_of_wheel(spec, folder)
    home = None if supplied or of_wheel else folder.parent.parent

    def damaged(path: Path) -> EncoderError:  # names the remedy
        facts = {"path": path, "encoder": spec.name, "supplied": supplied, "home": home}
        return EncoderError("weights-damaged", **facts)

    published = _published_sha256(spec, folder, notify)
    noted = _read_note(folder)
    found: _Noted = {}
    for path in (folder / "config.json", *runtime.weight_files(folder)):
        known = noted.get(path.name, ["", "", None])
        try:
            status = path.stat()
            stamp: list[int | str | None] = [status.st_size, status.st_mtime_ns]
            if known[:2] == stamp:
                found[path.name] = known
                continue
            digest = file_sha256(path)
            intact = known[2] in (None, digest) and _has_hub_name(path, digest)
        except OSError as error:
            raise EncoderError("weights-unreadable", path=path, reason=reason(error)) from error
        if not intact:
            raise damaged(path)
        if path.suffix == ".safetensors" and published not in (None, digest):
            facts = {"found": digest, "expected": published, "home": home, "encoder": spec.name}
            raise EncoderError("weights-unexpected", path=path, **facts)
        found[path.name] = [*stamp, digest]
    if found == noted:
        return
    wheel = spec.wheel if of_wheel and not noted else None
    if wheel and weights_checksum(folder, spec.family, spec.depth) != wheel.tensors:
        raise damaged(folder)
    without = contextlib.suppress(HyperfsadError, OSError)  # it is checked again at every start
    with without, atomic_path(_note_path(folder), parents=True) as temporary:
        temporary.write_text(json.dumps(found) + "\n", encoding="utf-8")


def _published_sha256(spec: EncoderSpec, folder: Path, notify: Notify) -> str | None:
    """The known hash of weights in the hub's cache; a notice where there is none."""
    name = folder.parent.parent.name
    for source in spec.sources:
        if isinstance(source, Hub) and name == f"models--{source.repository.replace('/', '--')}":
            if source.sha256 is not None and source.revision == folder.name:
                return source.sha256
            facts = {"repository": source.repository, "known": source.revision}
            notify(Notice("hub-unpinned", encoder=spec.name, revision=folder.name, **facts))
    return None


def _note_path(folder: Path) -> Path:
    """Beside weights of ours, so that it goes with them; the hub's cache is not ours to write."""
    if runtime.cache_root().absolute() in folder.absolute().parents:
        return folder / "verified.json"
    name = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:16]
    return runtime.cache_root() / "verified" / f"{name}.json"


def _read_note(folder: Path) -> _Noted:
    with contextlib.suppress(OSError, ValueError):
        content = json.loads(_note_path(folder).read_text(encoding="utf-8"))
        if isinstance(content, dict) and all(
            isinstance(entry, list) and len(entry) == 3 for entry in content.values()
        ):
            return content
    return {}


def _has_hub_name(path: Path, sha256: str) -> bool:
    """The hub's cache names a file by its sha256, or a small one by its hash in Git."""
    real = path.resolve()
    if real.parent.name != "blobs" or not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", real.name):
        return True
    content = path.read_bytes() if path.suffix == ".json" else b""
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    return real.name in (sha256, blob.hexdigest())


def from_sound_folder(
    spec: EncoderSpec, load: Callable[[Path], Loaded], notify: Notify = log
) -> Loaded:
    """What `load` makes of an encoder's folder, whose weights are fetched first where that is
    needed; a damaged copy of ours is fetched again, once."""
    folder = weights.fetch(spec, notify=notify)
    try:
        require_intact(spec, folder, notify)
        return load(folder)
    except EncoderError as error:
        if not weights.discard(spec, folder):
            raise
        notify(Notice("weights-again", error=error))
    folder = weights.fetch(spec, notify=notify)
    require_intact(spec, folder, notify)
    return load(folder)


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
    copies, folders_found = [], {}
    for source in spec.sources:
        try:
            cached = runtime.cached_source(spec, source)
            folders_found[str(source)] = cached or weights.fetch_source(spec, source, notify)
        except UnreachableError as error:
            problem = f"not compared: {error.facts['reason']}"
            copies.append(WeightsCopy(str(source), None, None, problem))
    supplied = runtime.supplied_folder(spec)
    if supplied is not None:
        folders_found["supplied folder"] = supplied
    for name, folder in folders_found.items():
        try:
            checksum = weights_checksum(folder, spec.family, spec.depth)
            copies.append(WeightsCopy(name, folder, checksum))
        except EncoderError as error:
            copies.append(WeightsCopy(name, folder, None, str(error)))
    return Verification(copies, spec.wheel.tensors if spec.wheel is not None else None)


def weights_checksum(folder: Path, family: str, depth: int) -> str:
    """The sha256 over all tensors that tokens depend on, float32, ordered by canonical names."""
    found = folders.read_tower(folder, family, depth)
    with folders.explained_weights(folder):
        return found.checksum(depth)
