"""Commands of the plant: `watch` a camera, `serve` the station, `export` models."""

import argparse
import contextlib
import getpass
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..wording import count, visible
from . import arguments
from .arguments import add_options, chosen
from .console import (
    DONE,
    INTERRUPTED,
    VERDICTS,
    exit_code,
    print_facts,
    printable,
    reach,
    tell,
    warn,
)
from .detectors import given_settings, saved_detector

if TYPE_CHECKING:
    from ..connect.config import ConnectSettings
    from ..watch.shots import CameraWatcher
    from ..watch.watcher import Watcher


STATION_PACKAGES = [
    "alembic",
    "fastapi",
    "prometheus_client",
    "python_multipart",
    "sqlalchemy",
    "uvicorn",
]


def add_watch(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "Ctrl-C (exit code 130) and SIGTERM (exit code 0) finish the current image first; a second"
        " Ctrl-C stops at once. The next start continues: no image is inspected twice and none is"
        " lost."
    )
    command.add_argument(
        "folder", metavar="FOLDER", nargs="?", help="folder that the camera writes to"
    )
    table = """
    --detector FILE  detector file to use (required)
    --json           print the record of each image as JSON, one a row
    --adapt          learn from the inspected images after 12, 24 and 48 of them, as unlabelled
        parts of the line (`hyperfsad adapt`); FILE itself stays as it is
    """
    add_options(command, table + arguments.RESULTS + arguments.MOVED_ENCODER)
    table = """
    arrival: when an image is inspected
    --once        inspect the complete images in the folder, then end
    --new-only    skip images that were in FOLDER before the first start
    --interval S  seconds between two checks of the folder [0.5]
    --settle S    seconds without a change after which a file is complete [1]
    --patience S  seconds after which a file that cannot be decoded counts as failed [10]
    camera: inspect what a camera or a video shows, instead of files in a folder
    --source ADDRESS  rtsp://HOST/PATH, /dev/video0, aravis://NAME, a video file, a folder,
        or @FILE that holds the address
    --trigger WHEN    when to inspect: every:500ms, or still: a part has arrived and stands still
        (default: every:500ms)
    --deadline TIME   such as 500ms: a verdict that comes later counts as none
    --real-time       play a video file at its own speed, as a camera would
    machines: who hears of each image
    --connect FILE.toml          connect a broker, PLCs or a web address as this file says
    --webhook URL                http or https address to send to
    --webhook-on KINDS           which records to send: anomalous, error, anomalous,error or all
        (default: anomalous)
    --webhook-header NAME:VALUE  header to send, such as a token, or @FILE to read headers from a
        file; may be repeated
    """
    add_options(command, table)
    arguments.add_machine(command)


def watch(options: argparse.Namespace) -> int:
    """Inspects images as they arrive, until it is stopped."""
    connect = _connections(options)
    watcher: Watcher | CameraWatcher
    if _is_camera(options):
        watcher = found = _camera_watcher(options, connect)
        images, below, silence = found.run(), found.output, "no verdict"
    else:
        watcher = folder = _folder_watcher(options, connect)
        images, below, silence = folder.run(options.once), Path(folder.folder), "unreadable"
    inspected = failed = 0
    with stopped_by_signals(watcher) as signals, contextlib.closing(images) as run:
        for result in run:
            inspected += 1
            failed += result.error is not None
            if result.error is not None:
                warn(result.error)
            if options.json:
                print(printable(result.to_json()), flush=True)
            elif not options.quiet:
                time = datetime.now().strftime("%Y-%m-%d %H:%M:%S")
                far, verdict = "–", silence
                if result.error is None:
                    far, verdict = reach(result.level, result.score), VERDICTS[result.anomalous]
                if result.anomalous:
                    verdict = verdict.upper()
                name = os.path.relpath(result.image, below)
                print(printable(f"{time}  {far:>7}  {verdict:10}  {name}"), flush=True)
    stopped = f"{_afterwards(watcher)}{'; stopped' if signals else ''}"
    results = Path(options.output) / "results.jsonl"
    tell(f"{count(inspected, 'image')} inspected, {failed} failed{stopped}; see {results}")
    if signal.SIGINT in signals:
        return INTERRUPTED
    return exit_code(not failed, inspected - failed) if inspected and not signals else DONE


def _is_camera(options: argparse.Namespace) -> bool:
    """Whether a camera is watched, and not a folder, which `--source` may also name."""
    if options.folder is None and options.source is None:
        raise UsageError("source-missing")
    if options.folder is not None and options.source is not None:
        raise UsageError("source-with-folder")
    if options.source is None or os.path.isdir(options.source):
        options.folder = options.folder or options.source
        for name in ("trigger", "deadline", "real_time"):
            if getattr(options, name):
                raise UsageError("source-options", name=name)
        return False
    for name in ("once", "new_only", "adapt"):
        if getattr(options, name):
            raise UsageError("source-only-folder", name=name)
    return True


def _folder_watcher(options: argparse.Namespace, connect: "ConnectSettings | None") -> "Watcher":
    from ..watch.watcher import Watcher

    detector = saved_detector(options)
    detector.min_area = options.min_area
    return Watcher(
        detector,
        **chosen(
            options, "folder", "output", "interval", "settle", "patience", "new_only", "adapt"
        ),
        wait=options.wait,
        heatmaps=not options.no_heatmaps,
        maps=options.save_maps,
        connect=connect,
    )


def _camera_watcher(
    options: argparse.Namespace, connect: "ConnectSettings | None"
) -> "CameraWatcher":
    from ..connect.sources import source_of
    from ..connect.triggers import seconds_of, trigger_of
    from ..watch.shots import CameraWatcher

    source = source_of(options.source, real_time=options.real_time)
    trigger = trigger_of(options.trigger or "every:500ms")
    deadline = seconds_of(options.deadline, "deadline") if options.deadline else None
    detector = saved_detector(options)
    detector.min_area = options.min_area
    return CameraWatcher(
        detector,
        source,
        trigger,
        options.output,
        deadline=deadline,
        wait=options.wait,
        heatmaps=not options.no_heatmaps,
        maps=options.save_maps,
        connect=connect,
    )


def _afterwards(watcher: "Watcher | CameraWatcher") -> str:
    """What else is told at the end: what was learnt, or how long verdicts took."""
    from ..watch.watcher import Watcher

    if isinstance(watcher, Watcher):
        return f", adapted to {watcher.adapted_to} parts" if watcher.adapted_to else ""
    latencies, camera = watcher.latencies, watcher.camera
    found = [f", {latencies.late} late" if latencies.deadline is not None else ""]
    found.append(f", {camera.dropped} dropped" if camera.dropped else "")
    if quantiles := latencies.quantiles():
        shown = [f"p{share} {1000 * seconds:.0f}" for share, seconds in quantiles.items()]
        found.append(f"; trigger to verdict: {', '.join(shown)} ms")
    return "".join(found)


def _connections(options: argparse.Namespace) -> "ConnectSettings | None":
    from ..connect.config import ConnectSettings, read_connections
    from ..connect.sinks.webhook import Webhook, read_headers

    found = read_connections(Path(options.connect)) if options.connect else None
    if options.webhook is None:
        if options.webhook_header or options.webhook_on:
            raise UsageError("webhook-missing")
        return found
    found = found or ConnectSettings()
    if any(sink.name == Webhook.name for sink in found.sinks):
        raise UsageError("connect-twice")
    on = (options.webhook_on or "anomalous").split(",")
    webhook = Webhook(options.webhook, on, read_headers(options.webhook_header or []))
    return replace(found, sinks=(*found.sinks, webhook))


@contextlib.contextmanager
def stopped_by_signals(watcher: "Watcher | CameraWatcher") -> Iterator[list[int]]:
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
    table = """
    --store DIR             folder for products, images and the history (required)
    --host ADDRESS          address to listen on [127.0.0.1]
    --port N                port to listen on; 0: any free one [8000]
    --backup FILE           write a consistent copy of the store to this zip file, and end; the
        station may run
    --verify-audit          check that nobody has changed the audit log by hand, and end; the
        station may run
    --watch PRODUCT=FOLDER  inspect the pictures that appear in a folder for a product, by its
        name; may be repeated
    --connect FILE.toml     connect a broker, PLCs or a web address as this file says
    --wait                  if another station runs there, wait until it has ended
    security:
    --engineer NAME  ask for a PIN, add an engineer of this name or give one a new PIN, and end; the
        station may run
    --token FILE     file with the rows `inspect: TOKEN` and `admin: TOKEN`; needed on other
        addresses
    --tls-cert FILE  certificate, to use TLS
    --tls-key FILE   key of the certificate
    store:
    --database URL  address of a database for several stations, such as
        postgresql://user@host/name (default: SQLite in the store)
    --new-store     begin with a database that does not belong to the folder; files that it does
        not name go to the folder's trash
    --keep LIMITS   how long and how much originals are kept, as 90d, 20GB or 90d,20GB (default:
        all)
    --trust-clock   the time is right, although the store was last used more than a week ago; else
        no original is removed
    limits:
    --max-queue N          images that may wait; more are answered with 503 [64]
    --max-images N         images of one request [64]
    --max-megabytes N      size of one image [64]
    --max-megapixels N     pixels of one image [100]
    --reserve-megabytes N  space on the disk that stays free [512]
    """
    add_options(command, table)
    arguments.add_recipe(command)
    arguments.add_machine(command)


def serve(options: argparse.Namespace) -> int:
    """Runs the station, or copies its store."""
    for package in STATION_PACKAGES:
        if find_spec(package) is None:
            raise UsageError("serve-packages", package=package)
    if options.backup:
        return _backup(options)
    if options.verify_audit:
        return _verify_audit(options)
    if options.engineer:
        return _set_engineer(options)
    from ..connect.config import read_connections
    from ..detector.settings import Settings
    from ..encoders.encoder import use_threads
    from ..serve.pictures import UploadLimits
    from ..serve.server import serve as run
    from ..serve.settings import StationSettings, parse_watch
    from ..serve.store.retention import Keep

    detector = Settings(**given_settings(options))
    use_threads(options.threads)
    limits = UploadLimits(
        options.max_images, 10**6 * options.max_megabytes, 10**6 * options.max_megapixels
    )
    files: dict[str, Any] = chosen(options, "token", "tls_cert", "tls_key")
    files = {name: Path(path) for name, path in files.items() if path}
    settings = StationSettings(
        Path(options.store),
        **files,
        keep=Keep.parse(options.keep) if options.keep else Keep(),
        limits=limits,
        reserve=10**6 * options.reserve_megabytes,
        watch=tuple(map(parse_watch, options.watch or ())),
        connect=read_connections(Path(options.connect)) if options.connect else None,
        **chosen(options, "host", "port", "database", "max_queue", "new_store", "trust_clock"),
    )
    run(settings, detector=detector, wait=options.wait)
    return DONE


def _backup(options: argparse.Namespace) -> int:
    from ..serve.store.backup import backup

    if options.database is not None:
        raise UsageError("backup-with-database")
    files = backup(Path(options.store), Path(options.backup))
    tell(f"{count(files, 'file')} copied to {options.backup}; unpack it to use it as a store.")
    return DONE


def _verify_audit(options: argparse.Namespace) -> int:
    from ..serve.store.audit import verify_store

    found = verify_store(Path(options.store), options.database)
    print(f"{count(found.rows, 'row')} of the audit log fit; the last hash is {found.last}")
    return DONE


def _set_engineer(options: argparse.Namespace) -> int:
    from ..serve.users import set_engineer

    if sys.stdin.isatty():
        pin, again = (getpass.getpass(asked) for asked in ("PIN: ", "The same again: "))
        if pin != again:
            raise UsageError("pins-differ")
    else:
        pin = sys.stdin.readline().rstrip("\r\n")
    set_engineer(Path(options.store), options.database, options.engineer, pin)
    tell(f"{visible(options.engineer)} signs in with this PIN from now on, as an engineer.")
    return DONE


def add_export(command: argparse.ArgumentParser) -> None:
    command.add_argument("detector", metavar="DETECTOR", help="detector file to export")
    command.add_argument(
        "--to", choices=("onnx", "openvino"), required=True, help="the runtime that runs it"
    )
    table = "    -o --output DIR  folder to make (required)"
    add_options(command, table + arguments.MOVED_ENCODER + arguments.JSON)
    command.set_defaults(device="cpu", engine="auto", precision="auto")
    command.set_defaults(batch_size=None, threads=None)


def export(options: argparse.Namespace) -> int:
    """Writes the folder of an exported model."""
    detector = saved_detector(options)
    from ..export.writing import export as write

    card = write(detector, Path(options.output), options.to)
    size = sum(file["bytes"] for file in card["files"].values())
    off = max(card["checked"].values())
    text = f"{options.output}: {size / 1e6:.0f} MB, off by {off:.0e} from the detector in float32"
    text = visible(f"{text}; model.json describes it, preprocess.py prepares its input")
    print_facts(options, text, card)
    return DONE
