"""The safety gate's tables (R5): each name once, each reason given."""

from __future__ import annotations

from peerage.council.safety_contexts import CONTEXTS
from peerage.council.safety_patterns import FAMILIES, PATTERNS, luhn_holds


def test_the_tables_name_their_families_patterns_and_contexts_once() -> None:
    assert FAMILIES == (
        "dangerous_instructions",
        "weapon_making",
        "malware_hacking",
        "self_harm",
        "pii_exposure",
    )
    names = [pattern.name for pattern in PATTERNS]
    contexts = {context.name for context in CONTEXTS}
    assert len(set(names)) == len(names)
    assert len(contexts) == len(CONTEXTS)
    assert all(pattern.excuses <= contexts and pattern.reason for pattern in PATTERNS)


def test_a_check_digit_holds_or_it_does_not() -> None:
    assert luhn_holds("4111 1111 1111 1111")
    assert luhn_holds("378282246310005")
    assert not luhn_holds("4111 1111 1111 1112")
