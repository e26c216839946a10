"""The commands that are disturbed, and how one sees that nothing came to harm."""

import functools
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.errors import HyperfsadError
from tests.faults.stage import Run, Stage

Fault = tuple[str, str]

TEMPORARY = ".tmp"
"""A killed process leaves such files behind; nobody takes them for results."""

EXACT = ("results.jsonl", "results.csv", "regions.csv", "coco.json", "report.html")
"""Of `detect`: equal byte by byte, however often it was disturbed."""


class Job(ABC):
    """A command, what it starts from, and what it must leave behind."""

    name: str
    finished: str
    """What it gives undisturbed."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        stage.clear()
        self.prepare()
        self.room_before = used(stage.place)
        self.changes, self.seconds = stage.measured(self.command)
        self.remember()
        self.room = used(stage.place) - self.room_before

    @property
    @abstractmethod
    def command(self) -> list[str]:
        """What is run."""

    @property
    def again(self) -> list[str]:
        """What is run after a disturbance."""
        return self.command

    @abstractmethod
    def prepare(self) -> None:
        """What is there before."""

    @abstractmethod
    def remember(self) -> None:
        """Notes what an undisturbed run has left."""

    @abstractmethod
    def harm(self, *, done: bool) -> Iterator[Fault]:
        """What is wrong with what is there; `done`, whether all of it should be."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return not list(self.harm(done=True))

    def disturbed(self, run: Run) -> list[Fault]:
        """Looks at what a disturbed run has left, ends the work, and looks again."""
        faults = [*run.faults, *self.harm(done=run.code == 0)]
        if not self.is_done:
            second = self.stage.run(self.again)
            faults += second.faults
            if second.code != 0:
                faults.append(("lost", f"it does not go on: {second.words[-300:]}"))
            faults += self.harm(done=True)
        return faults


class FileJob(Job):
    """A detector file that is made or changed: it is the old one or the new one."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.name = name
        self.file = stage.place / "part ü.hfsad"
        self.before = stage.first.read_bytes()
        super().__init__(stage)

    @property
    def command(self) -> list[str]:
        parts = self.stage.parts
        if self.name == "fit":
            settings = ["--backbone", self.stage.encoder, "--recipe", "paper-offline"]
            return ["fit", *parts[:3], "-o", str(self.file), "--resolution", "84", *settings]
        if self.name == "extend":
            return ["extend", str(self.file), parts[2]]
        return ["calibrate", str(self.file), *parts[2:], "--false-alarm-rate", "0.4"]

    def prepare(self) -> None:
        self.file.write_bytes(self.before)

    def remember(self) -> None:
        self.after = self.file.read_bytes()
        assert self.after != self.before

    def harm(self, *, done: bool) -> Iterator[Fault]:
        found = self.file.read_bytes() if self.file.exists() else None
        if found == self.after or (found == self.before and not done):
            return
        if found in (None, self.before):
            yield "lost", self.file.name
            return
        try:
            HyperFSAD.load(self.file)
        except HyperfsadError as error:
            yield "cut off", str(error)
        else:
            yield "changed", self.file.name


class FolderJob(Job):
    """Results of photographs: each image once, every picture whole, and all the same as ever."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.name = name
        self.out = stage.place / "out put"
        super().__init__(stage)

    @property
    def command(self) -> list[str]:
        folder = str(Path(self.stage.photos[0]).parent)
        words = [folder, "--detector", str(self.stage.first), "-o", str(self.out), "--save-maps"]
        if self.name == "detect":
            return ["detect", *words]
        return ["watch", *words, "--once", "--settle", "0", "--interval", "0.01"]

    @property
    def again(self) -> list[str]:
        return [*self.command, "--resume"] if self.name == "detect" else self.command

    def prepare(self) -> None:
        pass

    def remember(self) -> None:
        self.records = {str(record["image"]): record for record in self._records()}
        self.files = {
            path.relative_to(self.out): path.read_bytes()
            for path in sorted(self.out.rglob("*"))
            if path.is_file() and (path.parent != self.out or self._exact(path))
        }
        assert len(self.records) == len(self.stage.photos)
        assert len(self.files) >= 2 * len(self.records)

    def _exact(self, path: Path) -> bool:
        return self.name == "detect" and path.name in EXACT

    def _records(self) -> list[dict[str, Any]]:
        """The complete records: one that is cut off is moved aside by the next start."""
        path = self.out / "results.jsonl"
        rows = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return [{**json.loads(row), "time": None, "seconds": None} for row in rows]

    def harm(self, *, done: bool) -> Iterator[Fault]:
        try:
            records = self._records()
        except ValueError as error:
            yield "cut off", f"results.jsonl: {error}"
            return
        for record in records:
            if self.records.get(str(record["image"])) != record:
                yield "changed", f"the record of {record['image']}"
        times = Counter(str(record["image"]) for record in records)
        for image, count in times.items():
            if count > 1:
                yield "doubled", image
        for image in self.records:
            if done and not times[image]:
                yield "lost", image
        yield from self._harm_of_files(done)

    def _harm_of_files(self, done: bool) -> Iterator[Fault]:
        for name, content in self.files.items():
            path = self.out / name
            if not path.exists():
                if done:
                    yield "lost", str(name)
            elif path.read_bytes() != content:
                yield ("changed" if is_whole(path) else "cut off"), str(name)


class ExportJob(Job):
    """A model for another runtime: the folder is there whole, or not at all."""

    name = "export"

    def __init__(self, stage: Stage) -> None:
        self.target = stage.place / "model ü"
        super().__init__(stage)

    @property
    def command(self) -> list[str]:
        return ["export", str(self.stage.first), "--to", "openvino", "-o", str(self.target)]

    def prepare(self) -> None:
        pass

    def remember(self) -> None:
        self.files = self._found()
        assert "model.json" in self.files

    def _found(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.target.glob("*")}

    def harm(self, *, done: bool) -> Iterator[Fault]:
        found = self._found()
        if found == self.files or (not self.target.exists() and not done):
            return
        if not found:
            yield "lost", self.target.name
        elif found.keys() < self.files.keys():
            yield "cut off", ", ".join(found)
        else:
            yield "changed", ", ".join(n for n in found if found[n] != self.files.get(n))


def is_whole(path: Path) -> bool:
    """Whether a heat map can be read to its end."""
    if path.suffix != ".jpg":
        return False
    try:
        with Image.open(path) as picture:
            picture.load()
    except (OSError, ValueError):
        return False
    return True


@functools.cache
def all_jobs(stage: Stage) -> list[Job]:
    """One of each command that writes; all campaigns on a stage share them."""
    files = [FileJob(stage, name) for name in ("fit", "extend", "calibrate")]
    return [*files, ExportJob(stage), *(FolderJob(stage, name) for name in ("detect", "watch"))]


def used(folder: Path) -> int:
    """The bytes that a folder takes on a disk of pages."""
    pages = (-(-path.stat().st_size // 4096) for path in folder.rglob("*") if path.is_file())
    return 4096 * sum(pages)
