"""Commands that inspect images: detect, here or on a cluster, and explain."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..wording import COMMAND_LINE, count
from . import arguments
from .arguments import add_options, chosen
from .console import (
    DONE,
    INTERRUPTED,
    exit_code,
    later_bar,
    print_unknown,
    print_worst,
    printable,
    printable_rows,
    progress,
    say,
    say_all,
)
from .detectors import fitted_detector, found_images, inspecting_detector, saved_detector

if TYPE_CHECKING:
    from ..cluster.output import Totals
    from ..cluster.session import Cluster

LISTED = 10
"""Images that a summary names."""


def add_detect(command: argparse.ArgumentParser) -> None:
    arguments.add_files(command, "images", "IMAGE", "images to inspect")
    arguments.add_source(command, required=True, exported=True)
    add_options(command, f"{arguments.RESULTS}    --resume  continue an interrupted run")
    arguments.add_fitting(command)
    group = add_cluster(command, "inspect")
    add_options(group, "--part-size N  images in a file of results, about [256]")


def add_cluster(command: argparse.ArgumentParser, work: str) -> argparse._ArgumentGroup:
    """Whether `work` is spread over a cluster, and how."""
    group = command.add_argument_group("cluster", f"{work} on many machines (docs/scale.md)")
    text = "what spreads the work (needs hyperfsad[ray])"
    group.add_argument("--on", choices=("ray",), help=text)
    add_options(group, arguments.CLUSTER)
    return group


def cluster_of(options: argparse.Namespace) -> "Cluster":
    """The cluster that the options describe; --threads are the cores of a worker there."""
    from ..cluster.session import Cluster

    return Cluster(**chosen(options, "address", "workers", "threads", "gpus"))


def refuse_cluster_options(options: argparse.Namespace) -> None:
    """Options of a cluster mean nothing without one."""
    for name in ("address", "workers", "gpus"):
        if getattr(options, name) and not options.on:
            raise UsageError("cluster-option", name=COMMAND_LINE[name])


def detect(options: argparse.Namespace) -> int:
    """Scores images and writes the results; what is done survives an interruption."""
    from ..detector.pipeline import inspect, outside

    refuse_cluster_options(options)
    if not options.images:
        if options.normal:
            raise UsageError("images-after-normal")
        raise UsageError("no-image-named")
    if options.detector and (options.calibrate or options.false_alarm_rate is not None):
        raise UsageError("detector-has-threshold", path=options.detector)
    if options.on:
        return _detect_on_cluster(options)
    out, found = Path(options.output), found_images(options.images)
    images = outside(found.paths, out)
    if options.detector:
        detector, all_learnt = inspecting_detector(options), True
    else:
        detector, all_learnt = fitted_detector(options)
    detector.min_area = options.min_area
    try:
        records = inspect(
            detector,
            images,
            out,
            heatmaps=not options.no_heatmaps,
            maps=options.save_maps,
            **chosen(options, "resume", "wait"),
            notify=say,
            progress=progress,
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    return _summarise(records, out, all_learnt and not found.failed)


def _summarise(records: list[dict[str, Any]], out: Path, complete: bool) -> int:
    """Prints the most anomalous images and the counts; returns the exit code."""
    from ..report.records import notices_of, severity
    from ..results.result import FAST

    failed = [record for record in records if record["error"] is not None]
    scored = [record for record in records if record["error"] is None]
    scored.sort(key=severity, reverse=True)
    if scored:
        print_worst(scored[:LISTED], len(scored), str(out / "report.html"))
        print_unknown(sum(record["unknown_product"] is True for record in scored))
    say_all(record["error"] for record in failed)
    say_all(notices_of(scored))
    verdicts = [record["anomalous"] for record in scored if record["anomalous"] is not None]
    judges = [record["judged_by"] for record in scored if record.get("judged_by")]
    text = f"{count(len(scored), 'image')} scored"
    text += f", {sum(verdicts)} anomalous" if verdicts else ""
    text += f", {judges.count(FAST)} by 8-bit pre-screening alone" if judges else ""
    print(printable(f"{text}, {len(failed)} failed; see {out / 'report.html'}"))
    return exit_code(complete and not failed, len(scored))


def _detect_on_cluster(options: argparse.Namespace) -> int:
    """Scores images on Ray and writes parts of Parquet; started again, it does the rest."""
    from ..cluster.run import detect_on_ray
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
        machine=chosen(options, "backbone", "device", "engine", "batch_size"),
    )
    try:
        with later_bar() as bar:
            totals, complete = detect_on_ray(
                options.images,
                job,
                cluster_of(options),
                **chosen(options, "part_size", "wait"),
                notify=say,
                advance=bar(0),
            )
    except KeyboardInterrupt:
        say("hyperfsad: stopped; run it again to continue.")
        return INTERRUPTED
    return _summarise_totals(totals, options.output, complete)


def _summarise_totals(totals: "Totals", out: str, complete: bool) -> int:
    from ..report.records import run_notices

    if totals.worst:
        print_worst(totals.worst, totals.scored, f"{out}/results")
    say_all(totals.errors)
    if totals.failed > len(totals.errors):
        say(f"hyperfsad: and {totals.failed - len(totals.errors):,} more that failed")
    say_all(run_notices(totals.decided, totals.anomalous, totals.foreign))
    print_unknown(totals.unknown_product)
    before = f" ({totals.done_before:,} done before)" if totals.done_before else ""
    anomalous = f", {totals.anomalous:,} anomalous" if totals.decided else ""
    text = f"{totals.scored:,} images scored{before}{anomalous}, {totals.failed:,} failed"
    print(printable(f"{text}; see {out}/results"))
    return exit_code(complete and not totals.failed, totals.scored)


def add_explain(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Show why a place in an image is anomalous: the normal patches that it was compared with,"
        " their weights and what they leave unexplained."
    )
    command.add_argument("image", metavar="IMAGE", help="image file")
    table = """
    --detector FILE      detector file to use (required)
    --at X,Y             place to explain, in pixels of the image (default: the peak of its anomaly
        map)
    -o --output FILE.png  draw the evidence to this file
    --normal GOOD...     images that the detector has learnt, if they have moved; the picture shows
        them
    --json               print all figures as JSON
    --hypergraph FILE.npz  write which normal patches rebuild which patches: a SciPy matrix (.npz)
        or a picture
    --layer N            layer of the hypergraph (default: the last one used)
    """
    add_options(command, table + arguments.MOVED_ENCODER)
    arguments.add_machine(command)


def explain(options: argparse.Namespace) -> int:
    """Prints which normal patches rebuilt a patch of an image, and draws them."""
    detector = saved_detector(options)
    evidence = detector.explain(options.image, *(options.at or (None, None)))
    result = detector.predict(options.image)
    evidence = result.judging(evidence)
    if options.output:
        evidence.save(options.output, options.normal or ())
        say(f"Picture: {options.output}")
    if options.hypergraph:
        graph = detector.hypergraph(options.image, options.layer)
        graph.save(options.hypergraph, options.normal or ())
        say(f"Hypergraph: {options.hypergraph} ({'; '.join(graph.words)})")
    if options.json:
        print(printable_rows(evidence.to_json()))
        return DONE
    print(printable_rows(evidence.to_text()))
    if result.anomalous:
        words = ["hyperfsad", "extend", options.detector, options.image]
        if result.route is not None:
            words += ["--product", result.route.nearest]
        print(printable(f"If this is a good part, teach it: {shlex.join(words)}"))
    return DONE
