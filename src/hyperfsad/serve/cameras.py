"""Cameras of products: their shots are inspected as if they were uploaded.

Which product has which camera stands in a file of this machine's in the store, since it may hold
passwords, and since stations that share a store have cameras of their own.
"""

import contextlib
import io
import json
import os
import platform
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sqlalchemy import select

from ..connect.camera import Camera, Shot
from ..connect.deadlines import Latencies
from ..connect.setup_checks import SetupChecks
from ..connect.sources import Pixels, shown, source_of
from ..connect.triggers import Software, seconds_of, trigger_of
from ..disk.files import file_sha256, write_file
from ..errors import HyperfsadError
from ..images.loading import drawn_image, load_image, save_picture
from ..messages import Notice
from ..results.result import AnomalyResult
from ..wording import STATION
from .folders import InspectionDesk
from .monitoring import LOG
from .pictures import Picture, Upload
from .products import THUMBNAIL_SOURCE
from .refusals import (
    BusyError,
    ConflictError,
    FullError,
    MissingError,
    is_full,
    public,
    station_text,
)
from .schemas import FindingOut, SourceIn, SourceOut
from .store.audit import Actor, audit
from .store.models import Image as ImageRow
from .store.models import Support

NAP = 0.1
"""Seconds until a stop is noticed, and between two looks for a place in the queue."""


class ProductCamera:
    """The camera of a product at work; a thread judges its shots until it is stopped."""

    def __init__(self, desk: InspectionDesk, folder: Path, product: str, wanted: SourceIn) -> None:
        """`folder` gets the pictures of what is wrong with the set-up."""
        self._desk, self._folder, self.product, self.wanted = desk, folder, product, wanted
        deadline = seconds_of(wanted.deadline, "deadline") if wanted.deadline else None
        self.latencies = Latencies(deadline)
        self.trigger = trigger_of(wanted.trigger)
        # a video plays as a camera would: a station has no use for one that waits
        source = source_of(wanted.address, real_time=True)
        self.camera = Camera(source, self.trigger, notify=self._note)
        self.judged = self.failed = 0
        self._problem: HyperfsadError | None = None
        self._checks: SetupChecks | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hyperfsad-shots", daemon=True)

    def start(self) -> None:
        self.camera.start()
        self._thread.start()

    def stop(self) -> None:
        """Ends after the current shot."""
        self._ending.set()
        self.camera.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def ask(self) -> str:
        """Asks for a shot of the next frame; returns the id that its inspection will have."""
        if not isinstance(self.trigger, Software):
            raise ConflictError("trigger-not-software", trigger=self.wanted.trigger)
        if self.camera.state != "running":
            raise BusyError("camera-away", retry_after=1)
        if self.trigger.waiting + self.camera.queue >= self.camera.room:
            raise BusyError("camera-behind", retry_after=1)
        return self.trigger.ask()

    @property
    def state(self) -> SourceOut:
        """What it does, without passwords and folders of this machine."""
        camera, latencies = self.camera, self.latencies
        quantiles = {
            f"p{share}_ms": round(1000 * seconds, 1)
            for share, seconds in (latencies.quantiles() or {}).items()
        }
        problem = camera.problem or self._problem
        findings = self._checks.findings if self._checks is not None else {}
        return SourceOut(
            product_id=self.product,
            address=public_address(self.wanted.address),
            trigger=self.wanted.trigger,
            deadline=self.wanted.deadline,
            state=camera.state,
            problem=None if problem is None else public(problem).worded(STATION),
            findings=[
                FindingOut(code=code, text=one.notice.worded(STATION))
                for code, one in findings.items()
            ],
            frames=camera.frames,
            shots=camera.shots,
            judged=self.judged,
            late=latencies.late,
            failed=self.failed,
            dropped=camera.dropped,
            losses=camera.losses,
            queue=camera.queue,
            oldest_ms=round(1000 * camera.oldest, 1),
            **quantiles,
        )

    def picture(self, finding: str | None) -> bytes:
        """What the camera sees now, or what shows a finding, as a JPEG."""
        latest = self.camera.latest
        if finding is not None:
            found = None if self._checks is None else self._checks.findings.get(finding)
            pixels = None if found is None else found.pixels
        else:
            pixels = None if latest is None else latest.pixels()
        if pixels is None:
            raise MissingError("camera-picture-missing")
        shown = Image.fromarray(pixels)
        shown.thumbnail((960, 960))
        content = io.BytesIO()
        shown.save(content, "JPEG", quality=85)
        return content.getvalue()

    def _note(self, text: str) -> None:
        LOG.warning("camera of %s: %s", self.product, text)

    def _run(self) -> None:
        while not self._ending.is_set() and not self.camera.over:
            shot = self.camera.next(NAP)
            if shot is None:
                continue
            try:
                self._inspect(shot)
                self._problem = None
            except HyperfsadError as error:
                self._failed(error, shot)
                if isinstance(error, MissingError):  # the product is gone
                    self.camera.stop()
            except Exception:  # no verdict; the next shot may get one
                LOG.exception("camera of %s", self.product)
                self._failed(HyperfsadError("shot-failed"), shot)

    def _failed(self, error: HyperfsadError, shot: Shot) -> None:
        self.failed += 1
        self._no_verdict(Notice("picture-unjudged"), shot)
        if self._problem is None or self._problem.code != error.code:  # once, not at each shot
            self._note(str(error))
        self._problem = error

    def _no_verdict(self, why: Notice, shot: Shot) -> None:
        """The line hears of a shot that will be in no history."""
        machines = self._desk.inspections.machines
        machines.failed(self.product, _name(shot), station_text(why), shot.frame.arrived)

    def _inspect(self, shot: Shot) -> None:
        if self._checks is None:
            self._checks = SetupChecks(self._good_pictures(shot.pixels.shape))
        if self.latencies.is_over(shot.age):  # it is late already: the next one need not be
            self.latencies.add(shot.age)
            deadline = self.latencies.deadline or 0
            over = Notice("verdict-late", took=1000 * shot.age, deadline=1000 * deadline)
            self._no_verdict(over, shot)
            return
        products, inspections = self._desk.products, self._desk.inspections
        _, detector, revision = products.detector(self.product)
        name = _name(shot)
        image = load_image(shot.pixels, name)
        place = products.store.files.upload()
        waiting = Picture(Upload(place, name, "", 0), ".png", image.size, image)
        try:
            result = self._judged(detector, waiting, shot.pixels)
            upload = Upload(place, name, file_sha256(place), place.stat().st_size)
            late = self.latencies.add(shot.age)
            if late:
                result = replace(result, threshold=None, map_threshold=None, p_value=None)
            picture = replace(waiting, upload=upload, decoded=None, late=late)
            arrived = shot.frame.arrived
            inspections.add(self.product, revision, [(picture, result)], shot.id, arrived=arrived)
        finally:
            place.unlink(missing_ok=True)
        self.judged += not late
        if result.anomalous is False:
            self._checks.learn(shot.pixels)
        for finding in self._checks.look(shot.pixels):
            path = self._folder / f"{self.product}-{finding.notice.code}.jpg"
            save_picture(Image.fromarray(finding.pixels), path)
            LOG.warning("camera of %s: %s See %s.", self.product, finding.notice, path)

    def _judged(self, detector: Path, picture: Picture, pixels: Pixels) -> AnomalyResult:
        """The verdict; its file is written meanwhile."""
        files = self._desk.products.store.files
        while True:
            try:
                with self._desk.engine.reserved(1) as enter:
                    (future,) = enter(detector, [picture])
                break
            except BusyError:
                if self._ending.wait(NAP):
                    raise
        try:
            files.check_space(pixels.nbytes)
            Image.fromarray(pixels).save(picture.upload.path, "PNG", compress_level=1)
        except OSError as error:
            if is_full(error):
                raise FullError("disk-full") from error
            raise
        finally:
            result = future.result()
        return result

    def _good_pictures(self, shape: tuple[int, ...]) -> Iterator[Pixels]:
        """The good parts that were taken at the camera's own size: others came from elsewhere."""
        store = self._desk.products.store
        query = select(ImageRow).join(Support, Support.image == ImageRow.sha256)
        same = ImageRow.height == shape[0], ImageRow.width == shape[1], ImageRow.kept
        with store.database.reading() as session:
            rows = list(session.scalars(query.where(Support.product_id == self.product, *same)))
        for row in rows:
            path = store.files.image(row.sha256, row.suffix)
            if path.is_file():
                picture = drawn_image(os.fspath(path), path.name, THUMBNAIL_SOURCE)
                yield np.asarray(picture.rgb())


def _name(shot: Shot) -> str:
    """What the picture of a shot is called in the history."""
    moment = datetime.fromtimestamp(shot.frame.taken / 1e9, timezone.utc)
    return moment.strftime("%Y-%m-%d %H-%M-%S.%f.png")


class Cameras:
    """The cameras of a station by their products."""

    def __init__(self, desk: InspectionDesk, folder: Path) -> None:
        self._desk, self._folder = desk, folder
        host = "".join(c if c.isalnum() else "-" for c in platform.node())
        self._file = folder / f"sources-{host}.json"
        self._running: dict[str, ProductCamera] = {}
        self._lock = threading.Lock()

    def open(self) -> None:
        """Starts those that ran before."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            for product, wanted in json.loads(self._file.read_bytes()).items():
                try:
                    self._desk.products.get(product)
                    self._start(product, SourceIn(**wanted))
                except (HyperfsadError, ValueError) as error:  # such as a package that has gone
                    LOG.warning("camera of %s: %s", product, error)

    def close(self) -> None:
        for camera in list(self._running.values()):
            camera.stop()

    def states(self) -> list[SourceOut]:
        return [camera.state for camera in list(self._running.values())]

    def of(self, product: str) -> ProductCamera:
        found = self._running.get(product)
        if found is None:
            raise MissingError("camera-not-set")
        return found

    def take(self, trigger: int) -> None:
        """Takes a picture for a machine. With several cameras that wait for machines nobody knows
        which verdict would answer it, so none does, and the machine hears that it is late."""
        waiting = [one for one in list(self._running.values()) if isinstance(one.trigger, Software)]
        if len(waiting) != 1:
            if waiting:
                LOG.warning("trigger %d: %d cameras wait for triggers", trigger, len(waiting))
            return
        try:
            waiting[0].ask()
        except HyperfsadError as error:  # no picture is no verdict
            LOG.warning("trigger %d: %s", trigger, error)

    def find(self, product: str) -> SourceOut | None:
        """The state of a product's camera; None where it has none."""
        self._desk.products.get(product)
        found = self._running.get(product)
        return None if found is None else found.state

    def set(self, actor: Actor, product: str, wanted: SourceIn) -> SourceOut:
        """Gives a product a camera, instead of the one that it has."""
        self._desk.products.get(product)
        with self._lock:
            before = self._running.get(product)
            if before is not None and wanted.address == public_address(before.wanted.address):
                wanted = wanted.model_copy(update={"address": before.wanted.address})
            made = ProductCamera(self._desk, self._folder, product, wanted)  # refuses what is wrong
            self._end(product)
            self._running[product] = made
            made.start()
            self._save(actor, "camera set", product, public_address(wanted.address))
        return made.state

    def remove(self, actor: Actor, product: str) -> None:
        """Stops the camera of a product, for good."""
        with self._lock:
            self.of(product)
            self._end(product)
            self._save(actor, "camera removed", product, "")

    def _start(self, product: str, wanted: SourceIn) -> None:
        made = ProductCamera(self._desk, self._folder, product, wanted)
        self._running[product] = made
        made.start()

    def _end(self, product: str) -> None:
        if (before := self._running.pop(product, None)) is not None:
            before.stop()

    def _save(self, actor: Actor, action: str, product: str, detail: str) -> None:
        wanted: dict[str, Any] = {
            product: camera.wanted.model_dump() for product, camera in self._running.items()
        }
        write_file(self._file, json.dumps(wanted, indent=1).encode(), private=True)
        with self._desk.products.store.database.writing() as session:
            audit(session, actor, action, product, detail)


def public_address(address: str) -> str:
    """An address as anybody may see it: no password, and of a file its name alone."""
    return shown(address) if "://" in address else os.path.basename(address)
