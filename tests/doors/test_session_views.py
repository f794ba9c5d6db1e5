"""One session on a terminal, in a pipe and on a page: the answer first, then why."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest

from peerage.doors.cli.terminal import Terminal
from peerage.doors.render.layout import blocks_markdown, excerpt
from peerage.doors.render.pages import session_page
from peerage.doors.render.phrases import flag_text
from peerage.doors.render.session_views import ask_blocks, session_blocks, show_scored
from peerage.events import (
    Advised,
    Answered,
    Dealt,
    DealtBallot,
    Failed,
    Finished,
    Opened,
    Reviewed,
    ScoringRecord,
    SeatRecord,
    stored_event,
)
from peerage.reports.sessions import session_document
from peerage.scoring import score
from peerage.types import Dissent, Query, ScoringOptions, Usage, Verdict
from peerage.view import SessionView

NAMES = ("heron", "wren", "rook")
CODE = "```python\nfor bird in birds:\n    print(bird)\n```"
ANSWERS = {
    "heron": "Blue light scatters most.\n\n" + "\n\n".join(f"Line {i} of heron." for i in range(9)),
    "wren": "The sea is mirrored.",
    "rook": f"See the code:\n\n{CODE}",
}
USAGE = Usage(100, 20, 0.001)
WRAPPED = re.compile(r"\s*\n\s*")


def reply(best, *others, note):
    """A review that puts these labels in order, with a note on the first."""
    return json.dumps(
        {
            "ranking": [f"Response {label}" for label in (best, *others)],
            "scores": {f"Response {label}": 9 - i for i, label in enumerate((best, *others))},
            "notes": {f"Response {best}": note},
        }
    )


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("sessions_with_one_candidate:1", "1 session with a single candidate, which had no rival"),
        ("truncated_answers:2: a, b", "2 answers cut off at the length limit: a, b"),
        (
            "1 reviewer is not in the table of users: s",
            "1 reviewer is not in the table of users: s",
        ),
    ],
)
def test_a_flag_of_a_board_is_told_in_words_that_agree_with_its_count(flag, words):
    assert flag_text(flag) == words


def facts_of(kind="synthesis", verdict=None, *, end=True):
    seats = tuple(SeatRecord(name, roles=("answer", "review")) for name in (*NAMES, "sloth"))
    how = ScoringRecord(rule="borda", rubric=None, order="balanced", verdict=kind)
    facts = [
        Opened(Query("Why is the sky blue?"), "7", 0, "", seats, law=how),
        *(Answered(name, text, 1500.0, usage=USAGE) for name, text in ANSWERS.items()),
        Failed("sloth", "answer", "timeout", "no reply in 8 s"),
        Dealt(0, tuple(DealtBallot(name, NAMES) for name in (*NAMES, "sloth"))),
        Reviewed("heron", 0, reply("B", "C", "A", note="Response B is short."), usage=USAGE),
        Reviewed("wren", 0, reply("A", "C", "B", note="Names the law."), usage=USAGE),
        Reviewed("rook", 0, reply("A", "B", "C", note="Says why."), usage=USAGE),
        Failed("sloth", "review", "timeout", "no reply in 8 s"),
    ]
    facts += [verdict] if verdict else []
    return [*facts, Finished("done", 0.006)] if end else facts


def view_of(facts):
    events = [stored_event("5e55", i, 1.8e9, fact) for i, fact in enumerate(facts)]
    return SessionView.of(events, scoring=ScoringOptions())


def drawn(blocks, width=80):
    out = io.StringIO()
    Terminal(file=out, width=width, force_terminal=True, no_color=True).show_blocks(blocks)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


SYNTHESIS = Verdict(
    "synthesis", "It scatters.", by="wren", dissent=(Dissent("heron", 0.5, "wren is short."),)
)


def unpadded(text):
    """The text without what makes the columns of its tables equally wide."""
    return re.sub(" +", " ", text)


def rows_of(text):
    """The cells of each row of the tables in a text."""
    return [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if "|" in line]


def test_a_question_ends_with_the_verdict_the_answers_the_reasons_the_dissent_and_the_bill():
    text = unpadded(blocks_markdown(ask_blocks(view_of(facts_of(verdict=SYNTHESIS)))))
    order = [
        "synthesis by wren",
        "It scatters.",
        "| 1 | heron",
        "1. heron",
        "Blue light scatters most.",
        "| heron | (3) |",
        "wren is short.",
        "heron: Names the law.",
        "no review: no reply in 8 s (timeout)",
        "heron (50% of pairs",
        "“wren is short.”",
        "$0.0060",
    ]
    at = [text.index(part) for part in order]
    assert at == sorted(at)


def test_own_answers_are_mentioned_only_where_a_reviewer_wrote_one():
    facts = facts_of(verdict=SYNTHESIS)
    judges = dict(zip(NAMES, ("ann", "bob", "cyd"), strict=True))
    judged = [
        Dealt(0, tuple(DealtBallot(name, NAMES) for name in judges.values()))
        if isinstance(fact, Dealt)
        else replace(fact, reviewer=judges[fact.reviewer])
        if isinstance(fact, Reviewed)
        else fact
        for fact in facts
        if not isinstance(fact, Failed)
    ]
    texts = [drawn(ask_blocks(view_of(some))) for some in (facts, judged)]
    assert ["own votes" in text for text in texts] == [True, False]
    assert ["own answer" in text for text in texts] == [True, False]
    assert "3 of 3 ballots counted, rule borda." in texts[1]


def test_the_grid_promises_reasons_only_where_a_reviewer_gave_one():
    facts = facts_of(verdict=SYNTHESIS)
    silent = [
        replace(fact, text=re.sub('"notes": {[^}]*}', '"notes": {}', fact.text))
        if isinstance(fact, Reviewed)
        else fact
        for fact in facts
    ]
    headings = [
        next(line for line in drawn(ask_blocks(view_of(some))).splitlines() if "Rankings" in line)
        for some in (facts, silent)
    ]
    assert headings == ["Rankings by reviewer, with reasons", "Rankings by reviewer"]


def test_scores_that_a_ceiling_lowered_are_counted_under_the_table():
    fine, wrong = {"accuracy": 9, "clarity": 8}, {"accuracy": 2, "clarity": 9}
    texts = []
    for marks in ((fine, wrong), (wrong, wrong)):
        evaluations = dict(zip(("a", "b"), marks, strict=True))
        vote = {"ranking": ["a", "b"], "evaluations": evaluations}
        labels = {"a": "m1", "b": "m2"}
        rankings = [{"model": "judge", "parsed_ranking": vote}]
        out = io.StringIO()
        scored = score({"label_to_model": labels, "rankings": rankings}, rubric="general")
        show_scored(Terminal(file=out), scored)
        texts.append(out.getvalue())
    assert "lowered 1 of 2 scores (accuracy under 5 at most 4, under 7 at most 7)" in texts[0]
    assert "lowered all 2 scores" in texts[1]


def test_an_answer_shows_its_first_lines_and_full_shows_all():
    view = view_of(facts_of(verdict=SYNTHESIS))
    for draw in (blocks_markdown, drawn):
        brief, full = draw(ask_blocks(view)), draw(ask_blocks(view, full=True))
        assert "Line 8 of heron." not in brief
        assert "--full shows all" in brief
        assert "Line 8 of heron." in full


def test_the_winner_is_whole_where_nothing_sums_it_up():
    verdict = Verdict("binary", "wren: it holds", confidence=1.0, approved=True, note="2 of 2")
    assert "Line 8 of heron." in blocks_markdown(ask_blocks(view_of(facts_of("binary", verdict))))


def test_without_a_verdict_the_best_answer_is_shown_as_such():
    view = view_of(facts_of("none"))
    assert blocks_markdown(ask_blocks(view)).startswith("# best answer: heron\n\nBlue light")
    assert view.conclusion == ANSWERS["heron"]


def test_the_text_above_is_named_only_where_there_is_one():
    """An undecided panel without reasons shows its note, not the best answer."""
    undecided = Verdict("binary", "", note="nobody replied")
    text = blocks_markdown(ask_blocks(view_of(facts_of("binary", undecided))))
    assert "(the text above)" not in text
    assert "Line 8 of heron." in text
    best = Verdict("top_answer", ANSWERS["heron"], note="this is heron's answer")
    text = blocks_markdown(ask_blocks(view_of(facts_of("synthesis", best))))
    assert text.count("(the text above)") == text.count("Line 8 of heron.") == 1
    empty = [Answered("wren", "") if f == facts_of()[2] else f for f in facts_of(end=False)]
    assert "(the text above)" not in blocks_markdown(ask_blocks(view_of(empty)))


def test_a_refusal_in_words_is_an_answer_with_a_mark_in_tables_and_json():
    facts = facts_of(verdict=SYNTHESIS)
    facts[2] = Answered("wren", "I'm sorry, but I can't help with that.")
    events = [stored_event("5e55", i, 1.8e9, fact) for i, fact in enumerate(facts)]
    view = SessionView.of(events, scoring=ScoringOptions())
    document = session_document(view)
    marked = {one["model"]: one["looks_like_a_refusal"] for one in document["responses"]}
    assert marked == {"heron": False, "wren": True, "rook": False}
    assert "looks_like_a_refusal:wren" in document["flags"]
    assert [one.response.model for one in view.answers if one.looks_like_a_refusal] == ["wren"]
    for text in (blocks_markdown(ask_blocks(view)), session_page(view)):
        assert text.count("looks like a refusal") == 2  # beside the answer, and among the flags


def test_the_minority_of_a_yes_or_no_verdict_says_why():
    verdict = Verdict("binary", "wren: safe", confidence=2 / 3, approved=True, note="2 of 3")
    facts = facts_of("binary", verdict)
    votes = [
        Advised(name, json.dumps({"reasons": [f"{name} checked"], "approved": name != "rook"}))
        for name in NAMES
    ]
    text = blocks_markdown(ask_blocks(view_of([*facts[:-2], *votes, *facts[-2:]])))
    assert "- rook would reject: “rook checked”" in text
    assert "heron checked" not in text
    assert view_of(facts).conclusion == "Approved: 2 of 3.\n\nwren: safe"


def test_an_unfinished_session_says_so_what_is_missing_and_how_to_go_on():
    facts = facts_of(end=False)
    cut = {
        2: "the answers of wren, rook, sloth; the reviews of heron, wren, rook, sloth; the verdict",
        7: "the reviews of wren, rook, sloth; the verdict",
        len(facts): "the verdict",
    }
    for n, missing in cut.items():
        first, second = list(session_blocks(view_of(facts[:n])))[:2]
        assert missing in first.text
        assert "peerage ask --resume 5e55" in second.text


def test_answers_that_were_paid_for_are_shown_whole_without_a_quorum():
    facts = [*facts_of()[:2], Finished("no_quorum", 0.001)]
    text = blocks_markdown(ask_blocks(view_of(facts)))
    assert text.startswith("- No verdict: only 1 of 4 answered")
    assert "Line 8 of heron." in text


def test_the_whole_record_has_orders_marks_notes_failures_and_replies():
    view = view_of(facts_of(verdict=SYNTHESIS))
    text = blocks_markdown(session_blocks(view, raw=True))
    for part in (
        "Why is the sky blue?",
        "Review by wren",
        "sloth could not answer: no reply in 8 s (timeout)",
        '{"ranking": ["Response A", "Response B", "Response C"]',
    ):
        assert part in text
    for cells in (
        {"A", "heron", "1", "9.00", "Names the law."},
        {"B (own)", "wren", "3", "7.00"},
        {"heron", "2", "200", "40", "$0.0020"},
    ):
        assert any(cells <= set(row) for row in rows_of(text)), cells
    assert '{"ranking"' not in blocks_markdown(session_blocks(view))
    assert all(answer in text.replace("> ", "").replace(">", "") for answer in ANSWERS.values())


def test_the_json_of_a_session_has_every_remark_and_reply():
    events = [
        stored_event("5e55", i, 1.8e9, fact) for i, fact in enumerate(facts_of(verdict=SYNTHESIS))
    ]
    document = session_document(SessionView.of(events, scoring=ScoringOptions()))
    (wren,) = (one for one in document["reviews"] if one["reviewer"] == "wren")
    assert wren["raw"] == facts_of()[7].text
    assert [one["place"] for one in wren["remarks"]] == [1, 3, 2]
    assert [one["position"] for one in wren["remarks"]] == [0, 1, 2]
    assert document["missing"] == []
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_and_a_page_say_what_the_markdown_says(width):
    view = view_of(facts_of(verdict=SYNTHESIS))
    screen = WRAPPED.sub(" ", drawn(session_blocks(view), width))
    page = re.sub(r"<[^>]+>", " ", session_page(view))
    for said in ("It scatters.", "The sea is mirrored.", "Names the law.", "Line 8 of heron."):
        assert said in screen
        assert said in page
    for line in drawn(session_blocks(view), width).splitlines():
        assert len(line) <= width


def test_a_page_shows_the_tags_of_others_as_text():
    facts = facts_of(verdict=SYNTHESIS)
    bad = "<script>alert(1)</script> ![x](https://example.org/x.png) [y](javascript:z)"
    facts[0] = Opened(Query(bad), "7", 0, "", facts[0].seats, law=facts[0].law)
    facts[2] = Answered("wren", bad)
    page = session_page(view_of(facts), raw=True)
    assert "<script" not in page
    assert "<img" not in page
    assert "href" not in page
    assert "&lt;script&gt;" in page


def test_a_cut_in_a_block_of_code_closes_it():
    assert excerpt(f"See:\n\n{CODE}", 4) == "See:\n\n```python\nfor bird in birds:\n```"
    assert excerpt(f"See:\n\n{CODE}", 6) == f"See:\n\n{CODE}"
    assert len(excerpt("word " * 1000, 4)) < 700
