"""Peer review for language models.

Names are loaded when first used, so that `import peerage` and `peerage --help` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerage.arguments import ArgumentError
    from peerage.boards import Board
    from peerage.boards.panel_choice import Advice
    from peerage.boards.rings import Rings
    from peerage.errors import (
        BudgetError,
        ConfigError,
        InputError,
        MissingExtraError,
        NotFoundError,
        PeerageError,
        UnreadableError,
        UsageError,
    )
    from peerage.findings import Audit, AuditLimits, AuditTastes, Departure, Finding
    from peerage.imports.files import read
    from peerage.opened_store import OpenedStore, open  # noqa: A004 - like `gzip.open`
    from peerage.panel import Council, NoVotesError
    from peerage.registry import PluginError
    from peerage.reports.from_tables import (
        advise,
        audit,
        board_contributors,
        board_items,
        board_models,
        board_reviewers,
        find_rings,
        gate,
    )
    from peerage.reports.gate_results import GateResult, GateResults
    from peerage.reports.review_diff import ReviewDiff, diff
    from peerage.reports.sessions import SessionList
    from peerage.scoring import Scored, score
    from peerage.stores import SessionEntry, StoreError
    from peerage.types import (
        Ballot,
        CommunityCoefficients,
        Counted,
        Dissent,
        Event,
        Failure,
        Gate,
        Image,
        Message,
        Query,
        Response,
        Review,
        Score,
        ScoringOptions,
        Seat,
        Session,
        Slot,
        ToolCall,
        Turn,
        Usage,
        Verdict,
    )

    __version__: str

HOMES = {
    "Advice": "peerage.boards.panel_choice",
    "ArgumentError": "peerage.arguments",
    "Audit": "peerage.findings",
    "AuditLimits": "peerage.findings",
    "AuditTastes": "peerage.findings",
    "Ballot": "peerage.types",
    "Board": "peerage.boards",
    "BudgetError": "peerage.errors",
    "CommunityCoefficients": "peerage.types",
    "ConfigError": "peerage.errors",
    "Council": "peerage.panel",
    "Counted": "peerage.types",
    "Departure": "peerage.findings",
    "Dissent": "peerage.types",
    "Event": "peerage.types",
    "Failure": "peerage.types",
    "Finding": "peerage.findings",
    "Gate": "peerage.types",
    "GateResult": "peerage.reports.gate_results",
    "GateResults": "peerage.reports.gate_results",
    "Image": "peerage.types",
    "InputError": "peerage.errors",
    "Message": "peerage.types",
    "MissingExtraError": "peerage.errors",
    "NoVotesError": "peerage.panel",
    "NotFoundError": "peerage.errors",
    "OpenedStore": "peerage.opened_store",
    "PeerageError": "peerage.errors",
    "PluginError": "peerage.registry",
    "Query": "peerage.types",
    "Response": "peerage.types",
    "Review": "peerage.types",
    "ReviewDiff": "peerage.reports.review_diff",
    "Rings": "peerage.boards.rings",
    "Score": "peerage.types",
    "Scored": "peerage.scoring",
    "ScoringOptions": "peerage.types",
    "Seat": "peerage.types",
    "Session": "peerage.types",
    "SessionEntry": "peerage.stores",
    "SessionList": "peerage.reports.sessions",
    "Slot": "peerage.types",
    "StoreError": "peerage.stores",
    "ToolCall": "peerage.types",
    "Turn": "peerage.types",
    "UnreadableError": "peerage.errors",
    "Usage": "peerage.types",
    "UsageError": "peerage.errors",
    "Verdict": "peerage.types",
    "advise": "peerage.reports.from_tables",
    "audit": "peerage.reports.from_tables",
    "board_contributors": "peerage.reports.from_tables",
    "board_items": "peerage.reports.from_tables",
    "board_models": "peerage.reports.from_tables",
    "board_reviewers": "peerage.reports.from_tables",
    "diff": "peerage.reports.review_diff",
    "find_rings": "peerage.reports.from_tables",
    "gate": "peerage.reports.from_tables",
    "open": "peerage.opened_store",
    "read": "peerage.imports.files",
    "score": "peerage.scoring",
}
__all__ = [
    "Advice",
    "ArgumentError",
    "Audit",
    "AuditLimits",
    "AuditTastes",
    "Ballot",
    "Board",
    "BudgetError",
    "CommunityCoefficients",
    "ConfigError",
    "Council",
    "Counted",
    "Departure",
    "Dissent",
    "Event",
    "Failure",
    "Finding",
    "Gate",
    "GateResult",
    "GateResults",
    "Image",
    "InputError",
    "Message",
    "MissingExtraError",
    "NoVotesError",
    "NotFoundError",
    "OpenedStore",
    "PeerageError",
    "PluginError",
    "Query",
    "Response",
    "Review",
    "ReviewDiff",
    "Rings",
    "Score",
    "Scored",
    "ScoringOptions",
    "Seat",
    "Session",
    "SessionEntry",
    "SessionList",
    "Slot",
    "StoreError",
    "ToolCall",
    "Turn",
    "UnreadableError",
    "Usage",
    "UsageError",
    "Verdict",
    "__version__",
    "advise",
    "audit",
    "board_contributors",
    "board_items",
    "board_models",
    "board_reviewers",
    "diff",
    "find_rings",
    "gate",
    "open",
    "read",
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
