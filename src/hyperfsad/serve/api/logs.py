"""Logs: one JSON object a row, to standard error, with the id of the request."""

import json
import logging
import sys
from datetime import datetime, timezone
from typing import Any

LOG = logging.getLogger("hyperfsad.serve")
FIELDS = ("request", "method", "path", "status", "milliseconds", "role", "client")


class JsonRows(logging.Formatter):
    """Text from clients is escaped, so that nobody can forge a row."""

    def format(self, record: logging.LogRecord) -> str:
        """One row."""
        time = datetime.fromtimestamp(record.created, timezone.utc)
        row: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        row |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            row["trace"] = self.formatException(record.exc_info)
        return json.dumps(row)


def start_logs(level: int = logging.INFO) -> None:
    """Everything that is logged goes to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonRows())
    for name in ("hyperfsad.serve", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    logging.getLogger("uvicorn.error").handlers = []  # its parent writes it
    logging.getLogger("uvicorn.error").propagate = True
