"""Tokens on disk: every image is encoded once per encoder and resolution, and then reused by all.

The cache keeps tokens, never scores. It may be deleted at any time, is keyed by the content of the
image file, so that a changed image is encoded again, and stays below a size limit.
"""

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ..arrays import contiguous, namespace, to_numpy
from ..disk.files import atomic_path
from ..encoders import EncoderSettings
from ..encoders.encoder import Encoder, ImageTokens, load_encoder
from ..encoders.runtime import cache_root
from ..errors import HyperfsadError
from ..images.geometry import rotate
from ..images.loading import load_image
from ..messages import Notice, Notify, log
from . import PRECISION

CACHE_LIMIT = 20 << 30
"""Bytes on disk."""
LOADED_ENCODERS = 2
"""In memory at once: large ones take a gigabyte."""

ContentHash: TypeAlias = Callable[[str], str]
"""From the path of an image to the hash of its file, which is read once: copies count once."""


def content_hashes() -> ContentHash:
    """The sha256 of image files, each read once."""
    return cache(lambda path: hashlib.sha256(Path(path).read_bytes()).hexdigest())


class TokenCache:
    """The tokens of image files, read from disk where they were kept."""

    def __init__(
        self,
        settings: EncoderSettings,
        *,
        device: str = "auto",
        engine: str = "auto",
        precision: str = PRECISION,
        limit: int = CACHE_LIMIT,
        notify: Notify = log,
        content_hash: ContentHash | None = None,
    ) -> None:
        self.encoder: Encoder = load_encoder(
            settings, device, notify, engine=engine, precision=precision, parallel=True
        )
        self.settings = settings
        self.content_hash = content_hash or content_hashes()
        self._limit, self._notify, self._writable = limit, notify, limit > 0
        key = [self.encoder.fingerprint, self.encoder.engine, settings.form, settings.resolution]
        key += [settings.mean, settings.std, settings.final_norm, settings.last_norm]
        name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
        self.folder = cache_root() / "tokens" / name
        self._size = sum(size for _, size, _ in self._entries())

    def load_alone(self) -> Encoder:
        """An encoder that works on one image with all cores, as `detect` does; to be timed."""
        own = self.encoder
        if own.engine == "torch":  # which never works on one image a core
            return own
        how = self.settings, own.device
        return load_encoder(*how, engine=own.engine, precision=own.precision)

    def tokens(self, path: str, angle: float = 0.0) -> ImageTokens:
        """The tokens of an image at the layers of the settings, perhaps of the image turned."""
        turned = f"-turned-{angle:g}" if angle else ""
        file = self.folder / f"{self.content_hash(path)[:32]}{turned}.safetensors"
        # not there, damaged or of other layers: encoded again
        with suppress(SafetensorError, OSError):
            found = self._read(file)
            os.utime(file)  # the least recently used go first
            return found
        encoded = self.encoder.encode([rotate(load_image(path), angle)])
        image = ImageTokens(tuple(encoded.patches[0]), encoded.cls[0])
        if self._writable:
            self._write(image, file)
        return image

    def _read(self, file: Path) -> ImageTokens:
        device = self.encoder.tokens_on
        framework = "np" if device == "cpu" else "pt"
        with safe_open(file, framework=framework, device=device) as stored:
            planes = self.settings.planes
            patches = [stored.get_tensor(f"patches.{plane}") for plane in planes]
            cls = [stored.get_tensor(f"cls.{plane}") for plane in planes]
        return ImageTokens(tuple(patches), namespace(*cls).stack(cls))

    def _write(self, image: ImageTokens, file: Path) -> None:
        tensors = {}
        for place, plane in enumerate(self.settings.planes):
            tensors[f"patches.{plane}"] = contiguous(to_numpy(image.patches[place]))
            tensors[f"cls.{plane}"] = contiguous(to_numpy(image.cls[place]))
        try:
            with atomic_path(file, parents=True) as temporary:
                save_file(tensors, temporary)
        except (HyperfsadError, OSError, SafetensorError) as error:
            self._writable = False
            self._notify(Notice("tokens-not-stored", error=error))
            return
        self._size += file.stat().st_size
        if self._size > self._limit:  # the least recently used go, until a tenth is free
            entries = sorted(self._entries())
            self._size = sum(size for _, size, _ in entries)
            for _, size, path in entries:
                if self._size > 0.9 * self._limit:
                    path.unlink(missing_ok=True)
                    self._size -= size

    def _entries(self) -> list[tuple[int, int, Path]]:
        """Time of use, size and path of the token files of all encoders."""
        found = []
        for path in self.folder.parent.glob("*/*.safetensors"):
            with suppress(OSError):  # another run removed it
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, path))
        return found


class TokenCaches:
    """The caches of several encoders and resolutions: runs that share them hash images once, and
    load an encoder once as long as it is among the last few."""

    def __init__(self, **options: Any) -> None:
        """`options`: those of a `TokenCache`."""
        self.content_hash = content_hashes()

        @lru_cache(LOADED_ENCODERS)
        def of(settings: EncoderSettings) -> TokenCache:
            return TokenCache(settings, **options, content_hash=self.content_hash)

        self.of: Callable[[EncoderSettings], TokenCache] = of
        """The cache of an encoder, which is loaded where it is not among the last ones."""
