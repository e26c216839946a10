"""From images to parts: the whole job, and the removal of what earlier jobs left."""

import contextlib
import json
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..disk.files import encoded, locked_folder
from ..errors import HyperfsadError, UsageError, first_line
from ..messages import Notify, log
from ..report.records import Totals
from ..version import __version__
from .output import PARTS_FOLDER, part_name
from .session import OBJECT_STORE_BYTES, Cluster, ray_session
from .sources import Chunk, ImageLister, chunks
from .storage import StorageFolder, is_local, read_files
from .worker import ChunkAnswer, InspectionJob, Inspector

PART_SIZE = 256
"""Images of a part, about: what a worker that is lost loses at most is three times that."""

TOTALS_FILE = "cluster.json"
"""The totals; while there are none, the work goes on."""


def detect_on_ray(
    sources: Sequence[str],
    job: InspectionJob,
    cluster: Cluster,
    *,
    part_size: int = PART_SIZE,
    wait: bool = False,
    notify: Notify = log,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[Totals, bool]:
    """Inspects the images of files, globs, folders and lists, and writes parts to `job.output`.

    What is there already is not done again. `advance` gets the number of images just done. The
    detector is sent to the workers if it lies here. Returns the totals, and whether all sources
    could be listed.
    """
    if part_size < 1:
        raise UsageError("cluster-part-size", given=part_size)
    if is_local(job.output):
        job = replace(job, output=os.path.abspath(job.output.removeprefix("file://")))
    if is_local(job.detector):
        job = replace(job, files=read_files(job.detector))
    job = replace(job, folder=os.getcwd(), threads=cluster.cores)
    output = StorageFolder(job.output)
    with contextlib.ExitStack() as stack:
        if output.local:
            stack.enter_context(locked_folder(Path(job.output), wait=wait, notify=notify))
        store = OBJECT_STORE_BYTES + 2 * sum(map(len, job.files.values()))
        ray = stack.enter_context(ray_session(cluster, notify, store))
        _write_totals(output, None)
        # a task lists, and the workers inspect what it has found so far
        listed = ray.data.from_items([{"sources": 1}]).map_batches(
            _list_rows,
            fn_args=(list(sources), replace(job, files={}), part_size),
            batch_size=None,
            batch_format="pyarrow",
            num_cpus=0,  # the workers may take all cores
        )
        pool = cluster.worker_pool(ray)
        answers = listed.map_batches(Inspector, fn_constructor_args=(job,), **pool)
        return add_up(_received(ray, answers), output, notify, advance)


def list_chunks(sources: Sequence[str], job: InspectionJob, part_size: int) -> Iterator[Chunk]:
    """The chunks; what was passed over comes with the last, which is empty."""
    if os.path.isdir(job.folder):
        os.chdir(job.folder)
    lister = ImageLister(sources, job.output)
    yield from chunks(lister, part_size)
    yield Chunk("", (), tuple(lister.notes), lister.failed)


def _list_rows(_: Any, sources: list[str], job: InspectionJob, part_size: int) -> Iterator[Any]:
    import pyarrow as pa

    for chunk in list_chunks(sources, job, part_size):
        yield pa.table({"chunk": [pickle.dumps(chunk)]})


def _received(ray: Any, answers: Any) -> Iterator[ChunkAnswer]:
    try:
        for batch in answers.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            yield from map(pickle.loads, batch.column("answer").to_pylist())
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        raise HyperfsadError("cluster-worker-lost", why=first_line(cause)) from error


def add_up(
    answers: Iterable[ChunkAnswer],
    output: StorageFolder,
    notify: Notify = log,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[Totals, bool]:
    """The totals of all answers, and whether all could be listed; then removes the parts of images
    that are gone."""
    totals, parts, complete = Totals(), set(), True
    notes: list[str] = []
    for answer in answers:
        if answer.error is not None:
            raise answer.error
        for note in (*answer.chunk.notes, *answer.notes):
            if note not in notes:  # workers report much the same
                notes.append(note)
                notify(f"hyperfsad: {note}")
        complete &= not answer.chunk.failed
        if answer.totals is not None:
            parts.add(part_name(answer.chunk.key))
            totals.add(answer.totals)
            advance(answer.totals.images)
    if not totals.images:
        raise UsageError("no-images", notes=notes)
    if complete:  # what could not be listed is not gone
        for name in output.names(PARTS_FOLDER):
            if name not in parts and name.startswith(f"{PARTS_FOLDER}/part-"):
                output.remove(name)
    _write_totals(output, totals)
    return totals, complete


def _write_totals(output: StorageFolder, totals: Totals | None) -> None:
    content = {"version": __version__, "totals": None if totals is None else asdict(totals)}
    text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    output.write(TOTALS_FILE, encoded(text))
