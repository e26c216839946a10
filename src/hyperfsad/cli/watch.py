"""The command `watch`, which stands beside a camera."""

import argparse
import contextlib
import os
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from . import arguments
from .arguments import chosen, flag, option
from .console import DONE, INTERRUPTED, count, exit_code, printable, say
from .detectors import saved_detector

if TYPE_CHECKING:
    from ..watch.watcher import Watcher
    from ..watch.webhook import Webhook


def add_watch(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Ctrl-C (exit code 130) and SIGTERM (exit code 0) finish the current image first; a second"
        " Ctrl-C stops at once. The next start continues: no image is inspected twice and none is"
        " lost."
    )
    command.add_argument("folder", metavar="FOLDER", help="folder that the camera writes to")
    option(command, "--detector FILE", "detector file to use", required=True)
    arguments.add_results(command)
    flag(command, "--quiet", "do not print a row for each image")
    arguments.add_moved_encoder(command)
    arrival = command.add_argument_group("arrival", "when an image is inspected")
    flag(arrival, "--once", "inspect the complete images in the folder, then end")
    flag(arrival, "--new-only", "skip images that were in FOLDER before the first start")
    option(arrival, "--interval S", "seconds between two checks of the folder", float, 0.5)
    text = "seconds without a change after which a file is complete"
    option(arrival, "--settle S", text, float, 1)
    text = "seconds after which a file that cannot be decoded counts as failed"
    option(arrival, "--patience S", text, float, 10)
    hook = command.add_argument_group("webhook", "send records of results.jsonl as JSON by POST")
    option(hook, "--webhook URL", "http or https address to send to")
    text = "which records to send: anomalous, error, anomalous,error or all"
    option(hook, "--webhook-on KINDS", f"{text} (default: anomalous)")
    text = "header to send, such as a token; @FILE reads headers from a file; may be repeated"
    option(hook, "--webhook-header NAME:VALUE", text, action="append")
    arguments.add_machine(command)


def watch(options: argparse.Namespace) -> int:
    """Inspects images as they arrive, until it is stopped."""
    from ..watch.watcher import Watcher

    webhook = _webhook(options)
    detector = saved_detector(options)
    detector.min_area = options.min_area
    watcher = Watcher(
        detector,
        **chosen(options, "folder", "output", "interval", "settle", "patience", "new_only"),
        wait=options.wait,
        heatmaps=not options.no_heatmaps,
        maps=options.save_maps,
        webhook=webhook,
        notify=say,
    )
    judged = failed = 0
    with (
        stopped_by_signals(watcher) as signals,
        contextlib.closing(watcher.run(options.once)) as run,
    ):
        for result in run:
            judged += 1
            failed += result.error is not None
            if not options.quiet:
                name = os.path.relpath(result.image, watcher.folder)
                print(printable(f"{_row(watcher.record)}  {name}"), flush=True)
            if result.error is not None:
                say(f"hyperfsad: {result.error}")
    stopped = "; stopped" if signals else ""
    results = Path(options.output) / "results.jsonl"
    say(f"{count(judged, 'image')} judged, {failed} failed{stopped}; see {results}")
    if signal.SIGINT in signals:
        return INTERRUPTED
    return exit_code(not failed, judged - failed) if judged and not signals else DONE


def _row(record: dict[str, Any]) -> str:
    """The local time, the score and the verdict."""
    time = datetime.fromisoformat(record["time"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if record["error"] is not None:
        return f"{time}        –  {'unreadable':10}"
    verdict = {True: "ANOMALOUS", False: "good", None: "–"}[record["anomalous"]]
    return f"{time}  {record['score']:7.3f}  {verdict:10}"


def _webhook(options: argparse.Namespace) -> "Webhook | None":
    from ..watch.webhook import Webhook, read_headers

    if options.webhook is None:
        if options.webhook_header or options.webhook_on:
            raise UsageError("--webhook-on and --webhook-header need --webhook URL.")
        return None
    on = (options.webhook_on or "anomalous").split(",")
    return Webhook(options.webhook, on, read_headers(options.webhook_header or []))


@contextlib.contextmanager
def stopped_by_signals(watcher: "Watcher") -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM let the current image be finished; a second Ctrl-C does not wait."""
    caught: list[int] = []

    def stop(number: int, _: object) -> None:
        if number == signal.SIGINT and number in caught:
            raise KeyboardInterrupt
        caught.append(number)
        watcher.stop()

    kinds = [signal.SIGINT, signal.SIGTERM]
    # a shell's background job is deaf to Ctrl-C, and stays so
    before = {k: signal.getsignal(k) for k in kinds if signal.getsignal(k) is not signal.SIG_IGN}
    for kind in before:
        signal.signal(kind, stop)
    try:
        yield caught
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
