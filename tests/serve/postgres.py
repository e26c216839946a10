"""A real PostgreSQL of the tests' own: in a new folder, on a socket in it, gone at the end."""

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

    def __init__(self, folder: Path, programs: Path, primary: "Postgres | None" = None) -> None:
        """With a `primary`, one that follows it."""
        self.folder, self._programs = folder, programs
        self._data = folder / "data"
        self.url = f"postgresql://{ACCOUNT}@/postgres?host={folder}"
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(folder, ACCOUNT, ACCOUNT)
        if primary is None:
            self._run("initdb", "-D", self._data, "-A", "trust", "-U", ACCOUNT, "-E", "UTF8", "-N")
        else:
            source = ("-h", primary.folder, "-U", ACCOUNT)
            self._run("pg_basebackup", *source, "-D", self._data, "-R", "-c", "fast", "-N")

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off"
        log = self.folder / "log"
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", log, "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """Stops it at once; who is connected is cut off."""
        self._run("pg_ctl", "stop", "-w", "-D", self._data, "-m", mode)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Takes connections during the block, and answers nobody."""
        parent = (self._data / "postmaster.pid").read_text().split()[0]
        os.kill(int(parent), signal.SIGSTOP)  # first: from now on it has no more children
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGSTOP)
        try:
            yield
        finally:
            for one in (*children, parent):
                os.kill(int(one), signal.SIGCONT)

    def follow(self) -> None:
        """From now on, a commit waits for the server that follows."""
        for command in (
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
            "SELECT pg_reload_conf()",
        ):
            self._run("psql", "-h", self.folder, "-U", ACCOUNT, "-c", command)

    def promote(self) -> None:
        """Takes the place of the server that it followed."""
        self._run("pg_ctl", "promote", "-w", "-D", self._data)

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


class Line:
    """The way to a server on a port of its own, which can be cut and mended."""

    def __init__(self, server: Postgres) -> None:
        self._ends: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._follow(server)

    def url(self, database: str) -> str:
        """The address of a database at the end of the line."""
        return f"postgresql://{ACCOUNT}@127.0.0.1:{self.port}/{database}"

    def cut(self) -> None:
        """Who is connected is cut off, and nobody else gets through."""
        self._hang_up(self._listening)
        for end in list(self._ends):
            self._hang_up(end)

    def mend(self, server: Postgres) -> None:
        """Leads to a server again, which may be another one."""
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self._follow(server)

    @contextmanager
    def away(self, server: Postgres) -> Iterator[None]:
        """Is cut during the block."""
        self.cut()
        try:
            yield
        finally:
            self.mend(server)

    def _follow(self, server: Postgres) -> None:
        place = str(server.folder / ".s.PGSQL.5432")
        threading.Thread(target=self._accept, args=(self._listening, place), daemon=True).start()

    def _accept(self, listening: socket.socket, place: str) -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.socket(socket.AF_UNIX)
                self._ends |= {near, far}
                try:
                    far.connect(place)
                except OSError:
                    self._hang_up(near)
                    continue
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                target.sendall(content)
        self._hang_up(source)
        self._hang_up(target)

    def _hang_up(self, end: socket.socket) -> None:
        self._ends.discard(end)
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def running(primary: Postgres | None = None) -> Iterator[Postgres]:
    """A server that runs; the folder is short, since a socket's path may not be long."""
    found = programs()
    assert found is not None, MISSING
    with tempfile.TemporaryDirectory(prefix="hfsad-pg-") as folder:
        server = Postgres(Path(folder), found, primary)
        server.start()
        try:
            yield server
        finally:
            with suppress(subprocess.CalledProcessError):  # it may have been stopped
                server.stop()
