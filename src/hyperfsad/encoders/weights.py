"""Where weights live and how they get there: the user's cache folder, wheels, the hub.

A wheel is fetched once, checked against its sha256 and kept converted, as safetensors; later starts
read only that. Weights of the hub stay in the hub's own cache. Any copy on this machine serves, and
the network is then left alone.
"""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from ..disk.files import atomic_folder, file_sha256
from ..errors import EncoderError, UnreachableError, UsageError, first_line
from ..messages import Notice, Notify, silent
from . import folders
from .specs import FAMILIES, REGISTRY, EncoderSpec, Hub, Source, Wheel

HUB_TIMEOUT = 4.0
"""Seconds that the hub has for its first answer where a wheel holds the same weights."""

_CONFIGS = ("config.json", "preprocessor_config.json", "*.safetensors.index.json")
_TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
)
"""Of models that read text; others have none."""
_HUB_FILES = [*_CONFIGS, *_TOKENIZER, "model*.safetensors"]


def cache_root() -> Path:
    """The user's cache folder; the variable HYPERFSAD_CACHE moves it."""
    chosen = os.environ.get("HYPERFSAD_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("hyperfsad", appauthor=False)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder."""
    return sorted(folder.glob("*.safetensors"))


def find_spec(backbone: str) -> EncoderSpec:
    """The entry of a registered name, or the spec of a local folder."""
    if backbone in REGISTRY:
        return REGISTRY[backbone]
    if os.path.isdir(backbone):
        return folders.read_spec(backbone)
    raise UsageError("encoder-unknown", given=backbone, known=list(REGISTRY))


def cached_folder(spec: EncoderSpec) -> Path | None:
    """The folder with the weights of an encoder, if this machine has them; nothing is fetched."""
    if not spec.sources:
        return Path(spec.name)
    # the hub's client is slow to import, so its cache comes last
    sources = sorted(spec.sources, key=lambda source: isinstance(source, Hub))
    found = (cached_source(spec, source) for source in sources)
    return supplied_folder(spec) or next(filter(None, found), None)


def cached_source(spec: EncoderSpec, source: Source) -> Path | None:
    """What this machine has of one source; nothing is fetched.

    Of the hub: the known revision, or the newest that another program fetched.
    """
    if isinstance(source, Wheel):
        home = _wheel_home(spec, source)
        return home if weight_files(home) else None
    known = _cached_snapshot(source.repository, source.revision) if source.revision else None
    return known or _cached_snapshot(source.repository, None)


def _cached_snapshot(repository: str, revision: str | None) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        found = snapshot_download(
            repository, revision=revision, allow_patterns=_HUB_FILES, local_files_only=True
        )
    except LocalEntryNotFoundError:
        return None
    folder = Path(found)
    return folder if (folder / "config.json").exists() and weight_files(folder) else None


def supplied_folder(spec: EncoderSpec) -> Path | None:
    """Our copy of a folder that the user supplied."""
    home = _supplied_home(spec)
    return home if weight_files(home) else None


def weights_folder(spec: EncoderSpec, notify: Notify = silent) -> Path:
    """The folder with the weights of an encoder, fetched first where that is needed."""
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


def fetch_source(spec: EncoderSpec, source: Source, notify: Notify = silent) -> Path:
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
            source.repository, revision=source.revision, allow_patterns=_HUB_FILES
        )
    except Exception as error:  # the client passes on what its HTTP library raises
        raise UnreachableError("source-unreachable", reason=first_line(error)) from error
    if not weight_files(Path(found)):
        raise UnreachableError("source-unreachable", reason="no safetensors file there")
    return Path(found)


def fetch(spec: EncoderSpec, origin: Path | None = None, notify: Notify = silent) -> Path:
    """Prepares this machine to work offline; `origin` is a wheel or a folder of the user's."""
    if origin is None:
        return weights_folder(spec, notify)
    if origin.is_dir():
        return _keep_folder(spec, origin)
    if spec.wheel is not None and origin.is_file():
        home = _keep_wheel(spec, spec.wheel, origin, notify)
        shutil.rmtree(_supplied_home(spec), ignore_errors=True)  # the last one supplied serves
        return home
    raise EncoderError("weights-origin", path=origin, wheel=spec.wheel)


def is_of_wheel(spec: EncoderSpec, folder: Path) -> bool:
    """Whether a folder is our converted copy of the encoder's wheel."""
    return spec.wheel is not None and folder == _wheel_home(spec, spec.wheel)


def discard(spec: EncoderSpec, folder: Path) -> bool:
    """Removes a damaged copy of ours that pip can fetch again; returns whether it did."""
    if spec.wheel is None or folder not in (_supplied_home(spec), _wheel_home(spec, spec.wheel)):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _wheel_home(spec: EncoderSpec, wheel: Wheel) -> Path:
    return cache_root() / "encoders" / f"{spec.name}-{wheel.sha256[:12]}"


def _supplied_home(spec: EncoderSpec) -> Path:
    return cache_root() / "encoders" / spec.name


def _keep_wheel(spec: EncoderSpec, wheel: Wheel, origin: Path | None, notify: Notify) -> Path:
    target = _wheel_home(spec, wheel)
    remove_unused(target.parent.glob(f".{target.name}.*.tmp"), 3600)  # of runs that were killed
    try:
        with atomic_folder(target) as temporary:
            if origin is None:
                facts = {"wheel": wheel, "megabytes": wheel.megabytes}
                notify(Notice("weights-from-wheel", encoder=spec.name, **facts))
                origin = download_wheel(wheel, temporary)
            config, state = wheel.read(_checked_member(origin, wheel))
            if origin.parent == temporary:
                origin.unlink()
            folders.write_folder(temporary, config, state)
    except OSError as error:
        raise EncoderError(
            "weights-not-kept", encoder=spec.name, folder=target.parent, reason=first_line(error)
        ) from error
    return target


def download_wheel(wheel: Wheel, folder: Path) -> Path:
    """pip fetches the wheel, so that any mirror, proxy or certificate set up for it serves."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--ignore-requires-python", "--disable-pip-version-check", "--no-cache-dir"]
    command += ["--dest", str(folder), f"{wheel.project}=={wheel.version}"]
    shown = sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL
    done = subprocess.run(command, stdout=shown, stderr=subprocess.PIPE, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode or not found:
        if "No space left on device" in done.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        named = [
            line for line in lines if line.startswith("ERROR:") and line != "ERROR: Exception:"
        ]
        reason = (named or lines or ["pip gave no reason"])[-1].removeprefix("ERROR: ")
        raise UnreachableError("source-unreachable", reason=reason.rstrip("."))
    return found[0]


def _checked_member(path: Path, wheel: Wheel) -> bytes:
    found = file_sha256(path)
    if found != wheel.sha256:
        raise EncoderError("wheel-wrong", name=path.name, found=found, expected=wheel.sha256)
    with zipfile.ZipFile(path) as archive:
        return archive.read(wheel.member)


def remove_unused(homes: Iterable[Path], seconds: float) -> None:
    """Removes the folders that nobody has used for this time."""
    for folder in homes:
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > seconds:
                shutil.rmtree(folder, ignore_errors=True)


def _keep_folder(spec: EncoderSpec, origin: Path) -> Path:
    found = folders.read_spec(str(origin))
    known = FAMILIES[spec.family]
    if (FAMILIES[found.family], found.patch, found.depth) != (known, spec.patch, spec.depth):
        facts = {"given": _architecture(found), "expected": _architecture(spec)}
        raise EncoderError("weights-of-another-encoder", path=origin, encoder=spec.name, **facts)
    target = _supplied_home(spec)
    if target.exists():
        shutil.rmtree(target)
    with atomic_folder(target) as temporary:
        for pattern in (*_CONFIGS, *_TOKENIZER, "*.safetensors"):
            for file in origin.glob(pattern):
                shutil.copy(file, temporary)
    return target


def _architecture(spec: EncoderSpec) -> dict[str, str | int]:
    return {"family": spec.family, "blocks": spec.depth, "patch": spec.patch}
