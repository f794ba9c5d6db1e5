"""The server's log: one JSON object a line, with session ids, and without anybody's key."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from peerage.errors import VENDOR_KEY

MARK = "[key]"
LEVELS = ("debug", "info", "warning", "error")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON; what looks like a key or token is struck out."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if session := getattr(record, "session", ""):
            line["session"] = session
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return VENDOR_KEY.sub(MARK, json.dumps(line, default=str))


def log_to_stderr(level: str) -> None:
    """Have everything that is logged written to stderr, from a level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
