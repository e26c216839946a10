"""Damaged pictures and detector files, each through the whole of a detector."""

import contextlib
import math
import signal
from collections.abc import Iterator
from pathlib import Path

from hyperfsad import HyperFSAD
from tests.detector.mutations import BAD, campaign
from tests.faults.jobs import Fault
from tests.faults.stage import PATIENCE, Stage, Tally, aside
from tests.images.damage import KINDS, mutations

CHUNK = 50
"""Damaged pictures that are judged as one list, a sound one among them."""


def pictures(stage: Stage, count: int, seed: int) -> Tally:
    """Mutated pictures of all formats, judged by a detector."""
    return aside(_pictures, stage, count, seed)


def _pictures(stage: Stage, count: int, seed: int) -> Tally:
    tally = Tally("damaged pictures")
    detector = HyperFSAD.load(stage.first, device="cpu")
    expected = detector.predict(stage.photos[0]).score
    folder = stage.folder / "damaged"
    folder.mkdir(exist_ok=True)
    refused = 0
    for number, kind in enumerate(KINDS):
        share = count // len(KINDS) + (number < count % len(KINDS))
        paths = []
        for place, content in enumerate(mutations(kind, share, seed)):
            path = folder / f"{place}.{kind.lower()}"
            path.write_bytes(content)
            paths.append(str(path))
        for start in range(0, len(paths), CHUNK):
            chunk = paths[start : start + CHUNK]
            faults, named = _judged(detector, [*chunk, stage.photos[0]], expected)
            refused += named
            tally.add(faults, f"{kind} from {chunk[0]}")
            tally.trials += len(chunk) - 1
    tally.note = f"{refused} refused by name, the others could be read"
    return tally


def _judged(detector: HyperFSAD, paths: list[str], expected: float) -> tuple[list[Fault], int]:
    """What is wrong with the results of a list that ends with a sound picture."""
    faults: list[Fault] = []
    try:
        with _at_most(PATIENCE):
            results = list(detector.predict_many(paths))
    except TimeoutError as error:
        return [("hangs", str(error))], 0
    except Exception as error:
        return [("tracebacks", repr(error))], 0
    if [result.image for result in results] != paths:
        faults.append(("lost", f"{len(results)} results of {len(paths)}"))
    for result in results:
        if result.error is None and not math.isfinite(result.score):
            faults.append(("changed", f"{result.image} has the score {result.score}"))
    if results and results[-1].score != expected:
        faults.append(("changed", "the score of a sound picture"))
    return faults, sum(result.error is not None for result in results)


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"nothing came in {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def detector_files(stage: Stage, count: int, seed: int) -> Tally:
    """Mutated detector files that are loaded, and judge a picture where they are accepted."""
    folder = stage.folder / "files"
    folder.mkdir(exist_ok=True)
    source = folder / "sound.hfsad"
    source.write_bytes(Path(stage.first).read_bytes())
    found = aside(campaign, source, count, seed)
    outcomes = found["outcomes"]
    tally = Tally("damaged detector files", trials=sum(outcomes.values()))
    for outcome in BAD:
        kind = "changed" if outcome in ("not finite", "changed") else "tracebacks"
        tally.faults[kind] += outcomes.get(outcome, 0)
    if found["seconds"] > 1 or found["megabytes"] > 200:
        tally.add([("hangs", "a stranger's file takes a second or 200 MB")], source.name)
    tally.note = (
        f"{outcomes.get('refused', 0)} refused; the slowest took {found['seconds']:.2f} s,"
        f" all together {found['megabytes']:.0f} MB more"
    )
    return tally
