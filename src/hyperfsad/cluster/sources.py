"""Which images are meant, found lazily, and cut into chunks that stay the same as images come."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import HyperfsadError, UsageError, first_line
from ..images.finding import RUN_FILES, find_images, has_image_suffix, lies_in
from .places import Place, is_local, opened

LISTS = (".txt", ".parquet")
"""Files that name images: one a line, or one a row."""

COLUMNS = ("image", "path", "url", "uri", "key")
"""What the column of images may be called, where a table has several."""


@dataclass(frozen=True)
class Named:
    """An image, and what tells whether it has changed; None where that is seen later or never."""

    name: str
    stamp: str | None = None


@dataclass(frozen=True)
class Chunk:
    """Images that one call of a worker inspects; their results become one part."""

    key: str
    images: tuple[Named, ...]


def chunks(images: Iterable[Named], size: int) -> Iterator[Chunk]:
    """Cuts a list after every `size` images or so, where the hash of a name says so.

    So a new image changes the chunk that it falls into and leaves the others as they are. The key
    of a chunk comes from the name before its first.
    """
    least, most = max(1, size // 4), 3 * size
    taken: list[Named] = []
    before = ""
    for image in images:
        taken.append(image)
        cut = _number(image.name) % (size - least + 1) == 0  # so that the mean is `size`
        if (cut and len(taken) >= least) or len(taken) == most:
            yield Chunk(_key(before), tuple(taken))
            before, taken = image.name, []
    if taken:
        yield Chunk(_key(before), tuple(taken))


def _digest(name: str) -> bytes:
    return hashlib.sha256(os.fsencode(name)).digest()


def _number(name: str) -> int:
    return int.from_bytes(_digest(name)[:8], "big")


def _key(name: str) -> str:
    return _digest(name).hex()[:24]


@dataclass
class Finder:
    """Finds the images of files, globs, folders and lists; says what it passed over."""

    sources: Sequence[str]
    output: str
    """Where results go: what lies there is no picture of a part."""
    notes: list[str] = field(default_factory=list)
    failed: bool = False
    """Whether something could not be listed."""

    def __iter__(self) -> Iterator[Named]:
        """Each image once."""
        lists = any(map(_is_list, self.sources))
        if len(self.sources) == 1 and not lists:
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

    def _found(self) -> Iterator[Named]:
        here = [s for s in self.sources if is_local(s) and not _is_list(s)]
        yield from map(Named, self._local(here))
        for source in self.sources:
            if source in here:
                continue
            try:
                yield from self._listed(source) if _is_list(source) else self._remote(source)
            except HyperfsadError as error:
                self._refuse(str(error))
            except Exception as error:  # each file system raises what it likes
                self._refuse(f"{source} cannot be listed: {first_line(error)}.")

    def _refuse(self, note: str) -> None:
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

    def _listed(self, source: str) -> Iterator[Named]:
        """The images that a list names."""
        files, path = opened(source)
        if not files.exists(path):
            self._refuse(f"{source} does not exist.")
            return
        with files.open(path, "rb") as file:
            if source.lower().endswith(".parquet"):
                yield from map(Named, _rows(file, source))
            else:
                for line in file:
                    if name := os.fsdecode(line.strip()):
                        yield Named(name)

    def _remote(self, source: str) -> Iterator[Named]:
        files, path = opened(source)
        web = source.startswith(("http://", "https://"))  # where asking may fetch the whole file
        if web and not source.endswith("/"):
            yield Named(source)
        elif not web and any(sign in path for sign in "*?[") and not files.exists(path):
            matches = files.glob(path, detail=True)
            if not matches:
                self.notes.append(f"No file matches {source}.")
            for match, entry in sorted(matches.items()):
                if entry["type"] == "file" and not match.rpartition("/")[2].startswith("."):
                    yield Named(files.unstrip_protocol(match), _stamp(entry))
        elif web or files.isdir(path):
            yield from self._below(files, path, Place(self.output))
        elif files.exists(path):
            yield Named(source, _stamp(files.info(path)))
        else:
            self.notes.append(f"{source} does not exist.")

    def _below(self, files: Any, folder: str, output: Place) -> Iterator[Named]:
        """The images below a folder, in the order of a local run, a folder at a time."""
        entries = _entries(files, folder)
        ours = any(name in RUN_FILES for name, _ in entries)
        junk = 0
        for name, entry in entries:
            full = files.unstrip_protocol(entry["name"])
            if name.startswith(".") or output.holds(f"{full}/"):
                continue
            if entry["type"] == "directory":
                if not (ours and name == "heatmaps"):
                    yield from self._below(files, entry["name"], output)
            elif has_image_suffix(name):
                yield Named(full, _stamp(entry))
            else:
                junk += 1
        if junk:
            some = "1 file" if junk == 1 else f"{junk} files"
            what = "is no image" if junk == 1 else "are no images"
            self.notes.append(f"{files.unstrip_protocol(folder)}: {some} passed over that {what}.")


def _entries(files: Any, folder: str) -> list[tuple[str, dict[str, Any]]]:
    """The names in a folder, sorted, and what is known of each; not the folder itself."""
    found = []
    for entry in files.ls(folder, detail=True):
        path = entry["name"].rstrip("/")
        if path != folder.rstrip("/"):
            found.append((path.rpartition("/")[2], entry))
    return sorted(found, key=lambda pair: pair[0])


def _is_list(source: str) -> bool:
    return source.lower().endswith(LISTS) and not (is_local(source) and os.path.isdir(source))


def _rows(file: Any, source: str) -> Iterator[str]:
    """The column of a Parquet file that names images, a few thousand rows at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.ParquetFile(file)
    schema = table.schema_arrow
    texts = [
        f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)
    ]
    chosen = [name for name in COLUMNS if name in texts] or texts
    if not texts or (chosen == texts and len(texts) > 1):
        raise UsageError(
            f"{source} has the columns {', '.join(schema.names)}; call that of the images"
            f" {COLUMNS[0]} or {COLUMNS[1]}."
        )
    for batch in table.iter_batches(columns=[chosen[0]]):
        yield from (name for name in batch.column(0).to_pylist() if name)


def _stamp(entry: dict[str, Any]) -> str | None:
    """What a listing says of a file's content: its hash, or its size and time."""
    tag = entry.get("ETag") or entry.get("etag") or entry.get("md5Hash")
    if tag:
        return str(tag).strip('"')
    time = entry.get("LastModified") or entry.get("updated") or entry.get("mtime")
    return None if time is None else f"{entry.get('size')} {time}"
