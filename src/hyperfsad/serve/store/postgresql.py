"""Connections to PostgreSQL by which nobody waits without end for a server that is frozen."""

import selectors
import time
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen
from sqlalchemy import URL, Engine, create_engine, event

CONNECT_TIMEOUT = 5
"""Seconds to wait for the server's first answer, or for a connection that others use. For as long
after such a wait, nobody waits again."""
ANSWER_TIMEOUT = 10.0
"""Seconds for which the server may say nothing to who has asked it something."""
MAX_CONNECTIONS = 20
"""Of a station; the server has 100 by default, for all stations."""


class Connection(psycopg.Connection[Any]):
    """Is closed when the server says nothing for too long."""

    def wait(self, gen: PQGen[RV], *_: Any, **__: Any) -> RV:
        """As the parent's, which waits without end."""
        try:
            wanted = next(gen)
            while True:
                with selectors.DefaultSelector() as selector:
                    selector.register(self.fileno(), wanted)
                    ready = selector.select(ANSWER_TIMEOUT)
                if not ready:
                    self.close()
                    raise psycopg.OperationalError(f"no answer in {ANSWER_TIMEOUT:g} s")
                wanted = gen.send(ready[0][1])
        except StopIteration as end:
            found: RV = end.value
            return found


def engine_at(address: URL) -> Engine:
    """Hands out connections to a server."""
    engine = create_engine(
        address.set(drivername="postgresql+psycopg"),
        isolation_level="READ COMMITTED",  # rows that are about to change are locked instead
        pool_pre_ping=True,  # after the database was away
        pool_size=MAX_CONNECTIONS,
        max_overflow=0,
        pool_timeout=CONNECT_TIMEOUT,
        connect_args={"connect_timeout": CONNECT_TIMEOUT},
    )
    heard = silent_until = 0.0

    def connect(_: Any, __: Any, places: list[Any], options: dict[str, Any]) -> Connection:
        nonlocal heard, silent_until
        began = time.monotonic()
        if began < silent_until:
            raise psycopg.OperationalError("no answer a moment ago")
        try:
            found = Connection.connect(*places, **options)
        except psycopg.errors.ConnectionTimeout:
            if heard < began:  # nobody else got an answer meanwhile
                silent_until = time.monotonic() + CONNECT_TIMEOUT
            raise
        heard = time.monotonic()
        return found

    event.listen(engine, "do_connect", connect)
    return engine
