"""Which councils a question has passed, so that none is asked by itself: a header of every call."""

from __future__ import annotations

import secrets
from contextvars import ContextVar

HEADER = "X-Peerage-Council"
THIS_COUNCIL = secrets.token_hex(8)  # of this process

# A server adds who asked it; sessions inherit it from the request that started them.
council_trace: ContextVar[str] = ContextVar("council_trace", default=THIS_COUNCIL)
