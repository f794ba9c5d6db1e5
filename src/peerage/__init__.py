"""Peer review for language models.

Names are loaded when first used, so that `import peerage` and `peerage --help` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerage.panel import Council
    from peerage.reports import (
        audit,
        board_contributors,
        board_items,
        board_models,
        board_reviewers,
        find_rings,
    )
    from peerage.scoring import Scored, score
    from peerage.types import ScoringOptions, Seat, Turn

    __version__: str

HOMES = {
    "Council": "peerage.panel",
    "ScoringOptions": "peerage.types",
    "Seat": "peerage.types",
    "Scored": "peerage.scoring",
    "Turn": "peerage.types",
    "audit": "peerage.reports",
    "board_contributors": "peerage.reports",
    "board_items": "peerage.reports",
    "board_models": "peerage.reports",
    "board_reviewers": "peerage.reports",
    "find_rings": "peerage.reports",
    "score": "peerage.scoring",
}
__all__ = [
    "Council",
    "Scored",
    "ScoringOptions",
    "Seat",
    "Turn",
    "__version__",
    "audit",
    "board_contributors",
    "board_items",
    "board_models",
    "board_reviewers",
    "find_rings",
    "score",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("peerage")
    if name not in HOMES:
        raise AttributeError(f"module 'peerage' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *HOMES])
