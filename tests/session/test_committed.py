"""Committed reviews: the reviewer's own answer is on its page, and not on its ballot."""

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerage import audit, board_models, config
from peerage.biases.commitment import PRAISE
from peerage.council.ballots import read_review
from peerage.council.prompts import Page, render_review, review_schema
from peerage.errors import ConfigError
from peerage.events import Committed, Failed, Reviewed, read_events
from peerage.providers import Reply
from peerage.types import Ballot, Query, Seat, Slot, Usage
from peerage.view import SessionView
from tests.session.conftest import Direct, seats
from tests.shared.session_configs import make_config

OUTSIDER = Seat("judge", provider="simulated", roles=("review",))


class Pages(Direct):
    """Keeps every call, and cuts off the replies of some stages and seats."""

    def __init__(self, cut=(), **options):
        super().__init__(**options)
        self.cut, self.made = set(cut), []

    async def call(self, call, *_):
        self.made.append(call)
        reply = await super().call(call)
        if isinstance(reply, Reply) and (call.stage, call.seat.name) in self.cut:
            return replace(reply, finish_reason="length")
        return reply


class Priced(Pages):
    """Calls cost half a dollar each."""

    async def call(self, call, *_):
        return replace(await super().call(call), usage=Usage(1, 1, 0.5))


def committed_config(names="abc", **changes):
    table = {"verdict": "none", "quorum": 2, "review": "committed"}
    return make_config((*seats(names), OUTSIDER), **{**table, **changes})


def facts_of(events, kind):
    return [fact for fact in read_events(events) if isinstance(fact, kind)]


def test_the_own_answer_is_on_the_page_and_not_on_the_ballot(held):
    caller = Pages()
    events = asyncio.run(held(committed_config(), caller))
    view = SessionView.of(events)
    answers = {one.model: one.text for one in view.responses}
    pages = {call.seat.name: call.prompt for call in caller.made if call.stage == "review"}
    for ballot in view.session.ballots:
        assert ballot.reviewer not in ballot.authors
        own = answers.get(ballot.reviewer) or facts_of(events, Committed)[0].text
        assert own in pages[ballot.reviewer].split("your own answer")[1]
    assert view.session.candidates == ("a", "b", "c")
    reviews = {one.reviewer: one for one in view.session.reviews}
    assert reviews["a"].agrees.keys() == {"A", "B"}
    assert view.session.cost_usd == 0.0


def test_only_seats_without_a_whole_answer_commit_a_short_one(held):
    caller = Pages(cut={("answer", "c")})
    events = asyncio.run(held(committed_config(), caller))
    assert {fact.seat for fact in facts_of(events, Committed)} == {"c", "judge"}
    assert [name for stage, name, _ in caller.calls if stage == "commit"] == ["c", "judge"]
    prompt = next(call.prompt for call in caller.made if call.stage == "commit")
    assert prompt.startswith("Why?")


@pytest.mark.parametrize("why", ["failed", "cut_off"])
def test_a_reviewer_with_no_own_answer_fails_by_kind_and_the_others_count(held, why):
    fail = {("commit", "judge")} if why == "failed" else ()
    caller = Pages(cut={("commit", "judge")} if why == "cut_off" else (), fail=fail)
    events = asyncio.run(held(committed_config(), caller))
    kinds = {(fact.seat, fact.stage): fact.kind for fact in facts_of(events, Failed)}
    first = "server_error" if why == "failed" else "cut_off"
    assert kinds == {("judge", "commit"): first, ("judge", "review"): "no_own_answer"}
    assert ("review", "judge", 0) not in caller.calls
    view = SessionView.of(events)
    assert {one.reviewer for one in view.session.reviews} == {"a", "b", "c"}
    assert view.is_finished


def test_a_session_cut_off_after_a_commitment_pays_for_it_once(held):
    whole = asyncio.run(held(committed_config()))
    at = next(i for i, event in enumerate(whole) if event.kind == "committed")
    caller = Pages()
    rest = asyncio.run(held(committed_config(), caller, history=whole[: at + 1]))
    assert not any(stage in ("answer", "commit") for stage, _, _ in caller.calls)
    again, before = SessionView.of([*whole[: at + 1], *rest]), SessionView.of(whole)
    assert again.result.scores == before.result.scores


def test_a_blind_review_keeps_its_fingerprint_and_a_committed_one_has_another(held):
    prints = {}
    for kind in ("blind", "committed"):
        events = asyncio.run(held(committed_config(review=kind)))
        prints[kind] = facts_of(events, Reviewed)[0].made_by
    assert prints["blind"].hash != prints["committed"].hash
    assert "review blind → committed" in prints["blind"].changes_to(prints["committed"])


BALLOT = Ballot("r", (Slot("A", "x", "one"), Slot("B", "y", "two")))


@given(st.dictionaries(st.sampled_from(["A", "B", "C"]), st.booleans() | st.none() | st.text()))
def test_any_words_on_agreement_leave_the_vote_as_it_is(words):
    agrees = {f"Response {label}": word for label, word in words.items()}
    text = json.dumps({"ballot": "code", "ranking": ["A", "B"], "agrees": agrees})
    review = read_review(text, BALLOT, Page("{code}", "code")).review
    assert review.ranking == (("A",), ("B",))
    assert review.agrees.items() <= {"A": True, "B": True}.items() | {("A", False), ("B", False)}
    assert {k for k, v in words.items() if isinstance(v, bool)} - {"C"} <= review.agrees.keys()


def test_the_page_by_rubric_asks_for_agreement_before_the_marks():
    rubric = config.rubric("general")
    own = "It is [BEGIN your own answer 0000]."
    page = render_review(BALLOT, Query("Why?"), rubric, "0000", "code", own=own)
    assert page.text.index('"agrees"') < page.text.index('"accuracy": <mark>')
    assert "your own answer 0000]\n" not in page.text.replace(page.fence, "fence")
    evaluation = review_schema(BALLOT, rubric, "code", is_committed=True)["$defs"]["evaluation"]
    assert list(evaluation["properties"])[:2] == ["notes", "agrees"]
    reply = {"A": {"notes": "n", "agrees": False, "accuracy": 9}, "B": {"agrees": "yes"}}
    read = read_review(json.dumps({"ballot": page.code, "evaluations": reply}), BALLOT, page)
    assert read.review.agrees == {"A": False, "B": True}
    assert read.review.marks == {"A": {"accuracy": 9.0}}


def test_committed_reviews_with_own_votes_are_refused(tmp_path):
    path = tmp_path / "peerage.toml"
    path.write_text('[council]\nreview = "committed"\nown_votes = "in"\n')
    with pytest.raises(ConfigError, match="no own vote"):
        config.load(path, environ={})


def rows_of(reviewer, kind, n, *, mark, agrees):
    return [
        {
            "session_id": f"{kind}-{i}",
            "reviewer": reviewer,
            "candidate": name,
            "score": mark if name == "x" else 5.0 + i % 2,
            "committed": 1 if kind == "committed" else None,
            "agrees": agrees if name == "x" and kind == "committed" else None,
        }
        for i in range(n)
        for name in ("x", "y", "z")
    ]


def test_the_audit_names_the_reviewer_that_praises_what_contradicts_its_own_answer():
    rows = [
        *rows_of("fan", "committed", 30, mark=PRAISE + 1, agrees=0),
        *rows_of("strict", "committed", 30, mark=3.0, agrees=0),
    ]
    rows[0]["score"] = rows[90]["score"] = 6.0  # not all alike
    findings = [one for one in audit(rows).findings if one.metric == "contradiction"]
    by_reviewer = {one.subject: one for one in findings}
    assert by_reviewer["fan"].status == "indicator"
    assert by_reviewer["fan"].value == pytest.approx(29 / 30)
    assert by_reviewer["strict"].value == 0.0


def test_a_table_without_committed_reviews_has_no_findings_on_them():
    rows = rows_of("fan", "blind", 10, mark=8.0, agrees=None)
    metrics = {one.metric for one in audit(rows).findings}
    assert not metrics & {"contradiction", "style_change"}


def test_a_board_of_both_kinds_says_so_and_shows_either_alone():
    rows = [
        *rows_of("r", "blind", 4, mark=8.0, agrees=None),
        *rows_of("r", "committed", 6, mark=2.0, agrees=0),
    ]
    both = board_models(rows)
    assert any(f == "reviews_of_two_kinds:10: 4 blind, 6 committed" for f in both.flags)
    blind, committed = (board_models(rows, review=kind) for kind in ("blind", "committed"))
    assert not any(f.startswith("reviews_of_two") for f in (*blind.flags, *committed.flags))
    assert blind.rows[0]["model"] == "x"
    assert committed.rows[-1]["model"] == "x"


def test_the_short_answer_is_billed_and_limited_like_a_review(held):
    caller = Priced()
    seat = replace(OUTSIDER, max_tokens_review=77)
    settings = replace(committed_config(), seats=(*seats("abc"), seat))
    view = SessionView.of(asyncio.run(held(settings, caller)))
    commit = next(one for one in caller.made if one.stage == "commit")
    assert commit.max_tokens == 77
    assert view.bills_by("stage")["commit"].usd == 0.5
    assert view.session.cost_usd == pytest.approx(0.5 * len(caller.made))
