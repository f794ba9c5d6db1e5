"""A seat's decision from its reply: approved or not, and why; None where it gave none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from peerage.council.replies import objects_of

WORDS = {
    "true": True,
    "yes": True,
    "approved": True,
    "false": False,
    "no": False,
    "rejected": False,
}


@dataclass(frozen=True, slots=True)
class Decision:
    """One vote on a yes-or-no question."""

    approved: bool
    reasons: tuple[str, ...] = ()


def parse_decision(text: str) -> Decision | None:
    """The last object of the reply's own that says whether it approves; never a guess."""
    for found in reversed(objects_of(text, _decides).objects):
        said = found.value.get("approved")
        approved = WORDS.get(said.strip().lower()) if isinstance(said, str) else said
        if isinstance(approved, bool):
            reasons = found.value.get("reasons")
            listed = reasons if isinstance(reasons, list) else [reasons]
            return Decision(approved, tuple(why for why in listed if isinstance(why, str) and why))
    return None


def _decides(value: Mapping[str, object]) -> bool:
    return "approved" in value
