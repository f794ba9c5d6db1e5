"""Peer review for language models.

Names are loaded when first used, so that `import peerage` and `peerage --help` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerage.scoring import Law, Scored, score

HOMES = {
    "Law": "peerage.scoring",
    "Scored": "peerage.scoring",
    "score": "peerage.scoring",
}
__all__ = ["Law", "Scored", "score"]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'peerage' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *HOMES])
