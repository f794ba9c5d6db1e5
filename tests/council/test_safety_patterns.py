"""The safety gate's tables: each name once, and every expression linear in the text."""

from __future__ import annotations

from peerage.council.safety import luhn_holds
from peerage.council.safety_patterns import CONTEXTS, FAMILIES, PATTERNS


def test_the_tables_name_their_families_patterns_and_contexts_once() -> None:
    assert FAMILIES == (
        "dangerous_instructions",
        "weapon_making",
        "malware_hacking",
        "self_harm",
        "pii_exposure",
    )
    assert {family for family, _ in PATTERNS} == set(FAMILIES)
    assert len({name for _, name in PATTERNS}) == len(PATTERNS)
    assert len({name for _, name in CONTEXTS}) == len(CONTEXTS)
    assert {family for families, _ in CONTEXTS for family in families} == set(FAMILIES)


def test_a_check_digit_holds_or_it_does_not() -> None:
    assert luhn_holds("4111 1111 1111 1111")
    assert luhn_holds("378282246310005")
    assert not luhn_holds("4111 1111 1111 1112")
