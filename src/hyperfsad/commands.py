"""The commands: each takes the parsed options, does its work and returns an exit code.

Heavy imports wait inside the functions, since the parser needs the commands' names.
"""

import argparse
import gc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import (
    DONE,
    INTERRUPTED,
    NOTHING,
    SOME_FAILED,
    count,
    printable,
    progress,
    say,
    status_line,
)
from .encoders import REGISTRY
from .errors import DetectorFileError, UsageError

if TYPE_CHECKING:
    from .detector import HyperFSAD
    from .images import FoundImages


def fit(options: argparse.Namespace) -> int:
    """Learns from good parts and saves a detector."""
    _require_free(options.output)
    detector = _new_detector(options)
    found = _found(options.normal)
    detector.fit(progress(found.paths, "learning"))
    detector.save(options.output)
    _say_saved(detector, options.output)
    return SOME_FAILED if detector.skipped_ or found.failed else DONE


def extend(options: argparse.Namespace) -> int:
    """Adds good parts to a saved detector."""
    target = options.output or options.detector
    _require_free(target)
    detector = _loaded_detector(options)
    before = len(detector.memory_)
    found = _found(options.normal)
    detector.extend(progress(found.paths, "learning"))
    if len(detector.memory_) == before:
        raise UsageError("There was no new normal image; the detector is as it was.")
    detector.save(target)
    _say_saved(detector, target)
    if options.check:
        from .theory.command import check_extension

        check_extension(detector, before, options.check)
    return SOME_FAILED if detector.skipped_ or found.failed else DONE


def detect(options: argparse.Namespace) -> int:
    """Scores images and writes the results; what is done survives an interruption."""
    from .outputs import OutputFolder
    from .pipeline import Behind

    out = Path(options.output)
    if not options.images:
        raise UsageError("No image to look at was named; put the images before --normal.")
    found = _found(options.images)
    images = [path for path in found.paths if not _below(path, out)]
    if not images:
        raise UsageError(f"All images lie in the output folder {out}.")
    complete = not found.failed
    if options.detector:
        detector = _loaded_detector(options)
    else:
        normal = _found(options.normal)
        detector = _new_detector(options).fit(progress(normal.paths, "learning"))
        complete &= not detector.skipped_ and not normal.failed
    detector.min_area = options.min_area
    output = OutputFolder(
        out,
        run=f"{detector.identity()} {options.min_area:g}",
        heatmaps=not options.no_heatmaps,
        maps=options.save_maps,
        support=detector.memory_.images,
    )
    with output.open(resume=options.resume, notify=say):
        wanted = list(dict.fromkeys(images))
        todo = [image for image in wanted if image not in output]
        if len(todo) < len(wanted):
            say(f"{count(len(wanted) - len(todo), 'image')} done before.")
        try:
            with Behind(output.add) as writer:
                for result in progress(
                    detector.predict(todo, keep_pictures=not options.no_heatmaps),
                    "detecting",
                    len(todo),
                ):
                    writer.put(result)
        except KeyboardInterrupt:
            done = sum(image in output for image in wanted)
            say(f"hyperfsad: stopped after {done} of {len(wanted)} images; --resume goes on there.")
            return INTERRUPTED
        lines = output.finish(images)
    return _summarise(lines, out, complete)


def explain(options: argparse.Namespace) -> int:
    """Says which normal patches rebuilt a patch of an image, and draws them."""
    detector = _loaded_detector(options)
    evidence = detector.evidence(options.image, *(options.at or (None, None)))
    if options.output:
        evidence.save(options.output, options.normal or ())
        say(f"Picture: {options.output}")
    print(printable(evidence.to_json() if options.json else evidence.to_text()))
    return DONE


def demo(options: argparse.Namespace) -> int:
    """Draws parts, judges them and prints what was drawn beside the verdict."""
    from .demo import MARGIN, REFERENCE, run_demo

    out = Path(options.output)
    status = status_line()
    rows = run_demo(out, lambda: _new_detector(options), status)
    status("")
    width = max(len(row.image) for row in rows)
    print(f"{'part':{width}}  {'drawn':13}  score  line   verdict")
    for row in rows:
        mark = "" if (row.shown == "good") == (row.verdict == "good") else "  (wrong)"
        print(
            f"{row.image:{width}}  {row.shown:13}  {row.score:.3f}  {row.line:.3f}  "
            f"{row.verdict}{mark}"
        )
    print(
        f"Above the line a part is a defect: {MARGIN} times the highest score of"
        f" {REFERENCE} other good parts."
    )
    for report in sorted(out.glob("*/report.html")):
        print(f"Pictures: {report.parent / 'heatmaps'}  (page: {report})")
    return DONE


def speed(options: argparse.Namespace) -> int:
    """Measures each stage and prints the table."""
    import json

    from .files import atomic_path
    from .speed import measure

    status = status_line()
    report = measure(_new_detector(options), options.shots, options.rounds, status)
    status("")
    print(report.to_text())
    if options.json:
        with atomic_path(Path(options.json)) as temporary:
            text = json.dumps(report.to_json(), indent=2) + "\n"
            temporary.write_text(text, encoding="utf-8")
    if options.plot:
        from .bench.canvas import save_figure
        from .bench.figures import cost_against_shots

        path = Path(options.plot)
        save_figure(cost_against_shots(report), path.parent, path.stem)
    return DONE


def encoders(options: argparse.Namespace) -> int:
    """Lists the encoders, or fetches one."""
    from .encoders.store import cached_folder, fetch

    if options.action == "fetch":
        if options.name not in REGISTRY:
            raise UsageError(f"{options.name} is not one of {', '.join(REGISTRY)}.")
        origin = Path(options.origin) if options.origin else None
        print(f"{options.name} is in {fetch(REGISTRY[options.name], origin, say)}")
        return DONE
    print(f"{'name':18} {'cached':6} {'licence':15} source")
    for spec in REGISTRY.values():
        cached = "yes" if cached_folder(spec) else "no"
        note = f"  ({spec.note})" if spec.note else ""
        print(f"{spec.name:18} {cached:6} {spec.licence:15} {spec.source}{note}")
    print("A local folder in the Hugging Face format (DINOv2, DINOv3, CLIP) works as well.")
    return DONE


def info(options: argparse.Namespace) -> int:
    """Prints what is in a detector file."""
    import json

    from .storage import read_header

    header = read_header(Path(options.detector))
    if options.json:
        print(json.dumps(header, indent=2, ensure_ascii=False))
        return DONE
    try:
        encoder, images = header["encoder"], header["normal_images"]
        lines = [
            f"{options.detector} (format {header['format']})",
            f"encoder     {encoder['name']}, {encoder['resolution']} px",
            f"layers      {', '.join(map(str, encoder['layers']))}",
            f"recipe      {header.get('recipe', 'paper')}",
            f"lookup      {header['lookup']}",
            f"pooling     {header['pooling']}, λ = {header['lambda']}",
            f"threshold   {'none' if header['threshold'] is None else header['threshold']}",
            f"of the map  {'none' if (level := header.get('map_threshold')) is None else level}",
            f"normal      {count(len(images), 'image')}",
            *(f"            {image['sha256'][:12]}  {image['name']}" for image in images),
        ]
    except (KeyError, TypeError) as error:
        raise DetectorFileError(f"{options.detector} is damaged: {error!r}.") from error
    print(printable("\n".join(lines)))
    return DONE


def _require_free(path: str) -> None:
    """A detector never takes the place of a picture or of any other file."""
    if os.path.isfile(path):
        from .storage import read_header

        try:
            read_header(Path(path))
        except DetectorFileError as error:
            raise UsageError(
                f"{path} exists and is no detector file; choose another name."
            ) from error


def _summarise(lines: list[dict[str, Any]], out: Path, complete: bool) -> int:
    failed = [line for line in lines if line["error"] is not None]
    scored = sorted((line for line in lines if line["error"] is None), key=lambda x: -x["score"])
    if scored:
        print("  score  most anomalous images")
        for line in scored[:10]:
            print(f"{line['score']:7.3f}  {printable(line['image'])}")
    for line in failed:
        say(f"hyperfsad: {line['error']}")
    scores = count(len(scored), "image")
    print(f"{scores} scored, {len(failed)} failed; see {out / 'report.html'}")
    if not scored:
        return NOTHING
    return SOME_FAILED if failed or not complete else DONE


def _detector_class(options: argparse.Namespace) -> "type[HyperFSAD]":
    """Imported without the garbage collector: all that torch's import makes stays to the end, and
    looking through it again and again, then and at the exit, took half a second."""
    resting = not gc.isenabled()
    gc.disable()
    try:
        from .detector import HyperFSAD
        from .encoders.engines import use_threads
    finally:
        gc.freeze()
        if not resting:
            gc.enable()
    use_threads(options.threads)
    return HyperFSAD


def _new_detector(options: argparse.Namespace) -> "HyperFSAD":
    detector = _detector_class(options)
    return detector(
        options.backbone,
        recipe=options.recipe or options.usual_recipe,
        layers=options.layers,
        resolution=options.resolution,
        lookup=options.lookup,
        pooling=options.pooling,
        lam=options.lam,
        device=options.device,
        engine=options.engine,
        batch_size=options.batch_size,
        notify=say,
    )


def _loaded_detector(options: argparse.Namespace) -> "HyperFSAD":
    fixed = ("recipe", "layers", "resolution", "lookup", "pooling", "lam")
    given = [name for name in fixed if getattr(options, name, None) is not None]
    if given:
        name = "lambda" if given[0] == "lam" else given[0]
        raise UsageError(f"--{name} is fixed in a saved detector; fit a new one to change it.")
    detector = _detector_class(options)
    return detector.load(
        options.detector,
        backbone=options.backbone,
        device=options.device,
        engine=options.engine,
        batch_size=options.batch_size,
        notify=say,
    )


def _found(sources: Sequence[str]) -> "FoundImages":
    from .images import find_images

    found = find_images(sources)
    for note in found.notes:
        say(f"hyperfsad: {note}")
    return found


def _below(path: str, folder: Path) -> bool:
    return folder.resolve() in Path(path).resolve().parents


def _say_saved(detector: "HyperFSAD", path: str) -> None:
    size = os.path.getsize(path) / 1e6
    print(f"{path}: {count(len(detector.memory_), 'normal image')}, {size:.1f} MB")
