"""Which images are meant, found lazily, and cut into chunks that stay the same as images come."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import HyperfsadError, UsageError, first_line
from ..images.reading import RUN_FILES, find_images, has_image_suffix, lies_in
from ..messages import Notice
from .storage import StorageFolder, is_local, open_storage


@dataclass(frozen=True)
class ImageRef:
    """An image, and what tells whether it has changed; None where that is seen later or never."""

    name: str
    stamp: str | None = None


@dataclass(frozen=True)
class Chunk:
    """Images that one call of a worker inspects; their results become one part."""

    key: str
    images: tuple[ImageRef, ...]
    notes: tuple[str, ...] = ()
    """On what was passed over; only in the last chunk, which has no images."""
    failed: bool = False
    """Whether something could not be listed."""


def chunks(images: Iterable[ImageRef], size: int) -> Iterator[Chunk]:
    """Cuts a list after every `size` images or so, where the hash of a name says so.

    So a new image changes the chunk that it falls into and leaves the others as they are. The key
    of a chunk comes from the name before its first.
    """
    least, most = max(1, size // 4), 3 * size
    taken: list[ImageRef] = []
    key = _digest("")
    for image in images:
        taken.append(image)
        digest = _digest(image.name)
        number = int.from_bytes(digest[:8], "big")
        cut = number % (size - least + 1) == 0  # so that the mean is `size`
        if (cut and len(taken) >= least) or len(taken) == most:
            yield Chunk(key.hex()[:24], tuple(taken))
            key, taken = digest, []
    if taken:
        yield Chunk(key.hex()[:24], tuple(taken))


def _digest(name: str) -> bytes:
    return hashlib.sha256(os.fsencode(name)).digest()


@dataclass
class ImageLister:
    """Finds the images of files, globs, folders and lists; notes what it passed over."""

    sources: Sequence[str]
    output: str
    """Where results go: what lies there is not a picture of a part."""
    notes: list[str] = field(default_factory=list)
    failed: bool = False
    """Whether something could not be listed."""

    def __iter__(self) -> Iterator[ImageRef]:
        """Each image once."""
        if len(self.sources) == 1 and not _is_list(self.sources[0]):
            yield from self._found()
            return
        # 16 bytes of a hash for each name: a name may come again only where there are several lists
        seen: set[bytes] = set()
        for image in self._found():
            name = os.path.abspath(image.name) if is_local(image.name) else image.name
            digest = _digest(name)[:16]
            if digest not in seen:
                seen.add(digest)
                yield image

    def _found(self) -> Iterator[ImageRef]:
        here = [s for s in self.sources if is_local(s) and not _is_list(s)]
        yield from map(ImageRef, self._local(here))
        for source in self.sources:
            if source in here:
                continue
            try:
                yield from self._listed(source) if _is_list(source) else self._remote(source)
            except HyperfsadError as error:
                self._fail(str(error))
            except Exception as error:  # each file system raises what it likes
                self._fail(Notice("storage-unlisted", address=source, why=first_line(error)))

    def _fail(self, note: str) -> None:
        self.failed = True
        self.notes.append(note)

    def _local(self, sources: Sequence[str]) -> list[str]:
        """As a local run finds them."""
        if not sources:
            return []
        try:
            found = find_images([source.removeprefix("file://") for source in sources])
        except UsageError as error:
            self.notes.append(str(error))
            return []
        self.notes += found.notes
        self.failed |= found.failed
        if not is_local(self.output):
            return found.paths
        return [path for path in found.paths if not lies_in(path, self.output)]

    def _listed(self, source: str) -> Iterator[ImageRef]:
        """The images that a list names, one a line."""
        files, path = open_storage(source)
        if not files.exists(path):
            raise UsageError("storage-missing", address=source)
        with files.open(path, "rb") as file:
            yield from (ImageRef(name) for line in file if (name := os.fsdecode(line.strip())))

    def _remote(self, source: str) -> Iterator[ImageRef]:
        files, path = open_storage(source)
        if source.startswith(("http://", "https://")):  # where asking may fetch the whole file
            yield ImageRef(source)
        elif any(sign in path for sign in "*?[") and not files.exists(path):
            matches = files.glob(path, detail=True)
            if not matches:
                self.notes.append(Notice("pattern-unmatched", pattern=source))
            for match, entry in sorted(matches.items()):
                if entry["type"] == "file" and not match.rpartition("/")[2].startswith("."):
                    yield ImageRef(files.unstrip_protocol(match), _stamp(entry))
        elif files.isdir(path):
            yield from self._below(files, path)
        elif files.exists(path):
            yield ImageRef(source, _stamp(files.info(path)))
        else:
            self.notes.append(Notice("storage-missing", address=source))

    def _below(self, files: Any, root: str) -> Iterator[ImageRef]:
        """The images below a folder, a folder at a time; hidden ones and outputs are left out."""
        output = None if is_local(self.output) else StorageFolder(self.output).address
        for folder, folders, entries in files.walk(root, detail=True):
            ours = any(name in RUN_FILES for name in entries)
            for name, entry in list(folders.items()):
                inside = files.unstrip_protocol(entry["name"]).rstrip("/") == output
                if name.startswith(".") or inside or (ours and name == "heatmaps"):
                    del folders[name]
            junk = 0
            for name, entry in sorted(entries.items()):
                if has_image_suffix(name) and not name.startswith("."):
                    yield ImageRef(files.unstrip_protocol(entry["name"]), _stamp(entry))
                else:
                    junk += bool(name) and not name.startswith(".")
            if junk:
                address = files.unstrip_protocol(folder)
                self.notes.append(Notice("storage-passed-over", address=address, number=junk))


def _is_list(source: str) -> bool:
    return source.lower().endswith(".txt") and not (is_local(source) and os.path.isdir(source))


def _stamp(entry: dict[str, Any]) -> str | None:
    """What a listing says of a file's content: its hash, or its size and time."""
    tag = entry.get("ETag") or entry.get("etag") or entry.get("md5Hash")
    if tag:
        return str(tag).strip('"')
    time = entry.get("LastModified") or entry.get("updated") or entry.get("mtime")
    return None if time is None else f"{entry.get('size')} {time}"
