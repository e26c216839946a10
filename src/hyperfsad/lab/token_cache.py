"""Tokens on disk: every image is encoded once per encoder and resolution, and then reused by all.

The cache keeps tokens, never scores. It may be deleted at any time, is keyed by the content of the
image file, so that a changed image is encoded again, and stays below a size limit.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ..disk.files import atomic_path
from ..encoders import EncoderSettings
from ..encoders.encoder import Encoder, ImageTokens, load_encoder
from ..encoders.runtime import cache_root
from ..errors import HyperfsadError
from ..images.geometry import rotate
from ..images.loading import load_image
from ..messages import Notice, Notify, silent

CACHE_LIMIT = 20 << 30
"""Bytes on disk."""
LOADED_ENCODERS = 2
"""In memory at once: large ones take a gigabyte."""


class ContentHashes:
    """The sha256 of image files, each read once a run."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        if path not in self._known:
            self._known[path] = _sha256(Path(path).read_bytes())
        return self._known[path]


class TokenCache:
    """The tokens of image files, read from disk where they were kept."""

    def __init__(
        self,
        settings: EncoderSettings,
        *,
        device: str = "auto",
        engine: str = "torch",
        limit: int = CACHE_LIMIT,
        notify: Notify = silent,
        content_hash: ContentHashes | None = None,
    ) -> None:
        self.encoder: Encoder = load_encoder(settings, device, notify, engine=engine, parallel=True)
        self.settings = settings
        self._limit = limit
        self._notify = notify
        self.content_hash = content_hash or ContentHashes()
        self._writable = limit > 0
        key = [self.encoder.fingerprint, self.encoder.engine, settings.form, settings.resolution]
        key += [settings.mean, settings.std, settings.final_norm, settings.last_norm]
        self.folder = cache_root() / "tokens" / _sha256(json.dumps(key).encode())[:16]
        self._size = sum(size for _, size, _ in _entries(self.folder.parent))

    def load_alone(self) -> Encoder:
        """An encoder that works on one image with all cores, as `detect` does; to be timed."""
        if self.encoder.engine == "torch":  # which never works on one image a core
            return self.encoder
        return load_encoder(self.settings, str(self.encoder.device), engine=self.encoder.engine)

    def tokens(self, path: str, angle: float = 0.0) -> ImageTokens:
        """The tokens of an image at the layers of the settings, perhaps of the image turned."""
        file = self.file_of(path, angle)
        return self._read(file) or self._encode(path, angle, file)

    def file_of(self, path: str, angle: float = 0.0) -> Path:
        """Where the tokens of an image are kept."""
        turned = f"-turned-{angle:g}" if angle else ""
        return self.folder / f"{self.content_hash(path)[:32]}{turned}.safetensors"

    def _read(self, file: Path) -> ImageTokens | None:
        planes = self.settings.planes
        try:
            with safe_open(file, framework="pt") as stored:
                patches = tuple(stored.get_tensor(f"patches.{plane}") for plane in planes)
                cls = torch.stack([stored.get_tensor(f"cls.{plane}") for plane in planes])
            os.utime(file)  # the least recently used go first
        except (SafetensorError, OSError):  # not there, damaged or of other layers: encoded again
            return None
        device = self.encoder.device
        return ImageTokens(tuple(layer.to(device) for layer in patches), cls.to(device))

    def _encode(self, path: str, angle: float, file: Path) -> ImageTokens:
        encoded = self.encoder.encode([rotate(load_image(path), angle)])
        image = ImageTokens(tuple(encoded.patches[0]), encoded.cls[0])
        if self._writable:
            self._write(image, file)
        return image

    def _write(self, image: ImageTokens, file: Path) -> None:
        tensors = {}
        for place, plane in enumerate(self.settings.planes):
            tensors[f"patches.{plane}"] = image.patches[place].cpu().clone()
            tensors[f"cls.{plane}"] = image.cls[place].cpu().clone()
        try:
            with atomic_path(file, parents=True) as temporary:
                save_file(tensors, temporary)
        except (HyperfsadError, OSError, SafetensorError) as error:
            self._writable = False
            self._notify(Notice("tokens-not-stored", error=error))
            return
        self._size += file.stat().st_size
        if self._size > self._limit:
            self._make_room()

    def _make_room(self) -> None:
        """Removes the least recently used tokens until nine tenths of the limit are reached."""
        entries = sorted(_entries(self.folder.parent))
        self._size = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if self._size <= 0.9 * self._limit:
                return
            path.unlink(missing_ok=True)
            self._size -= size


class TokenCaches:
    """The caches of several encoders and resolutions: runs that share them hash images once, and
    load an encoder once as long as it is among the last few."""

    def __init__(self, **options: Any) -> None:
        """`options`: those of a `TokenCache`."""
        self.content_hash = ContentHashes()
        self._options = {**options, "content_hash": self.content_hash}
        self._caches: dict[EncoderSettings, TokenCache] = {}

    def of(self, settings: EncoderSettings) -> TokenCache:
        """The cache of an encoder, which is loaded where it is not among the last ones."""
        cache = self._caches.pop(settings, None) or TokenCache(settings, **self._options)
        self._caches[settings] = cache
        if len(self._caches) > LOADED_ENCODERS:
            del self._caches[next(iter(self._caches))]
        return cache


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _entries(folder: Path) -> list[tuple[int, int, Path]]:
    """Time of use, size and path of all token files."""
    found = []
    for path in folder.glob("*/*.safetensors"):
        try:
            status = path.stat()
        except OSError:  # another run removed it
            continue
        found.append((status.st_mtime_ns, status.st_size, path))
    return found
