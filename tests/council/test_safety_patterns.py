"""The safety gate's tables: each name once, and every expression linear in the text."""

from __future__ import annotations

import pytest

from peerage.council.safety import PATTERNS, TABLE, compile_phrase, luhn_holds, screen
from peerage.types import Response
from tests.growth import is_linear


def test_the_tables_name_their_families_patterns_and_contexts_once() -> None:
    families = tuple(TABLE["phrases"])
    assert families == (
        "dangerous_instructions",
        "weapon_making",
        "malware_hacking",
        "self_harm",
        "pii_exposure",
    )
    assert {family for family, _ in PATTERNS} == set(families)
    assert len({name for _, name in PATTERNS}) == len(PATTERNS)
    assert set(TABLE["excuses"]) <= {"any", *families}
    assert "%" not in "".join(PATTERNS.values())


def test_a_check_digit_holds_or_it_does_not() -> None:
    assert luhn_holds("4111 1111 1111 1111")
    assert luhn_holds("378282246310005")
    assert not luhn_holds("4111 1111 1111 1112")


# -- time --------------------------------------------------------------------------------------

REPEATS = [
    "a",
    "1",
    "'",
    " ",
    "\n",
    "-",
    "how to ",
    "ways to ",
    "make a home made ",
    "how to build your own simple ",
    "3d print a metal ",
    "recipe for a cheap ",
    "convert a ",
    "hack into the ",
    "hack her bank's ",
    "how to steal the ",
    "write a new ",
    "you should just ",
    "in for on a game ",
    "123-45-",
    "4111 ",
    "ssn is   ",
]
SIZES = (2_000, 8_000, 32_000)


@pytest.mark.parametrize("name", [name for _, name in PATTERNS])
def test_every_pattern_takes_time_linear_in_the_text(name: str) -> None:
    (phrase,) = (phrase for (_, other), phrase in PATTERNS.items() if other == name)
    search = compile_phrase(phrase).findall
    assert [piece for piece in REPEATS if not is_linear(search, "", piece, SIZES)] == []


@pytest.mark.parametrize(
    "piece",
    [
        "I can't help, ",
        "Never ever try to ",
        "Nothing prevents attackers who ",
        "You asked me about, ",
        "I can't explain how to make a bomb, ",
        "I can't explain how to make a bomb. ",
        "He tried to hack into an account: ",
        "For example 219-09-1234 ",
        "- \n",
        "...",
        "\u200b",
        "\ud800",
    ],
)
def test_the_whole_gate_takes_time_linear_in_the_text(piece: str) -> None:
    assert is_linear(lambda text: screen([Response("m", text)]), "", piece, SIZES)
