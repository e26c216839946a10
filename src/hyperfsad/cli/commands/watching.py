"""The command that stands beside a camera."""

import argparse
import contextlib
import os
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..console import DONE, INTERRUPTED, NOTHING, SOME_FAILED, count, printable, say
from .opening import any_detector

if TYPE_CHECKING:
    from ...watch import Watcher


def watch(options: argparse.Namespace) -> int:
    """Judges images as they arrive, until it is stopped."""
    from ...watch import Watcher

    webhook = _webhook(options)
    detector = any_detector(options)
    detector.min_area = options.min_area
    watcher = Watcher(
        detector,
        options.folder,
        options.output,
        interval=options.interval,
        settle=options.settle,
        patience=options.patience,
        new_only=options.new_only,
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
    if signals or not judged:
        return DONE
    return NOTHING if failed == judged else SOME_FAILED if failed else DONE


def _row(line: dict[str, Any]) -> str:
    """The time here, the score and the verdict."""
    time = datetime.fromisoformat(line["time"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if line["error"] is not None:
        return f"{time}        –  {'unreadable':10}"
    verdict = {True: "ANOMALOUS", False: "good", None: "–"}[line["anomalous"]]
    return f"{time}  {line['score']:7.3f}  {verdict:10}"


def _webhook(options: argparse.Namespace) -> Any:
    from ...errors import UsageError
    from ...watch.webhook import Webhook, read_headers

    if options.webhook is None:
        if options.webhook_header or options.webhook_on:
            raise UsageError("--webhook-on and --webhook-header need --webhook URL.")
        return None
    on = (options.webhook_on or "anomalous").split(",")
    return Webhook(options.webhook, on, read_headers(options.webhook_header))


@contextlib.contextmanager
def stopped_by_signals(watcher: "Watcher") -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM let the image in hand be finished; a second Ctrl-C does not wait."""
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


def add_arguments(command: argparse.ArgumentParser) -> None:
    """What only `hyperfsad watch` takes."""
    command.add_argument("folder", metavar="FOLDER", help="where the camera writes")
    command.add_argument("--detector", required=True, metavar="FILE", help="a saved detector")
    command.add_argument("-o", "--output", default="out", metavar="DIR", help="default: out")
    command.add_argument("--no-heatmaps", action="store_true", help="draw no pictures")
    command.add_argument("--save-maps", action="store_true", help="write maps/*.npy as well")
    command.add_argument("--quiet", action="store_true", help="print no line for each image")
    command.add_argument("--backbone", metavar="FOLDER", help="where its encoder's folder lies now")
    when = command.add_argument_group("when an image is taken")
    when.add_argument(
        "--once", action="store_true", help="judge what is there and complete, then end"
    )
    when.add_argument(
        "--new-only", action="store_true", help="leave out what is there at the first start"
    )
    when.add_argument(
        "--interval", type=float, default=0.5, metavar="S", help="between two looks (default: 0.5)"
    )
    when.add_argument(
        "--settle",
        type=float,
        default=1.0,
        metavar="S",
        help="a complete file has not changed for so long (default: 1)",
    )
    when.add_argument(
        "--patience",
        type=float,
        default=10.0,
        metavar="S",
        help="a file that does not decode is given up after so long (default: 10)",
    )
    hook = command.add_argument_group("webhook", "results.jsonl's lines, sent as JSON by POST")
    hook.add_argument("--webhook", metavar="URL", help="http or https")
    hook.add_argument("--webhook-on", metavar="anomalous,error", help="or all (default: anomalous)")
    hook.add_argument(
        "--webhook-header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="such as a token; @FILE reads headers from a file; may be repeated",
    )
