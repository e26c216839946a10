"""Detectors as the options describe them: new, saved or fitted; and `detect`, which runs one."""

import argparse
import contextlib
import gc
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..decisions.thresholds import FALSE_ALARM_RATE
from ..detector.settings import MACHINE, SETTINGS, Settings
from ..errors import UsageError
from ..messages import Notify, log
from ..wording import COMMAND_LINE, as_rows, count
from . import arguments
from .arguments import add_options, chosen, one_of
from .console import (
    ANOMALOUS,
    INTERRUPTED,
    VERDICTS,
    exit_code,
    later_bar,
    print_facts,
    progress,
    reach,
    say_all,
    tell,
    warn,
)

if TYPE_CHECKING:
    from ..detector.detector import HyperFSAD
    from ..detector.protocols import Detector, Inspecting
    from ..images.reading import FoundImages
    from ..messages import Notice
    from ..report.records import Record, Totals


MACHINE_OPTIONS = ("backbone", "device", "engine", "precision", "batch_size")
"""Where a saved detector runs."""


def given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that the options name; refused before anything heavy is imported."""
    given: dict[str, Any] = {name: getattr(options, name, None) for name in SETTINGS}
    given["recipe"] = options.recipe or options.default_recipe
    Settings(**given)
    return given


def new_detector(options: argparse.Namespace, notify: Notify = log, **changed: Any) -> "HyperFSAD":
    """A detector that has learnt nothing yet."""
    settings = Settings(**{**given_settings(options), **changed})
    prepare(options)
    from ..detector.detector import HyperFSAD

    return HyperFSAD.of(settings, notify)


def saved_detector(options: argparse.Namespace) -> "Detector":
    """A saved detector, whatever it holds; its encoder loads while torch is imported."""
    from ..detector.file import open_file

    _refuse_fixed(options)
    opened = open_file(options.detector)
    opened.begin_encoder(**chosen(options, "device", "engine", "precision", "threads"))
    prepare(options)
    from ..detector.products import load_detector

    detector = load_detector(opened, **_machine(options))
    detector.progress = progress
    return detector


def inspecting_detector(options: argparse.Namespace) -> "Inspecting":
    """A saved detector, or the folder of an exported one; torch is not imported for the latter."""
    if not os.path.isdir(options.detector):
        return saved_detector(options)
    _refuse_fixed(options, "backbone")
    Settings(**chosen(options, "device", "engine", "precision")).check("exported")
    from ..export.exported import ExportedDetector

    return ExportedDetector(options.detector, **chosen(options, "threads", "batch_size"))


def single_detector(options: argparse.Namespace) -> "HyperFSAD":
    """A saved detector of one product, or a new one fitted on the given good parts."""
    if options.detector:
        _refuse_fixed(options)
        prepare(options)
        from ..detector.detector import HyperFSAD

        return HyperFSAD.load(options.detector, **_machine(options))
    one_of({"--detector": options.detector}, {"--normal": options.normal})
    normal = found_images(options.normal)
    return new_detector(options).fit(progress(normal.paths, "learning"))


def saved_or_fitted(options: argparse.Namespace) -> "tuple[Detector, bool]":
    """A detector that can still learn; and whether all good parts could be read."""
    return (saved_detector(options), True) if options.detector else fitted_detector(options)


def fitted_detector(options: argparse.Namespace) -> "tuple[Detector, bool]":
    """A new detector fitted and calibrated on good parts; and whether all could be read."""
    detector: Detector
    one_of({"--line": options.line}, {"--calibrate": options.calibrate}, needed=False)
    if getattr(options, "categories", None):
        one_of({"--line": options.line}, {"--categories": options.categories})
        detector, found, good = _new_products(options)
    else:
        found = {"": found_images(options.normal)}
        good = {"": found_images(options.calibrate)} if options.calibrate else {}
        detector = new_detector(options)
    detector.progress = progress
    line = found_images(options.line) if options.line else None
    if line is not None:
        detector.check("adapt")
    limit = false_alarm_rate(options)
    parts = {name: progress(each.paths, name or "learning") for name, each in found.items()}
    waits = "" in parts and bool(good)
    detector.fit(parts.get("", parts), false_alarm_rate=limit, threshold=not waits)
    complete = not detector.skipped_
    for name, each in good.items():
        product = detector.products_[name]
        images = progress(each.paths, f"calibrating {name}".rstrip())
        product.calibrate(images, false_alarm_rate=limit, keep_outliers=options.keep_outliers)
        complete &= not product.skipped_
    if line is not None:
        learn_line(detector, line.paths)
        complete &= not detector.skipped_ and not line.failed
    return detector, complete and not any(each.failed for each in [*found.values(), *good.values()])


def learn_line(detector: "Detector", paths: "Sequence[str]") -> "Detector":
    """Learns from unlabelled parts, and says when that begins and ends: a log has no bar."""
    begun = time.monotonic()
    tell(f"learning from {count(len(paths), 'unlabelled part')}; this may take a minute")
    detector.adapt(paths)
    tell(f"learnt from the unlabelled parts in {time.monotonic() - begun:.0f} s")
    return detector


def _new_products(
    options: argparse.Namespace,
) -> "tuple[Detector, dict[str, FoundImages], dict[str, FoundImages]]":
    """A detector of several products, the good parts of each, and those that calibrate it."""
    from ..images.reading import product_folders

    if options.calibrate and len(options.calibrate) > 1:
        raise UsageError("categories-calibrate-one-folder")
    found = product_folders(options.categories)
    settings = Settings(**given_settings(options))
    settings.check("products")
    prepare(options)
    from ..detector.products import ProductDetector

    for each in found.values():
        say_all(each.notes)
    good = product_folders(*options.calibrate) if options.calibrate else {}
    if unknown := sorted(set(good) - set(found)):
        folders = {"folder": options.calibrate[0], "categories": options.categories}
        raise UsageError("categories-differ", products=unknown, **folders)
    return ProductDetector.of(settings), found, good


def false_alarm_rate(options: argparse.Namespace) -> float:
    """The share of good parts that may be called anomalous."""
    return float(options.false_alarm_rate or FALSE_ALARM_RATE)


def found_images(sources: Sequence[str]) -> "FoundImages":
    """The images behind files, globs and folders; says what was ignored."""
    from ..images.reading import find_images

    found = find_images(sources)
    say_all(found.notes)
    return found


def prepare(options: argparse.Namespace) -> None:
    """Imports torch without the garbage collector: all that the import makes stays to the end, and
    searching it again and again, then and at the exit, took half a second."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        from ..detector import detector  # noqa: F401
        from ..encoders.encoder import use_threads
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
    use_threads(options.threads)


def _machine(options: argparse.Namespace) -> dict[str, Any]:
    return chosen(options, *MACHINE_OPTIONS)


def _refuse_fixed(options: argparse.Namespace, *more: str) -> None:
    """All settings are fixed in a saved detector, apart from where it runs."""
    fixed = [name for name, one in SETTINGS.items() if one.group != MACHINE and name != "backbone"]
    for name in (*fixed, *more):
        if getattr(options, name, None) not in (None, False):
            raise UsageError("setting-fixed", name=COMMAND_LINE[name])


DETECT = """
    --resume    continue an interrupted run
    --parquet   write results.parquet as well (needs pyarrow)
    --formats A,B  write files for these programs as well: yolo, label-studio, cvat, fiftyone
    --fail-on-anomalous  end with the exit code 4 if a part is anomalous; it goes before 3
    --together  learn from the images themselves first, as unlabelled parts of one line of which
        nearly all are good (`hyperfsad adapt`)
"""


def add_detect(command: argparse.ArgumentParser) -> None:
    arguments.add_files(command, "images", "IMAGE", "images to inspect")
    arguments.add_source(command, required=True, exported=True)
    add_options(command, arguments.RESULTS + DETECT + arguments.JSON)
    arguments.add_fitting(command)
    add_options(command, arguments.CLUSTER)


def detect(options: argparse.Namespace) -> int:
    """Scores images and writes the results; what is done survives an interruption."""
    from ..detector.pipeline import inspect, outside
    from ..report.records import Totals

    for name in ("address", "workers", "gpus"):
        if getattr(options, name) and not options.on:
            raise UsageError("cluster-option", name=COMMAND_LINE[name])
    if not options.images:
        raise UsageError("no-image-named")
    if options.detector and (
        options.calibrate or options.line or options.false_alarm_rate is not None
    ):
        raise UsageError("detector-has-threshold", path=options.detector)
    if options.on:
        return _detect_on_cluster(options)
    out, found = Path(options.output), found_images(options.images)
    images = outside(found.paths, out)
    one_of({"--together": options.together or None}, {"--line": options.line}, needed=False)
    detector: Inspecting
    learner, all_learnt = None, True
    if options.detector and os.path.isdir(options.detector) and not options.together:
        detector = inspecting_detector(options)
    else:
        learner, all_learnt = saved_or_fitted(options)
        detector = learn_line(learner, images) if options.together else learner
    detector.min_area = options.min_area
    try:
        records = inspect(
            detector,
            images,
            out,
            heatmaps=not options.no_heatmaps,
            maps=options.save_maps,
            formats=options.formats or (),
            **chosen(options, "parquet", "resume", "wait"),
            progress=progress,
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    complete = all_learnt and not found.failed
    code = _summarise(options, Totals.of(records), str(out / "report.html"), complete)
    if learner is not None:
        say_all(_advice(learner, records))
    return code


def _advice(detector: "Detector", records: "Sequence[Record]") -> "Iterator[Notice]":
    """What --together would change, where the detector could still learn from these images."""
    from ..decisions.line import together_notice

    with contextlib.suppress(UsageError):
        detector.check("adapt")
        calibration = detector.calibration_
        if calibration is not None and calibration.method == "support":
            notice = together_notice([row["level"] for row in records if row["level"] is not None])
            if notice is not None:
                yield notice


def _detect_on_cluster(options: argparse.Namespace) -> int:
    """Scores images on Ray and writes parts of Parquet; started again, it does the rest."""
    from ..cluster.run import detect_on_ray
    from ..cluster.session import Cluster
    from ..cluster.worker import InspectionJob

    if not options.detector:
        raise UsageError("cluster-needs-file")
    job = InspectionJob(
        options.output,
        options.detector,
        files={},
        heatmaps=not options.no_heatmaps,
        maps=options.save_maps,
        min_area=options.min_area,
        machine=chosen(options, *MACHINE_OPTIONS),
    )
    try:
        with later_bar() as bar:
            totals, complete = detect_on_ray(
                options.images,
                job,
                Cluster(**chosen(options, "address", "workers", "threads", "gpus")),
                **chosen(options, "part_size", "wait"),
                advance=bar(0),
            )
    except KeyboardInterrupt:
        warn("stopped; run it again to continue.")
        return INTERRUPTED
    return _summarise(options, totals, f"{options.output}/results", complete)


def _summarise(options: argparse.Namespace, totals: "Totals", where: str, complete: bool) -> int:
    """Prints the most anomalous images and the counts; returns the exit code."""
    from ..report.records import run_notices

    say_all(totals.errors)
    if totals.failed > len(totals.errors):
        warn(f"and {totals.failed - len(totals.errors):,} more failed")
    say_all(run_notices(totals.decided, totals.anomalous, totals.foreign))
    print_facts(options, as_rows(_rows(totals, where)), {**totals.to_dict(), "results": where})
    if options.fail_on_anomalous and totals.anomalous:
        return ANOMALOUS
    return exit_code(complete and not totals.failed, totals.scored)


def _rows(totals: "Totals", where: str) -> "Iterator[str]":
    """What was found, for people."""
    if totals.worst:
        head = "of the limit" if totals.decided else "score"
        yield f"{head:>12}  verdict    most anomalous images"
    for record in totals.worst:
        far = reach(record["level"], record["score"])
        yield f"{far:>12}  {VERDICTS[record['anomalous']]:9}  {record['image']}{_remark(record)}"
    if totals.scored > len(totals.worst):
        yield f"{'':14}and {totals.scored - len(totals.worst):,} more: {where}"
    if totals.unknown_product:
        text = "scores that mean little, since the image fits no product (unknown_product)"
        yield f"{text}: {totals.unknown_product:,}"
    text = f"{totals.scored:,} image{'s' * (totals.scored != 1)} scored"
    text += f" ({totals.done_before:,} done before)" if totals.done_before else ""
    text += f", {totals.anomalous:,} anomalous" if totals.decided else ""
    yield f"{text}, {totals.failed:,} failed; see {where}"


def _remark(record: dict[str, Any]) -> str:
    """The defect of an image, and its product."""
    text = "  (looks like another product)" if record.get("foreign") else ""
    text += "" if record.get("defect") is None else f"  [{record['defect']}]"
    if (nearest := record.get("nearest_product")) is not None:
        unknown = record["unknown_product"]
        text += f"  (fits no product, nearest {nearest})" if unknown else f"  ({nearest})"
    return text
