"""Commands of the plant: `watch` a camera, `serve` the station, `export` models."""

import argparse
import contextlib
import os
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..messages import count
from . import arguments
from .arguments import chosen, flag, option
from .console import DONE, INTERRUPTED, exit_code, printable, say
from .detectors import new_settings, saved_detector

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
            raise UsageError("webhook-missing")
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


def add_serve(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Run the inspection station: a page and an API on one port, with products, verdicts and a"
        " history in one folder."
    )
    option(command, "--store DIR", "folder for products, images and the history", required=True)
    option(command, "--host ADDRESS", "address to listen on", default="127.0.0.1")
    option(command, "--port N", "port to listen on; 0: any that is free", int, 8000)
    arguments.add_wait(command)
    text = "write a consistent copy of the store to this zip file, and end; the station may run"
    option(command, "--backup FILE", text)
    text = "judge the pictures that appear in a folder for a product, by its name; may be repeated"
    option(command, "--watch PRODUCT=FOLDER", text, action="append")
    safe = command.add_argument_group("security")
    text = "file with the rows `inspect: TOKEN` and `admin: TOKEN`; needed on other addresses"
    option(safe, "--token FILE", text)
    option(safe, "--tls-cert FILE", "certificate, to speak TLS")
    option(safe, "--tls-key FILE", "key of the certificate")
    keeping = command.add_argument_group("store")
    text = "address of a database for several stations, such as postgresql://user@host/name"
    option(keeping, "--database URL", f"{text} (default: SQLite in the store)")
    text = "how long and how much originals are kept, as 90d, 20GB or 90d,20GB (default: all)"
    option(keeping, "--keep LIMITS", text)
    flag(keeping, "--no-originals", "keep thumbnails and maps only")
    limits = command.add_argument_group("limits")
    option(limits, "--max-queue N", "images that may wait; more are answered with 503", int, 64)
    option(limits, "--max-images N", "images of one request", int, 64)
    option(limits, "--max-megabytes N", "size of one image", int, 64)
    option(limits, "--max-megapixels N", "pixels of one image", int, 100)
    option(limits, "--reserve-megabytes N", "space on the disk that stays free", int, 512)
    arguments.add_recipe(command)
    arguments.add_machine(command)


def serve(options: argparse.Namespace) -> int:
    """Runs the station, or copies its store."""
    try:
        import alembic  # noqa: F401
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError("serve-packages", package=error.name) from error
    if options.backup:
        return _backup(options)
    detector, machine = new_settings(options)
    from ..serve.pictures import UploadLimits
    from ..serve.server import serve as run
    from ..serve.settings import StationSettings, parse_watch
    from ..serve.store.retention import Keep

    limits = UploadLimits(
        options.max_images, 10**6 * options.max_megabytes, 10**6 * options.max_megapixels
    )
    settings = StationSettings(
        Path(options.store),
        token=_path(options.token),
        tls_cert=_path(options.tls_cert),
        tls_key=_path(options.tls_key),
        keep=Keep.parse(options.keep) if options.keep else Keep(),
        originals=not options.no_originals,
        limits=limits,
        reserve=10**6 * options.reserve_megabytes,
        watch=tuple(map(parse_watch, options.watch or ())),
        **chosen(options, "host", "port", "database", "max_queue"),
    )
    run(settings, detector=detector, machine=machine, wait=options.wait, notify=say)
    return DONE


def _backup(options: argparse.Namespace) -> int:
    from ..serve.store.backup import backup

    if options.database is not None:
        raise UsageError("backup-with-database")
    files = backup(Path(options.store), Path(options.backup))
    say(f"{count(files, 'file')} copied to {options.backup}; unpack it to use it as a store.")
    return DONE


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


def add_export(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Write a detector as one graph from pixels to scores, for ONNX Runtime or OpenVINO."
    )
    command.add_argument("detector", metavar="DETECTOR", help="detector file to export")
    command.add_argument(
        "--to", choices=("onnx", "openvino"), required=True, help="the runtime that runs it"
    )
    text = (
        "precision of the encoder: that of the engine with which the detector was fitted (default);"
        " another one is refused"
    )
    command.add_argument("--precision", choices=("f32", "int8"), help=text)
    option(command, "-o --output DIR", "folder to make", required=True)
    arguments.add_moved_encoder(command)
    command.set_defaults(device="cpu", engine="auto", batch_size=None, threads=None)


def export(options: argparse.Namespace) -> int:
    """Writes the folder of an exported model."""
    detector = saved_detector(options)
    from ..export.writing import export as write

    card = write(detector, Path(options.output), options.to, say, precision=options.precision)
    size = sum(file["bytes"] for file in card["files"].values())
    off = max(card["checked"].values())
    print(
        printable(
            f"{options.output}: {size / 1e6:.0f} MB, off by {off:.0e} from the detector;"
            " model.json describes it, preprocess.py prepares its input"
        )
    )
    return DONE
