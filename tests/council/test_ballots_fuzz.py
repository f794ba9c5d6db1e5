"""Tens of thousands of replies, grown and damaged from a seed: none raises, none steals a vote."""

import json
import math
import random

import pytest

from peerage.council.ballots import parse, review_of
from peerage.council.counting import count
from peerage.types import Ballot, Review, Slot

N_REPLIES = 60_000
BATCH = 5_000

BALLOT = Ballot("judge", tuple(Slot(label, f"model {label}") for label in "ABCD"), 3)
MINE = '{"ranking": ["A", "B"], "scores": {"A": 9, "B": 2}}'

PIECES = (
    *('{"ranking": ["D", "C"]}', '{"ranking": ["D", ["C", "B"], "Z"], "abstained": false}'),
    *('{"scores": {"Response D": 9, "Response A": "1/10"}}', "{'ranking': 'D > C = A'}"),
    *('{"evaluations": {"D": {"accuracy": 10, "notes": "best", "overall": 9}}}',),
    *(
        '{"abstained": true, "reason": "no"}',
        '{"verdict": {"ranking": ["D"]}}',
        '{"a": {"b": [1]}}',
    ),
    *('{"ranking": ["D", "C"], "notes": {"D": "so "good" it is"}}', "[1, 2]", '["D", "C"]'),
    *('{"abstained": false, "notes": {"D": "it', '{"ranking": ["D", "C"] "scores": {'),
    *('{"ranking": ["D", "C"], "x": ', '{"notes": "never ends', '{"a": [', "{a b}", "\\frac{1}{2}"),
    *("<think>", "</think>", "[BEGIN Response D 0f]", "[END Response D 0f]", "```json\n", "```\n"),
    *("\n> ", "\n\n", "FINAL RANKING:\n1. D\n2. C\n", "FINAL RANKING: D > C", "I can't judge. "),
    *("| Response | Rank |\n|--|--|\n| D | 1 |\n", "| D | 9 |\n", "Response D is best. ", "A > B"),
    *(
        '"',
        "'",
        "`",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\\",
        "/*",
        "*/",
        "//",
        "#",
        "|",
        ">",
        "=",
        "“",
        "”",
    ),
    *(
        " ",
        "\n",
        "\t",
        "\ud800",
        "\x00",
        "é",
        "🥇",
        "1e999",
        "NaN",
        "9" * 50,
        "null",
        "True",
        "...",
    ),
)
NOISE = "{}[]\",:'\\/*#`|<>=\n “”‘’AD9-.tfn"


def grow(rng: random.Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 9)))


def damage(text: str, rng: random.Random) -> str:
    """The text with a few characters lost, added, changed or moved, or cut short."""
    for _ in range(rng.choice((0, 0, 1, 1, 2, 4, 8))):
        at = rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.choice((1, 1, 2, 5, 20)))
        text = rng.choice(
            (
                text[:at] + text[to:],
                text[:at] + rng.choice(NOISE) + text[at:],
                text[:at] + rng.choice(NOISE) + text[to:],
                text[:at] + text[at:to] * 2 + text[to:],
                text[to:] + text[:at],
                text[:to],
            )
        )
    return text


def check(review: Review, raw: str) -> None:
    known = {"A", "B", "C", "D"}
    named = {label for tier in review.ranking for label in tier} & known
    marks = [mark for marks in review.marks.values() for mark in marks.values()]
    assert (review.reviewer, review.round, review.raw) == ("judge", 3, raw)
    assert bool(review.abstained) != bool(named or review.scores or marks)
    assert all(review.ranking)
    assert all(review.marks.values())
    assert all(1 <= mark <= 10 for mark in [*marks, *review.scores.values()])
    assert all(map(math.isfinite, review.claimed.values()))
    assert known >= {*review.scores, *review.marks, *review.claimed, *review.notes}
    assert len(review.flags) <= 50
    assert len(set(review.flags)) == len(review.flags)
    assert all(flag and "\n" not in flag for flag in review.flags)
    assert bool(review.recovered) == any(f.startswith("recovered:") for f in review.flags)
    assert not (review.abstained and review.recovered)
    count(BALLOT, review)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(N_REPLIES // BATCH))
def test_no_reply_breaks_the_reader(batch: int):
    rng = random.Random(f"replies {batch}")
    for _ in range(BATCH):
        text = damage(grow(rng), rng)
        check(parse(text, BALLOT), text)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
def test_nothing_before_a_verdict_votes_in_its_place(batch: int):
    """Whatever a reviewer quotes first, its own last word is read or nothing is."""
    rng = random.Random(f"before {batch}")
    for _ in range(BATCH):
        text = f"{damage(grow(rng), rng)}\n{MINE}"
        review = parse(text, BALLOT)
        check(review, text)
        assert review.abstained or review.ranking == (("A",), ("B",)), text


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(2))
def test_a_damaged_verdict_is_itself_or_nothing(batch: int):
    """One lost or doubled character may lose a vote or a label, but not turn it round."""
    rng = random.Random(f"damaged {batch}")
    whole = json.dumps(
        {
            "evaluations": {
                f"Response {x}": {"notes": "Some words.", "accuracy": 8} for x in "ABCD"
            },
            "ranking": [f"Response {x}" for x in "ABCD"],
        },
        indent=2,
    )
    for _ in range(BATCH):
        at = rng.randrange(len(whole))
        text = whole[:at] + rng.choice(("", whole[at] * 2)) + whole[at + 1 :]
        review = parse(text, BALLOT)
        check(review, text)
        labels = [label for tier in review.ranking for label in tier if label in "ABCD"]
        assert labels == sorted(labels), text


JUNK = (
    None,
    True,
    0,
    7,
    -1,
    10**400,
    1e308,
    math.nan,
    "",
    "A",
    "9/10",
    "D > A",
    "Response B",
    "x y",
)


def datum(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randrange(6)
    if depth > 3 or kind < 3:
        return rng.choice(JUNK)
    if kind == 3:
        return [datum(rng, depth + 1) for _ in range(rng.randrange(4))]
    keys = (
        "ranking",
        "evaluations",
        "scores",
        "notes",
        "abstained",
        "A",
        "Response B",
        "Z",
        "rank",
    )
    keys += ("accuracy", "overall", "score", "label", "reason", "marks", "1")
    return {rng.choice(keys): datum(rng, depth + 1) for _ in range(rng.randrange(5))}


@pytest.mark.slow
def test_no_data_breaks_the_reader():
    rng = random.Random("data")
    for _ in range(20_000):
        data = datum(rng)
        review = review_of(data, BALLOT, raw="as it came")
        check(review, "as it came")
        assert review_of(data, BALLOT, raw="as it came") == review
