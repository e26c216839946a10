"""A real PostgreSQL of the tests' own: in a new folder, on a socket in it, gone at the end."""

import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ACCOUNT = "postgres"
MISSING = "there is no PostgreSQL on this machine (Debian: apt install postgresql)"


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; Debian keeps them off the path."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: path.split("/")[4])
    return Path(folders[-1]) if folders else None


class Postgres:
    """A server that can be stopped and started."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self._programs = folder, programs
        self._data = folder / "data"
        self.url = f"postgresql://{ACCOUNT}@/postgres?host={folder}"
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(folder, ACCOUNT, ACCOUNT)
        self._run("initdb", "-D", self._data, "-A", "trust", "-U", ACCOUNT, "-E", "UTF8", "-N")

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off"
        log = self.folder / "log"
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", log, "-o", options)

    def stop(self) -> None:
        """Stops it at once; who is connected is cut off."""
        self._run("pg_ctl", "stop", "-w", "-D", self._data, "-m", "fast")

    def make(self, name: str) -> str:
        """A new empty database; its address."""
        self._run("createdb", "-h", self.folder, "-U", ACCOUNT, name)
        return self.url.replace("/postgres?", f"/{name}?")

    def _run(self, program: str, *arguments: object) -> None:
        own: dict[str, Any] = {}
        if os.geteuid() == 0:
            own = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []}
        command = [str(self._programs / program), *map(str, arguments)]
        with (self.folder / "told").open("ab") as told:  # a pipe would stay open in the server
            subprocess.run(
                command, check=True, stdin=subprocess.DEVNULL, stdout=told, stderr=told, **own
            )


@contextmanager
def running() -> Iterator[Postgres]:
    """A server that runs; the folder is short, since a socket's path may not be long."""
    found = programs()
    assert found is not None, MISSING
    with tempfile.TemporaryDirectory(prefix="hfsad-pg-") as folder:
        server = Postgres(Path(folder), found)
        server.start()
        try:
            yield server
        finally:
            server.stop()
