"""Commands that inspect images: detect, here or on a cluster, and explain."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..messages import count
from ..wording import COMMAND_LINE
from . import arguments
from .arguments import chosen, flag, option
from .console import (
    DONE,
    INTERRUPTED,
    exit_code,
    later_bar,
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
    from ..detector.protocols import Inspecting

LISTED = 10
"""Images that a summary names."""


def add_detect(command: argparse.ArgumentParser) -> None:
    arguments.add_files(command, "images", "IMAGE", "images to inspect")
    arguments.add_source(command, required=True, exported=True)
    arguments.add_results(command)
    flag(command, "--resume", "continue an interrupted run")
    arguments.add_fitting(command)
    cluster = add_cluster(command, "inspect")
    option(cluster, "--part-size N", "images in a file of results, about", int, 256)


def add_cluster(command: argparse.ArgumentParser, work: str) -> argparse._ArgumentGroup:
    """Whether `work` is spread over a cluster, and how."""
    group = command.add_argument_group("cluster", f"{work} on many machines (docs/scale.md)")
    text = "what spreads the work (needs hyperfsad[ray])"
    group.add_argument("--on", choices=("ray",), help=text)
    text = "address of a Ray cluster (default: RAY_ADDRESS, otherwise a Ray on this machine)"
    option(group, "--address HOST:PORT", text)
    text = "processes with a detector each (default: as many as the cluster has room for)"
    option(group, "--workers N", text, int)
    text = "graphics cards of each worker, or a share of one such as 0.25"
    option(group, "--gpus NUMBER", text, float, 0)
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
    out = Path(options.output)
    if not options.images:
        if options.normal:
            raise UsageError("images-after-normal")
        raise UsageError("no-image-named")
    if options.detector and (options.calibrate or options.false_alarm_rate is not None):
        raise UsageError("detector-has-threshold", path=options.detector)
    if options.on:
        return _detect_on_cluster(options)
    found = found_images(options.images)
    images = outside(found.paths, out)
    complete = not found.failed
    detector: Inspecting
    if options.detector:
        detector = inspecting_detector(options)
    else:
        detector, all_read = fitted_detector(options)
        complete &= all_read
    detector.min_area = options.min_area
    try:
        records = inspect(
            detector,
            images,
            out,
            heatmaps=not options.no_heatmaps,
            maps=options.save_maps,
            resume=options.resume,
            wait=options.wait,
            notify=say,
            progress=progress,
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    return _summarise(records, out, complete)


def _summarise(records: list[dict[str, Any]], out: Path, complete: bool) -> int:
    """Prints the most anomalous images and the counts; returns the exit code."""
    from ..report.records import notices_of, severity
    from ..results.result import FAST

    failed = [record for record in records if record["error"] is not None]
    scored = [record for record in records if record["error"] is None]
    scored.sort(key=severity, reverse=True)
    if scored:
        print_worst(scored[:LISTED], len(scored), str(out / "report.html"))
        _print_unknown([record for record in scored if record.get("unknown_product")])
    say_all(record["error"] for record in failed)
    judged = [record for record in scored if record["anomalous"] is not None]
    anomalous = f", {sum(record['anomalous'] for record in judged)} anomalous" if judged else ""
    screened = [record["judged_by"] for record in scored if record.get("judged_by")]
    fast = f", {screened.count(FAST)} by pre-screening alone" if screened else ""
    say_all(notices_of(scored))
    text = f"{count(len(scored), 'image')} scored{anomalous}{fast}, {len(failed)} failed"
    print(printable(f"{text}; see {out / 'report.html'}"))
    return exit_code(complete and not failed, len(scored))


def _print_unknown(records: list[dict[str, Any]]) -> None:
    """Names the images that fit none of the products: their scores mean little."""
    if not records:
        return
    fit, their = ("fits", "its score means") if len(records) == 1 else ("fit", "their scores mean")
    print(f"{count(len(records), 'image')} {fit} no product, so {their} little:")
    for record in records[:LISTED]:
        name, nearest = printable(record["image"]), printable(record["nearest_product"])
        print(f"         {name}  (nearest {nearest})")
    if len(records) > LISTED:
        print(f"         and {len(records) - LISTED} more; see unknown_product in results.csv")


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
                part_size=options.part_size,
                wait=options.wait,
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
    if totals.unknown_product:
        print(f"{totals.unknown_product:,} of them fit no product; see unknown_product")
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
    option(command, "--detector FILE", "detector file to use", required=True)
    text = "place to explain, in pixels of the image (default: the peak of its anomaly map)"
    option(command, "--at X,Y", text, arguments.place)
    option(command, "-o --output FILE.png", "draw the evidence to this file", arguments.new_file)
    text = "images that the detector has learnt, if they have moved; the picture shows them"
    option(command, "--normal GOOD", text, nargs="+")
    flag(command, "--json", "print all figures as JSON")
    text = "write which normal patches rebuild which patches: a SciPy matrix (.npz) or a picture"
    option(command, "--hypergraph FILE", text, arguments.new_file)
    option(command, "--layer N", "layer of the hypergraph (default: the last one used)", int)
    arguments.add_moved_encoder(command)
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
