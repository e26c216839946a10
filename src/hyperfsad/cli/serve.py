"""The command serve: the inspection station."""

import argparse
from pathlib import Path

from ..errors import UsageError
from . import arguments
from .arguments import chosen, flag, option
from .console import DONE, count, say
from .detectors import new_settings

MISSING = (
    "The station needs further packages: pip install 'hyperfsad[serve]' ({error} is not there)."
)


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
        raise UsageError(MISSING.format(error=error.name)) from error
    if options.backup:
        return _backup(options)
    detector, machine = new_settings(options)
    from ..serve.pictures import Limits
    from ..serve.server import serve as run
    from ..serve.settings import Settings, watched
    from ..serve.store.retention import Keep

    limits = Limits(
        options.max_images, 10**6 * options.max_megabytes, 10**6 * options.max_megapixels
    )
    settings = Settings(
        Path(options.store),
        token=_path(options.token),
        tls_cert=_path(options.tls_cert),
        tls_key=_path(options.tls_key),
        keep=Keep.parse(options.keep) if options.keep else Keep(),
        originals=not options.no_originals,
        limits=limits,
        reserve=10**6 * options.reserve_megabytes,
        watch=tuple(map(watched, options.watch or ())),
        **chosen(options, "host", "port", "database", "max_queue"),
    )
    run(settings, detector=detector, machine=machine, wait=options.wait, notify=say)
    return DONE


def _backup(options: argparse.Namespace) -> int:
    from ..serve.store.backup import backup

    if options.database is not None:
        raise UsageError(
            "--backup copies a store with its own database; copy another one with its own tools"
            " (pg_dump), and the files in the store's folder after it."
        )
    files = backup(Path(options.store), Path(options.backup))
    say(f"{count(files, 'file')} copied to {options.backup}; unpack it to use it as a store.")
    return DONE


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)
