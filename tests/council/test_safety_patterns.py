"""The safety gate's tables: each name once, and every expression linear in the text."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from peerage.council.safety import PATTERNS, TABLE, compile_phrase, luhn_holds, screen
from peerage.types import Response


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
SMALL, LARGE = 2_000, 32_000
MOST = 4 * LARGE // SMALL  # a quadratic search takes sixteen times as long as a linear one


def cpu_s(work: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    work(text)
    return time.process_time() - start


def growth(work: Callable[[str], object], piece: str) -> float:
    """How many times as long the large text takes: the least of a few tries, as loads vary."""
    small, large = (piece * (size // len(piece)) for size in (SMALL, LARGE))
    best = float("inf")
    for _ in range(5):
        least = min(cpu_s(work, small) for _ in range(3))
        best = min(best, cpu_s(work, large) / max(least, 1e-5))
        if best < MOST:
            break
    return best


@pytest.mark.parametrize("name", [name for _, name in PATTERNS])
def test_every_pattern_takes_time_linear_in_the_text(name: str) -> None:
    (phrase,) = (phrase for (_, other), phrase in PATTERNS.items() if other == name)
    search = compile_phrase(phrase).findall
    assert max(growth(search, piece) for piece in REPEATS) < MOST


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
    assert growth(lambda text: screen([Response("m", text)]), piece) < MOST
