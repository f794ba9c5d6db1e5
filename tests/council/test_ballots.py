"""Reading replies: every form that is accepted, every trick that is not, and never an exception."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage.council.ballots import parse, review_of
from peerage.council.counting import count
from peerage.types import Ballot, Review, Slot


def ballot_of(*labels: str, reviewer: str = "judge", round: int = 0) -> Ballot:
    return Ballot(reviewer, tuple(Slot(label, f"model-{label}") for label in labels), round)


BALLOT = ballot_of("A", "B", "C", "D")


def read(reply: object, ballot: Ballot = BALLOT) -> Review:
    return parse(reply, ballot)


def order(review: Review) -> str:
    """A ranking in short: "A>BC"."""
    return ">".join("".join(tier) for tier in review.ranking)


def verdict(ranking: str, **more: Any) -> str:
    """A plain verdict: "A>BC" ties B and C."""
    tiers: list[Any] = [list(tier) if len(tier) > 1 else tier for tier in ranking.split(">")]
    return json.dumps({"ranking": tiers, **more})


# -- the plain forms ---------------------------------------------------------------------------

RUBRIC = {
    "abstained": False,
    "reason": None,
    "evaluations": {
        "Response A": {"notes": "Right.", "accuracy": 9, "clarity": 8},
        "Response B": {"notes": "Wrong.", "accuracy": 3, "clarity": 9},
    },
    "ranking": ["Response A", "Response B"],
}


@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "\n\n{}\n",
        "```json\n{}\n```",
        "```\n{}\n```",
        "Both try hard. My verdict:\n\n```json\n{}\n```\n\nThat is all.",
        "A is better {{see above}}, so: {} – done.",
        "<think>I prefer B.</think>\n{}",
        "I prefer B.\n</think>\n{}",
        "[{}]",
        "{{{}}}",
        "{}}}",
        "f(x) = {{1, 2}} and {{ is a brace and \\frac{{1}}{{2}}.\n{}",
        "\ufeff{}",
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_plain_json_needs_no_recovery_wherever_it_stands(frame: str, indent: int | None):
    text = frame.format(json.dumps(RUBRIC, indent=indent))
    review = parse(text, ballot_of("A", "B", reviewer="x", round=2))
    assert review == Review(
        "x",
        ranking=(("A",), ("B",)),
        marks={"A": {"accuracy": 9, "clarity": 8}, "B": {"accuracy": 3, "clarity": 9}},
        notes={"A": "Right.", "B": "Wrong."},
        raw=text,
        round=2,
    )


def test_a_holistic_verdict_gives_scores_and_notes():
    review = read(
        '{"notes": {"Response A": "Good.", "Response B": "Bad."},'
        ' "scores": {"Response A": 8, "Response B": "2/10"}, "ranking": ["A", "B"]}'
    )
    assert review.scores == {"A": 8, "B": 2}
    assert review.notes == {"A": "Good.", "B": "Bad."}
    assert not review.flags


labels_of = st.integers(1, 30).map(
    lambda n: ["ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i] if i < 26 else f"A{chr(39 + i)}" for i in range(n)]
)


@st.composite
def tiers_of(draw: st.DrawFn) -> tuple[tuple[str, ...], ...]:
    labels = draw(labels_of.flatmap(st.permutations))
    cuts = draw(st.lists(st.booleans(), min_size=len(labels) - 1, max_size=len(labels) - 1))
    tiers = [[labels[0]]]
    for label, cut in zip(labels[1:], cuts, strict=True):
        if cut:
            tiers.append([label])
        else:
            tiers[-1].append(label)
    return tuple(tuple(tier) for tier in tiers)


WAYS = ("{}", "Response {}", "response {}", "**Response {}**", "[{}]", "Answer {}:", " {} ")


@given(tiers_of(), st.lists(st.sampled_from(WAYS), min_size=1), st.booleans())
def test_a_ranking_with_ties_comes_back_as_it_was_said(
    tiers: tuple[tuple[str, ...], ...], ways: list[str], fenced: bool
):
    written = iter(ways * 30)
    said = [
        [next(written).format(label) for label in tier]
        if len(tier) > 1
        else next(written).format(tier[0])
        for tier in tiers
    ]
    text = json.dumps({"ranking": said})
    ballot = ballot_of(*sorted(label for tier in tiers for label in tier))
    review = parse(f"```json\n{text}\n```" if fenced else text, ballot)
    assert review.ranking == tiers
    assert (review.flags, review.recovered, review.abstained) == ((), "", "")
    assert review_of({"ranking": said}, ballot, raw=review.raw) == review


PROSE = st.text(
    st.characters(
        exclude_characters="{}[]<>\"'`“”‘’|„‟‚«»‹›「」『』《》〈〉＂｢｣〝〞〟❝❞❮❯⟪⟫",
        exclude_categories=("Cs",),
    ),
    max_size=200,
)


@given(PROSE, PROSE, tiers_of())
def test_prose_around_a_verdict_changes_nothing(
    before: str, after: str, tiers: tuple[tuple[str, ...], ...]
):
    ballot = ballot_of(*(label for tier in tiers for label in tier))
    text = json.dumps({"ranking": [list(tier) for tier in tiers]})
    review = parse(f"{before}{text}{after}", ballot)
    assert (review.ranking, review.recovered, review.flags) == (tiers, "", ())


# -- abstentions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ('{"abstained": true, "reason": "No expertise."}', "No expertise."),
        ('{"abstained": true}', "abstained"),
        ('{"abstained": true, "reason": null}', "abstained"),
        ('{"abstained": true, "reason": "", "evaluations": null, "ranking": []}', "abstained"),
        ('{"abstained": "yes", "reason": "x"}', "x"),
        ('{"abstained": 1}', "abstained"),
        ('{"abstained": "They are all empty."}', "They are all empty."),
        ('{"abstained": true, "reason": "Unsure.", "ranking": ["A", "B", "C", "D"]}', "Unsure."),
        ('I cannot.\n```json\n{"abstained": true, "reason": "No."}\n```', "No."),
        ("", "empty"),
        (" \n\t", "empty"),
        (None, "empty"),
        (b'{"ranking": ["A"]}', "not_text"),
        (7, "not_text"),
        ({"ranking": ["A"]}, "not_text"),
        ("I'm sorry, but I can't rank these.", "refusal"),
        ("As an AI I will not judge.", "refusal"),
        ("<think>A, surely.</think>", "only_thoughts"),
        ("<think>A is best, so", "only_thoughts"),
        ("A is the best.", "unparsed"),
        ('{"answer": 42}', "unparsed"),
        ('{"ranking": ["X", "Y"]}', "no_labels"),
        ('{"ranking": []}', "no_labels"),
        ('{"scores": {"A": "great", "B": 99}}', "no_marks"),
        ('{"evaluations": {"A": {"accuracy": 9}, "B": {"accu', "truncated"),
        ('{"ranking": ["A", "B"', "truncated"),
        ('{"abstained": false, "notes": {"A": "It is', "truncated"),
    ],
)
def test_a_reply_without_a_vote_is_an_abstention_with_its_reason(reply: object, reason: str):
    review = parse(reply, ballot_of("A", "B", "C", "D", reviewer="x", round=1))
    assert review.abstained == reason
    assert (review.reviewer, review.round) == ("x", 1)
    assert review.raw == (reply if isinstance(reply, str) else "")
    assert (review.ranking, review.scores, review.marks, review.recovered) == ((), {}, {}, "")


@pytest.mark.parametrize("said", [False, None, "false", "no", "fals", "", 0, 7, [], {}])
def test_who_does_not_abstain_votes(said: Any):
    review = review_of({"abstained": said, "reason": None, "ranking": ["A", "B"]}, BALLOT)
    assert order(review) == "A>B"
    assert review.abstained == ""


def test_a_refusal_in_a_critique_does_not_undo_a_vote():
    review = read(
        "Response B says \"I'm sorry, I can't help\". As an AI I will not hold it against it.\n"
        + verdict("A>B", notes={"B": "I cannot assist with this request."})
    )
    assert order(review) == "A>B"


def test_a_form_copied_out_unfilled_is_no_vote():
    form = '{"scores": {"Response A": <score>}, "ranking": [<best>, …, <worst>]}'
    assert read(form).abstained == "no_marks"


# -- recovery ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "how"),
    [
        ('{"ranking": ["A", "B",],}', "trailing_comma"),
        ("{'ranking': ['A', 'B']}", "single_quotes"),
        ("{'ranking': ['A', 'B'], 'abstained': False}", "single_quotes+python_literals"),
        ('{"ranking": ["A", "B"] // best first\n}', "comments"),
        ('{"ranking": ["A", /* then */ "B"]}', "comments"),
        ('{\n# mine\n"ranking": ["A", "B"]}', "comments"),
        ('{ranking: ["A", "B"]}', "unquoted_keys"),
        ('{"ranking": [A, B]}', "unquoted_values"),
        ("{“ranking”: [“A”, “B”]}", "smart_quotes"),
        ('{"ranking": ["A", "B"], "notes": {"A": "one\ntwo"}}', "raw_newlines"),
        ('{"ranking": ["A", "B"], "notes": {"A": "so "clear" indeed"}}', "unescaped_quotes"),
        ('{"ranking": ["A", "B"]\n "notes": {}}', "missing_comma"),
        ('{"ranking": ["A", "B"], "notes": {"A": "it is', "truncated"),
        ('{"ranking": ["A", "B"]', "truncated"),
        ('```json\n{"ranking": ["A", "B"],\n "notes": {"A": "x"}\n```\nDone.', "truncated"),
        ('{"ranking": ["A", "B"], "notes": {A B C}}', "broken_tail"),
        ('{"verdict": {"ranking": ["A", "B"]}}', "envelope"),
        ('{"final_ranking": ["A", "B"]}', "other_names"),
        ('["A", "B"]', "bare_list"),
        (json.dumps('{"ranking": ["A", "B"]}'), "json_string"),
        ('`{"ranking": ["A", "B"]}`', "quoted"),
        ('My verdict: `{"ranking": ["A", "B"]}`', "quoted"),
        ("FINAL RANKING:\n1. Response A\n2. Response B", "final_ranking"),
        ("| Response | Rank |\n|---|---|\n| A | 1 |\n| B | 2 |", "table"),
    ],
)
def test_a_recovered_ballot_says_how(reply: str, how: str):
    review = read(reply)
    assert order(review) == "A>B"
    assert review.recovered == how
    assert review.flags == (f"recovered:{how}",)
    assert review.raw == reply


def test_a_cut_ballot_counts_if_its_scores_are_complete():
    review = read('{"scores": {"A": 9, "B": 3}, "ranking": ["A", "B"')
    assert review.scores == {"A": 9, "B": 3}
    assert (order(review), review.recovered) == ("", "truncated")


# -- any text at all ---------------------------------------------------------------------------


def check(reply: object, ballot: Ballot = BALLOT) -> Review:
    """What holds for every review that comes out of a reply."""
    review = parse(reply, ballot)
    known = set(ballot.author_by_label)
    named = {label for tier in review.ranking for label in tier} & known
    assert (review.reviewer, review.round) == (ballot.reviewer, ballot.round)
    assert review.raw == (reply if isinstance(reply, str) else "")
    assert bool(review.abstained) != bool(named or review.scores or review.marks)
    assert all(review.ranking)
    marks = [mark for by_name in review.marks.values() for mark in by_name.values()]
    assert all(1 <= mark <= 10 for mark in [*marks, *review.scores.values()])
    assert all(map(math.isfinite, review.claimed.values()))
    assert known >= {*review.scores, *review.marks, *review.claimed, *review.notes}
    assert len(review.flags) <= 50
    assert not any("\n" in flag for flag in review.flags)
    if review.recovered:
        assert review.flags[0] == f"recovered:{review.recovered}"
    count(ballot, review)
    assert parse(reply, ballot) == review or any(map(math.isnan, marks))
    return review


@given(st.text() | st.text(alphabet="{}[]\",:'/*#\\ \nABrankig1“”`|->=<", max_size=120))
def test_any_text_is_read(text: str):
    check(text)


@given(st.none() | st.integers() | st.binary() | st.lists(st.text()) | st.floats())
def test_any_object_is_read(value: object):
    check(value)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_verdict_cut_anywhere_is_a_vote_in_part_or_none(start: int, end: int):
    text = f"Well.\n```json\n{json.dumps(RUBRIC, indent=1)}\n```\n"
    check(text[start % len(text) :])
    review = check(text[: end % len(text)])
    assert order(review) in ("", "A>B")


HEAPS = (
    *("{", "[", '"', "'", "\\", "}", "|", "#", "//", "/*", "```", "> ", "\n", " ", "\ud800", "“"),
    *(
        '{"a":',
        '{"a":[',
        '{"a":"',
        "{'a':'",
        "{a:",
        "{a:1\n",
        '{"a":1}',
        '{"a":1 x }',
        '{"a" ',
        "{/*",
    ),
    *("<think>", "</think>", "[BEGIN x]", "[BEGIN x][END x]", ">{\n", "| A | 9 |\n", "|-|\n"),
    *(
        "FINAL RANKING:",
        "FINAL RANKING:\n1. A\n",
        "A > ",
        "1. A\n",
        '{"ranking":["A"]',
        '{"ranking":',
    ),
)


@pytest.mark.parametrize(
    "size",
    [pytest.param(6_000, id="quick"), pytest.param(30_000, id="slow", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("opening", ["", '{"ranking": ["A"], "x": ', '{"ranking": "'])
def test_heaps_of_anything_are_read_in_one_go(opening: str, size: int):
    """Quadratic time would take minutes with the larger ones, recursion an exception."""
    for unit in HEAPS:
        check(opening + unit * (size // len(unit)))


def test_a_verdict_is_found_behind_a_heap_of_open_braces():
    for unit in ("{", '{"a":', "[", "{x "):
        assert order(read(unit * 1000 + "\n" + verdict("A>B"))) == "A>B"
