"""Two commands at one place at the same time."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hyperfsad import HyperFSAD
from tests.faults.jobs import Fault, FileJob, FolderJob
from tests.faults.stage import Run, Stage, Tally

TOLD = ("is writing to", "is changing", "holds the results of")
"""The sentences for those who come too late."""


@dataclass(frozen=True)
class Pair:
    """Two commands, and what may be there when both have ended."""

    name: str
    commands: tuple[list[str], list[str]]
    harm: Callable[[list[Run]], Iterator[Fault]]
    wait: bool = False
    """Whether both are to succeed, one after the other."""


def pairs(stage: Stage, count: int, seed: int) -> Tally:
    """Pairs of commands that start at nearly the same time."""
    tally, rng = Tally("two processes"), random.Random(seed)
    prepared = FileJob(stage, "extend")
    kinds = all_pairs(stage)
    late = 0
    for trial in range(count):
        pair = kinds[trial % len(kinds)]
        stage.clear()
        prepared.prepare()
        runs = _both(stage, pair, rng.uniform(0, 0.5 * prepared.seconds))
        late += any(run.code == 1 for run in runs)
        faults = [fault for run in runs for fault in run.faults]
        for run in runs:
            if run.code == 1 and (pair.wait or not any(told in run.words for told in TOLD)):
                faults.append(("lost", f"refused: {run.words[-300:]}"))
            elif run.code not in (0, 1):
                faults.append(("tracebacks", f"exit code {run.code}: {run.words[-300:]}"))
        if all(run.code for run in runs):
            faults.append(("lost", "none of the two was done"))
        tally.add([*faults, *pair.harm(runs)], pair.name)
    tally.note = f"in {late} the second was refused in a sentence"
    return tally


def _both(stage: Stage, pair: Pair, apart: float) -> list[Run]:
    started = []
    for number, command in enumerate(pair.commands):
        words = stage.folder / f"words-{number}"
        command = [*command, "--wait"] if pair.wait else command
        started.append((stage.start(command, words), words))
        time.sleep(0 if number else apart)
    return [stage.ended(*each) for each in started]


def all_pairs(stage: Stage) -> list[Pair]:
    """One of each kind."""
    detect, watch = FolderJob(stage, "detect"), FolderJob(stage, "watch")
    file = FileJob(stage, "extend").file
    extends = tuple(["extend", str(file), stage.parts[number]] for number in (2, 3))
    calibrate = ["calibrate", str(file), "--threshold", "0.5"]

    def of_folder(*jobs: FolderJob) -> Callable[[list[Run]], Iterator[Fault]]:
        def harm(runs: list[Run]) -> Iterator[Fault]:
            found = [list(job.harm(done=True)) for job in jobs]
            yield from min(found, key=len)

        return harm

    def of_file(added: tuple[int, ...]) -> Callable[[list[Run]], Iterator[Fault]]:
        def harm(runs: list[Run]) -> Iterator[Fault]:
            expected = [stage.parts[0], stage.parts[1]]
            expected += [
                stage.parts[part] for part, run in zip(added, runs, strict=False) if run.code == 0
            ]
            detector = HyperFSAD.load(file)
            names = [image.name for image in detector.support_]
            for name in expected:
                if names.count(name) != 1:
                    yield ("doubled" if name in names else "lost"), name
            if len(added) == 1 and runs[1].code == 0 and detector.threshold_ != 0.5:
                # extending draws a threshold of its own, unless one was set by hand
                yield "lost", f"the threshold is {detector.threshold_}"

        return harm

    return [
        Pair("detect and detect", (detect.command, detect.command), of_folder(detect)),
        Pair("detect and watch", (detect.command, watch.command), of_folder(detect, watch)),
        Pair("watch and watch", (watch.command, watch.command), of_folder(watch)),
        Pair("extend and extend", (extends[0], extends[1]), of_file((2, 3))),
        Pair("extend and extend, waiting", (extends[0], extends[1]), of_file((2, 3)), wait=True),
        Pair("extend and calibrate, waiting", (extends[0], calibrate), of_file((2,)), wait=True),
    ]
