"""From images to parts: the whole job, and tidying up after earlier ones."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..disk.files import encoded
from ..disk.locks import occupied
from ..errors import HyperfsadError, UsageError, first_line
from ..messages import Notify, silent
from ..version import __version__
from .parts import FOLDER, files_named, part_name
from .places import Place, is_local, loaded_files
from .sources import Chunk, Finder, chunks
from .started import STORE, Cluster, pool_size, started
from .totals import Totals
from .worker import Inspector, Job

PART_SIZE = 256
"""Images of a part, about: what a worker that is lost loses at most is three times that."""

CARD = "cluster.json"
"""What was done, in a few figures; while there are no figures, it is being done."""

IN_FLIGHT = 2
"""Chunks of a worker: one is inspected while the next one waits."""


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    totals: Totals
    complete: bool
    """Whether all sources could be listed."""
    workers: int


def detect_on_ray(
    sources: Sequence[str],
    job: Job,
    cluster: Cluster,
    *,
    part_size: int = PART_SIZE,
    wait: bool = False,
    notify: Notify = silent,
    advance: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Inspects the images of files, globs, folders and lists, and writes parts to `job.output`.

    What is there already is not done again. `advance` hears of the number of images just done.
    The detector is sent to the workers from here if it lies here.
    """
    if part_size < 1:
        raise UsageError(f"A part has at least one image, not {part_size}.")
    if is_local(job.output):
        job = replace(job, output=os.path.abspath(job.output.removeprefix("file://")))
    if is_local(job.detector):
        job = replace(job, files=loaded_files(job.detector))
    job = replace(job, folder=os.getcwd(), threads=cluster.cores)
    place = Place(job.output)
    with contextlib.ExitStack() as stack:
        if place.local:
            stack.enter_context(occupied(Path(job.output), wait=wait, notify=notify))
        store = STORE + 2 * sum(map(len, job.files.values()))
        ray = stack.enter_context(started(cluster, notify, store))
        place.write(CARD, _card(None))
        workers = pool_size(ray, cluster)
        pipeline = _pipeline(ray, sources, job, cluster, workers, part_size)
        totals, complete = gathered(_answers(ray, pipeline), place, notify, advance)
        return Outcome(totals, complete, workers)


def _pipeline(
    ray: Any, sources: Sequence[str], job: Job, cluster: Cluster, workers: int, part_size: int
) -> Any:
    """A task lists, and the workers inspect what it has found so far."""
    found = ray.data.from_items([{"sources": 1}]).map_batches(
        listed,
        fn_kwargs={
            "sources": list(sources),
            "output": job.output,
            "size": part_size,
            "folder": job.folder,
        },
        batch_size=None,
        batch_format="pyarrow",
        num_cpus=0,  # the workers may take all cores
    )
    return found.map_batches(
        Inspector,
        fn_constructor_args=(job,),
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=cluster.cores,
        num_gpus=cluster.gpus or None,
        compute=ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=IN_FLIGHT),
    )


def listed(_: Any, sources: Sequence[str], output: str, size: int, folder: str) -> Iterator[Any]:
    """The chunks as tables of one row each; what was passed over is in the last."""
    if os.path.isdir(folder):
        os.chdir(folder)
    finder = Finder(sources, output)
    for chunk in chunks(finder, size):
        yield _row(chunk)
    yield _row(Chunk("", ()), finder.notes, finder.failed)


def _row(chunk: Chunk, notes: Sequence[str] = (), failed: bool = False) -> Any:
    import pyarrow as pa

    names = [os.fsencode(image.name) for image in chunk.images]  # names need not be Unicode
    stamps = [image.stamp for image in chunk.images]
    columns = {
        "key": pa.array([chunk.key], pa.string()),
        "images": pa.array([names], pa.list_(pa.binary())),
        "stamps": pa.array([stamps], pa.list_(pa.string())),
        "notes": pa.array([list(notes)], pa.list_(pa.string())),
        "failed": pa.array([failed], pa.bool_()),
    }
    return pa.table(columns)


def _answers(ray: Any, pipeline: Any) -> Iterator[dict[str, Any]]:
    try:
        for batch in pipeline.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            for text in batch.column("answer").to_pylist():
                yield json.loads(text)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        raise HyperfsadError(
            f"A worker failed, and so the run: {first_line(cause)}; what is done is kept, so run it"
            " again."
        ) from error


def gathered(
    answers: Iterator[dict[str, Any]],
    place: Place,
    notify: Notify = silent,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[Totals, bool]:
    """Adds up what the workers answer; then tidies up. Also: whether all could be listed."""
    totals, keys = Totals(), set()
    complete, stale = True, set()
    said: list[str] = []
    for answer in answers:
        if answer["fatal"] is not None:
            raise HyperfsadError(answer["fatal"])
        for note in answer["notes"]:
            if note not in said:  # each worker has its own to say, and they are much the same
                said.append(note)
                notify(f"hyperfsad: {note}")
        complete &= not answer["failed"]
        if "totals" in answer:
            keys.add(answer["key"])
            stale.update(answer["stale"])
            part = Totals(**answer["totals"])
            totals.add(part)
            advance(part.images)
    if not totals.images:
        raise UsageError(" ".join(said) or "No image was given.")
    if complete:  # what could not be listed is not gone
        _tidy(place, keys, stale)
    place.write(CARD, _card(totals))
    return totals, complete


def _tidy(place: Place, keys: set[str], stale: set[str]) -> None:
    """Removes parts of images that are no longer meant, and files that no part names any more."""
    ours = set(map(part_name, keys))
    gone = [
        name
        for name in place.names(FOLDER)
        if name not in ours and name.startswith(part_name("").removesuffix(".parquet"))
    ]
    stale = stale.union(*(_named_files(place, name) for name in gone))
    if stale:
        for name in ours:
            stale -= _named_files(place, name)
    for name in (*gone, *sorted(stale)):
        place.remove(name)


def _named_files(place: Place, part: str) -> set[str]:
    """The heat maps and maps that a part names."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(
            pa.BufferReader(place.read(part) or b""), columns=["heatmap", "map"]
        )
    except (pa.ArrowInvalid, KeyError):
        return set()
    return set().union(*map(files_named, table.to_pylist()))


def _card(totals: Totals | None) -> bytes:
    content = {"version": __version__, "totals": None if totals is None else totals.to_dict()}
    return encoded(json.dumps(content, ensure_ascii=False, indent=2) + "\n")
