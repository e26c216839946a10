"""The options of work on Ray, and `detect` on it."""

import argparse
from typing import TYPE_CHECKING

from ..errors import UsageError
from .arguments import chosen, option
from .console import INTERRUPTED, exit_code, later_bar, printable, say
from .summary import print_worst

if TYPE_CHECKING:
    from ..cluster.output import Totals
    from ..cluster.session import Cluster

RAY = "ray"


def add_cluster(command: argparse.ArgumentParser, work: str, *, parts: bool = False) -> None:
    """Whether `work` is spread over a cluster, and how."""
    group = command.add_argument_group("cluster", f"{work} on many machines (docs/scale.md)")
    group.add_argument("--on", choices=(RAY,), help="what spreads the work (needs hyperfsad[ray])")
    text = "address of a Ray cluster (default: RAY_ADDRESS, otherwise a Ray on this machine)"
    option(group, "--address HOST:PORT", text)
    text = "processes with a detector each (default: as many as the cluster has room for)"
    option(group, "--workers N", text, int)
    text = "graphics cards of each worker, or a share of one such as 0.25"
    option(group, "--gpus NUMBER", text, float, 0)
    if parts:
        option(group, "--part-size N", "images in a file of results, about", int, 256)


def cluster_of(options: argparse.Namespace) -> "Cluster":
    """The cluster that the options describe; --threads are the cores of a worker there."""
    from ..cluster.session import Cluster

    return Cluster(**chosen(options, "address", "workers", "threads", "gpus"))


def refuse_cluster_options(options: argparse.Namespace) -> None:
    """Options of a cluster mean nothing without one."""
    given = [name for name in ("address", "workers", "gpus") if getattr(options, name)]
    if given:
        raise UsageError(f"--{given[0]} is an option of a cluster; add --on {RAY}.")


def detect_on_cluster(options: argparse.Namespace) -> int:
    """Scores images on Ray and writes parts of Parquet; started again, it does the rest."""
    from ..cluster.run import detect_on_ray
    from ..cluster.worker import InspectionJob

    if not options.detector:
        raise UsageError(
            "On Ray, every worker loads a saved detector: make one with `hyperfsad fit` and give it"
            " with --detector."
        )
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
    return _summarise(totals, options.output, complete)


def _summarise(totals: "Totals", out: str, complete: bool) -> int:
    from ..report.records import run_notices

    if totals.worst:
        print_worst(totals.worst, totals.scored, f"{out}/results")
    for error in totals.errors:
        say(f"hyperfsad: {error}")
    if totals.failed > len(totals.errors):
        say(f"hyperfsad: and {totals.failed - len(totals.errors):,} more that failed")
    for note in run_notices(totals.judged, totals.anomalous, totals.foreign):
        say(f"hyperfsad: {note}")
    if totals.unknown_product:
        print(f"{totals.unknown_product:,} of them fit no product; see unknown_product")
    before = f" ({totals.done_before:,} done before)" if totals.done_before else ""
    anomalous = f", {totals.anomalous:,} anomalous" if totals.judged else ""
    print(
        printable(
            f"{totals.scored:,} images scored{before}{anomalous}, {totals.failed:,} failed; see"
            f" {out}/results"
        )
    )
    return exit_code(complete and not totals.failed, totals.scored)
