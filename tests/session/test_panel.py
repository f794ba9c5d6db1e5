"""`Council`: who sits, what stands before a question, and sessions that go on."""

import asyncio
from contextlib import aclosing

import pytest

from peerage.council.prompts import render_review
from peerage.errors import BudgetError, ConfigError, InputError, PeerageError, UsageError
from peerage.event_facts import opening_of
from peerage.events import Answered, Opened, read_events
from peerage.panel import Council
from peerage.providers import Call
from peerage.reports.sessions import session_document
from peerage.reports.stored_reviews import review_rows
from peerage.types import Query, ScoringOptions, Seat, Turn
from peerage.view import SessionView


def seats(names="abc", **more):
    return [Seat(name, provider="simulated", **more) for name in names]


@pytest.fixture
def council(tmp_path):
    """Makes councils over one store; each is closed by its test's loop."""

    def make(panel=None, **options):
        store = f"sqlite:///{tmp_path / 'peerage.db'}"
        return Council(seats=panel or seats("abcd"), store=store, seed=7, **options)

    return make


def ask(made, *arguments, **options):
    async def scene():
        async with made as council:
            session = await council.ask(*arguments, **options)
            return session, opening_of(council.store.events(session.id))

    return asyncio.run(scene())


def test_only_the_named_seats_sit(council):
    session, opened = ask(council(chair="d"), "Why?", seats=["c", " a ", "b"])
    assert session.candidates == ("a", "b", "c")
    assert [seat.name for seat in opened.seats] == ["a", "b", "c"]
    assert session.verdict.by == "a"


def test_an_unknown_seat_is_refused_with_the_list_and_a_suggestion(council):
    with pytest.raises(ConfigError, match=r"no seat 'alpa'. Did you mean 'alpha'\? Known: alpha"):
        ask(council(seats(["alpha", "beta", "gamma"])), "Why?", seats=["alpa"])


def test_the_system_text_and_the_conversation_come_before_the_question():
    query = Query(
        "And now?", system="Be brief.", earlier=(Turn("user", "1?"), Turn("assistant", "1"))
    )
    seat = Seat("a", system="You are a.")
    answer = Call(seat, "answer", query.text, "k", query)
    assert [(m.role, m.content) for m in answer.messages] == [
        ("system", "You are a.\n\nBe brief."),
        ("user", "1?"),
        ("assistant", "1"),
        ("user", "And now?"),
    ]
    review = Call(seat, "review", "Judge.", "k", query)
    assert [m.content for m in review.messages] == ["You are a.", "Judge."]


def test_a_follow_up_carries_the_question_and_the_verdict(council):
    first, _ = ask(council(), "Why?", "science", system="Be brief.")
    second, opened = ask(council(), "And then?", after=first.id[:6])
    assert opened.after == first.id
    assert second.query.earlier == (Turn("user", "Why?"), Turn("assistant", first.verdict.text))
    assert (second.query.system, second.query.category) == ("Be brief.", "science")
    third, _ = ask(council(), "So?", after=second.id)
    assert len(third.query.earlier) == 4


def test_without_a_verdict_a_follow_up_carries_the_best_answer(council):
    first, _ = ask(council(), "Why?", verdict="none")
    second, _ = ask(council(), "And then?", after=first.id)
    best = next(r.text for r in first.responses if r.model == first.scores[0].model)
    assert second.query.earlier[1].content == best


def test_given_answers_are_judged_and_nobody_is_asked(council):
    judges = seats("xyz", roles=("review",))
    session, opened = ask(council(judges), "Why?", answers={" one ": "A.", "two": "B."})
    assert session.candidates == ("one", "two")
    assert opened.answers == {"one": "A.", "two": "B."}
    assert all(score.votes == 3 for score in session.scores)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"answers": {"one": " "}}, "no text"),
        ({"answers": {"one": "x", "one ": "y"}}, "a different name"),
        ({"earlier": [Turn("tool", "x")]}, "the unknown role 'tool'"),
        ({"system": "x" * 1_000_000}, "at most 1,000,000"),
        ({"after": "nope"}, "there is no session 'nope'"),
        ({"resume": "nope"}, "there is no session 'nope'"),
        ({"after": ""}, None),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anybody_is(council, asked, message):
    if message is None:
        assert ask(council(), "Why?", **asked)[0].status == "done"
    else:
        with pytest.raises(InputError, match=message):
            ask(council(), "Why?", **asked)


def test_a_panel_of_judges_needs_answers(council):
    with pytest.raises(ConfigError, match="no seat has the role answer"):
        ask(council(seats("xyz", roles=("review",))), "Why?")


# -- going on -----------------------------------------------------------------------------------


def cut_off(made, kind, **options):
    """Leave a session after the first event of a kind; its id."""

    async def scene():
        async with made as council, aclosing(council.run("Why?", "c", **options)) as events:
            async for event in events:
                if event.kind == kind:
                    return event.session_id
            raise AssertionError(kind)

    return asyncio.run(scene())


@pytest.mark.parametrize("kind", ["opened", "answered", "dealt", "reviewed", "advised"])
def test_a_session_goes_on_from_its_log_under_its_recorded_options(council, kind):
    id_ = cut_off(council(), kind, seats=["a", "b", "c"], rule="mean_rank", system="Be brief.")
    session, opened = ask(council(rule="elo"), resume=id_[:8])
    assert (session.id, session.status, session.query.system) == (id_, "done", "Be brief.")
    assert opened.options["rule"] == "mean_rank"
    assert session.candidates == ("a", "b", "c")
    assert session.verdict.kind == "synthesis"


def test_given_answers_are_in_the_log_before_they_are_judged(council):
    id_ = cut_off(council(), "opened", answers={"one": "A.", "two": "B."})
    assert ask(council(), resume=id_)[0].candidates == ("one", "two")


def test_what_was_answered_is_not_asked_again(council):
    id_ = cut_off(council(), "dealt")

    async def scene():
        async with council() as made:
            events = [event async for event in made.run(resume=id_)]
            return events, made.store.events(id_)

    events, stored = asyncio.run(scene())
    assert events == stored
    answered = [fact.seat for fact in read_events(stored) if isinstance(fact, Answered)]
    assert sorted(answered) == ["a", "b", "c", "d"]
    assert sum(isinstance(fact, Opened) for fact in read_events(stored)) == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"text": "What?"}, "has another question"),
        ({"rule": "elo"}, "recorded options; rule cannot be changed"),
        ({"seats": ["a"]}, "; seats cannot be changed"),
    ],
)
def test_a_resumed_session_takes_nothing_else(council, asked, message):
    id_ = cut_off(council(), "opened")
    with pytest.raises(UsageError, match=message):
        ask(council(), resume=id_, **asked)


def test_a_finished_session_does_not_go_on(council):
    session, _ = ask(council(), "Why?")
    with pytest.raises(UsageError, match="is finished"):
        ask(council(), resume=session.id)


@pytest.mark.parametrize("panel", [seats("ab"), seats("abcd", model="other")])
def test_a_session_goes_on_only_with_its_own_seats(council, panel):
    id_ = cut_off(council(), "opened")
    with pytest.raises(ConfigError, match=f"session {id_}"):
        ask(council(panel), resume=id_)


def test_an_unfinished_session_cannot_be_followed_up(council):
    id_ = cut_off(council(), "dealt")
    with pytest.raises(UsageError, match=f"peerage ask --resume {id_}"):
        ask(council(), "And then?", after=id_)


# -- answers that are cut off, reasoning, refusals -----------------------------------------------


def test_an_answer_that_was_cut_off_is_flagged_wherever_it_is_judged(council):
    cut = Seat("a", provider="simulated", options={"truncation_rate": 1.0})
    made = council([cut, *seats("bcd")])

    async def scene():
        async with made as council:
            session = await council.ask("Why?")
            return session, council.store.events(session.id)

    session, events = asyncio.run(scene())
    assert [r.model for r in session.responses if r.truncated] == ["a"]
    assert "truncated:a" in session.flags
    assert all(slot.truncated == (slot.author == "a") for b in session.ballots for slot in b.slots)
    page = render_review(session.ballots[0], session.query, None, "c0de", "k3m9q2w7x5ab").text
    label = next(slot.label for slot in session.ballots[0].slots if slot.author == "a")
    assert page.count("cut off at its author's length limit") == 1
    assert f"[END Response {label} c0de]\n[NOTE Response {label} c0de] It is not whole" in page
    rows = list(review_rows(events, None))
    assert {(row["candidate"], row["truncated"]) for row in rows} == {
        ("a", 1), ("b", None), ("c", None), ("d", None)
    }  # fmt: skip
    document = session_document(SessionView.of(events, scoring=ScoringOptions()))
    assert document["responses"][0]["truncated"] is True


def test_a_seat_that_refuses_to_answer_is_no_candidate_and_not_last(council):
    refusing = Seat(
        "a", provider="simulated", options={"failure_rate": 1.0, "failure_kind": "refused"}
    )
    session, _ = ask(council([refusing, *seats("bcd")]), "Why?")
    assert session.candidates == ("b", "c", "d")
    assert {(f.seat, f.kind) for f in session.failures} == {("a", "refused")}


# -- money --------------------------------------------------------------------------------------


def test_a_session_has_a_budget_of_its_own_which_its_earlier_part_counts_against(council):
    priced = seats("abcd", price_in=1.0, price_out=1.0)
    with pytest.raises(BudgetError):
        ask(council(priced), "Why?", budget_usd=0.0)
    session, _ = ask(council(priced), "Why?")
    cost = session.cost_usd
    id_ = cut_off(council(priced), "reviewed", budget_usd=100.0)
    with pytest.raises(BudgetError):
        ask(council(priced), resume=id_, budget_usd=cost / 4)
    assert ask(council(priced), resume=id_)[0].status == "done"


def test_an_unpriced_seat_is_refused_under_a_budget_before_anybody_is_asked(council):
    unpriced = [*seats("ab"), Seat("c", model="nobody-knows", base_url="http://127.0.0.1:9/v1")]
    with pytest.raises(PeerageError, match="the price of c is unknown"):
        ask(council(unpriced), "Why?", budget_usd=1.0)


# -- before anybody is asked ----------------------------------------------------------------------


def notes(made, **options):
    async def scene():
        async with made as council:
            events = [event async for event in council.run("Why?", **options)]
        kinds = [event.kind for event in events]
        return [event.body["text"] for event in events if event.kind == "noted"], kinds

    return asyncio.run(scene())


@pytest.mark.parametrize(
    ("panel", "asked", "words"),
    [
        (seats("abc"), {}, None),
        (seats("ab"), {"verdict": "none"}, "no vote could count"),
        (seats("ab"), {"own_votes": "in"}, None),
        (seats("a"), {"verdict": "none"}, "nothing to compare"),
        ([*seats("ab"), *seats("j", roles=("review",))], {}, "only the ballot of j will count"),
        ([*seats("ab"), *seats("jk", roles=("review",))], {}, None),
        (seats("abc", roles=("answer",)), {}, "no seat reviews"),
        (seats("jk", roles=("review",)), {"answers": {"x": "1", "y": "2"}}, None),
        (seats("jk", roles=("review",)), {"answers": {"x": "1"}}, "nothing to compare"),
    ],
)
def test_a_panel_whose_votes_cannot_count_is_told_so_before_anybody_is_asked(
    council, panel, asked, words
):
    told, kinds = notes(council(panel), **asked)
    assert [words in note for note in told] == ([] if words is None else [True])
    if words is not None:
        assert kinds.index("noted") == 1


def test_seats_whose_keys_are_not_set_are_refused_together_before_anybody_is_asked(
    council, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    keyless = [
        Seat("gpt", model="m"),
        Seat("groq", model="m", base_url="https://api.groq.com/openai/v1"),
    ]
    made = council([*seats("abc"), *keyless])
    with pytest.raises(ConfigError, match=r"(?s)OPENAI_API_KEY is not set.*GROQ_API_KEY"):
        ask(made, "Why?")
    assert ask(council([*seats("abc"), *keyless]), "Why?", seats=list("abc"))[0].status == "done"


def test_names_lose_the_space_around_them(council):
    made = council(seats([" a ", "b\t", "\u00a0c"]), rubric=" coding ", chair=" b ")
    session, opened = ask(made, "Why?")
    assert session.candidates == ("a", "b", "c")
    assert (opened.options["rubric"], session.verdict.by) == ("coding", "b")
