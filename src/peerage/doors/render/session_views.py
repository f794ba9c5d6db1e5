"""One session in words and tables: the answer first, then the reasons.

`ask_blocks` is what `peerage ask` prints at the end, and `session_blocks` is the complete record.
Terminals, pipes and pages draw these blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from peerage.council.counting import has_own_answers
from peerage.doors.render.layout import (
    Block,
    Cell,
    Heading,
    Interval,
    Line,
    Quote,
    Screen,
    TableColumn,
    TextTable,
    Verbatim,
)
from peerage.doors.render.phrases import (
    DECISION_MODEL,
    NOTHING,
    OWN_VOTES,
    correct_lines,
    failure_line,
    figure,
    minute,
    money,
    one_line,
    session_flags,
    time_and_cost,
)
from peerage.doors.render.session_reviews import dissent_blocks, grid_blocks, review_blocks
from peerage.errors import how_many
from peerage.messages import describe_image, fold_messages

if TYPE_CHECKING:
    from peerage.bills import Bill
    from peerage.findings import Audit
    from peerage.scoring import Scored
    from peerage.view import AnswerView, SessionView

MAX_FLAGS_SHOWN = 12
MAX_QUESTION = 200  # characters of a question in a line
LINES_OF_ANSWER = 4
KINDS = {  # the titles of verdicts
    "debate": "where the answers agree and disagree",
    "top_answer": "best answer",
    "tie_breaker": "best answer",
}
ENDED_EARLY = {
    "out_of_budget": "the budget was used up first",
    "cancelled": "the session was cancelled",
}
TASKS = {
    "answer": "the answer",
    "commit": "the short answer",
    "review": "the review",
    "conclude": "the verdict",
}
MAX_STEP = 60  # characters of a tool call or result in its line
WHOLE_IN_VERDICT = ("synthesis",)  # verdicts next to which the winner's answer may be shortened


# -- a question's end, and the whole record -------------------------------------------------------


def ask_blocks(view: SessionView, full: bool = False) -> Iterator[Block]:
    """Yield the result of a question: verdict, ranking, answers, reviews, cost."""
    yield from (Line(line, "yellow") for line in why_no_verdict(view))
    yield from (Line(line, "yellow") for line in image_lines(view))
    yield from _result(view, None if full else LINES_OF_ANSWER)
    yield Heading("Cost")
    yield Line(f"session {view.id} · {bill_line(view.bill)}", "dim")


def session_blocks(view: SessionView, raw: bool = False) -> Iterator[Block]:
    """Yield a complete session: question, answers, reviews, failures, and cost by seat."""
    if view.deleted:
        yield Line(
            f"Deleted: boards, audits and lists leave it out. {undo_line(view.id)}", "yellow"
        )
    yield from (Line(line, "yellow") for line in why_no_verdict(view))
    opened = [f"session {view.id}", minute(view.opened_at), view.query.category]
    opened += [f"tags {', '.join(view.tags)}"] if view.tags else []
    yield Quote(view.query.text, "Question", " · ".join(filter(None, opened)))
    yield from (Line(line) for line in (*image_lines(view), *correct_lines(view)))
    yield from _result(view, None)
    for review in view.reviews:
        yield from review_blocks(review, raw)
    for review in view.people:
        yield from review_blocks(review, raw, "by a person; this review does not change the scores")
    worked = [one.response for one in view.answers if raw and one.response.messages]
    if worked:
        yield Heading("Answers step by step")
        yield from (Verbatim(response.text, response.model) for response in worked)
    thoughts = [one.response for one in view.answers if raw and one.response.reasoning]
    if thoughts:
        yield Heading("Reasoning before the answer")
        yield from (Verbatim(response.reasoning, response.model) for response in thoughts)
    if raw and view.advice:
        yield Heading("Replies for the verdict")
        yield from (Verbatim(reply.raw, f"{reply.seat}, raw reply") for reply in view.advice)
    if view.failures:
        yield Heading("Failures")
        yield from (Line(failure_line(failure), "red") for failure in view.failures)
    yield Heading("Cost")
    yield bills_table(view)
    yield Line(f"session {view.id} · {bill_line(view.bill)}", "dim")


def _result(view: SessionView, n_lines: int | None) -> Iterator[Block]:
    """Yield the result and its reasons; answers are cut to `n_lines` lines, or complete if None."""
    yield from _conclusion(view)
    if view.query.questions:
        yield Heading("Votes")
        yield votes_table(view)
        yield Line("A vote is the probability of each option, in the order of the question.", "dim")
        if names := view.decision_seats:
            models = f"{DECISION_MODEL}{'s' * (len(names) > 1)}"
            yield Line(f"{models}, without reasons: {', '.join(names)}", "dim")
        if names := view.abstained_seats:
            yield Line(f"replied, but voted on no question: {', '.join(names)}", "yellow")
    if view.scored is not None:
        yield Heading("Ranking")
        yield ranking_table(view.scored)
        yield from (Line(line, "dim") for line in _notes(view.scored))
    yield from _answers(view, n_lines)
    yield from grid_blocks(view)
    yield from dissent_blocks(view)


def why_no_verdict(view: SessionView) -> list[str]:
    """Return why there is no verdict: not finished, or ended early; empty if there is one."""
    if view.is_finished:
        why, rest = why_ended(view), "; the session up to that point follows"
        return [f"No verdict: {why}{'' if view.status == 'no_quorum' else rest}."] if why else []
    waits = [
        f"{TASKS[task.stage]}{'s' if len(task.seats) > 1 else ''}"
        + (f" of {', '.join(task.seats)}" if task.seats else "")
        for task in view.missing
    ]
    missing = f"; missing: {'; '.join(waits)}" if waits else ""
    return [f"This session is not finished{missing}.", resume_line(view.id, view.season)]


def image_lines(view: SessionView) -> list[str]:
    """Return which images came with the question, and the seats that could not see them."""
    images = view.query.all_images
    if not images:
        return []
    lines = [f"{how_many(len(images), 'image')}: {'; '.join(map(describe_image, images))}"]
    if names := view.images_not_seen_by:
        lines.append(f"not seen by {', '.join(names)}: told about the images, but not sent them")
    return lines


def why_ended(view: SessionView) -> str:
    """Return why a session ended before its verdict, or "" if it did not end early."""
    if view.status == "no_quorum" and view.query.questions:
        return "no seat voted"
    if view.status == "no_quorum":
        n, of = len(view.responses), len(view.seats)
        return f"only {n} of {of} answered, too few to review each other"
    return ENDED_EARLY.get(view.status, "")


def undo_line(session_id: str) -> str:
    """Return the command that restores a deleted session."""
    return f"To restore it: peerage delete {session_id} --undo"


def resume_line(session_id: str, season: str = "", options: str = "") -> str:
    """Return the command that resumes a session, with the options that find it."""
    if season:
        return f"It belongs to a season. To continue: peerage run PROMPTS --season {season}"
    return f"To continue: peerage ask --resume {session_id}{options}"


# -- verdict, ranking, answers ---------------------------------------------------------------------


def _conclusion(view: SessionView) -> Iterator[Block]:
    verdict = view.verdict
    if verdict is None:
        if view.is_finished and view.best:
            first, *others = (one.response.model for one in view.best)
            tied = f", tied with {', '.join(others)}" if others else ""
            yield Quote(view.best[0].response.final, f"best answer: {first}{tied}", is_main=True)
        return
    title = KINDS.get(verdict.kind, verdict.kind.replace("_", " "))
    text = verdict.text or verdict.note
    title = verdict.decision or title
    if verdict.decision or view.query.questions:
        text = "\n".join(f"- {reason}" for reason in text.splitlines())
    title += f" by {verdict.by}" if verdict.by else ""
    yield Quote(text, title, is_main=True)
    if verdict.note and verdict.text:
        yield Line(f"note: {verdict.note}", "yellow")


def chance_text(chance: float) -> str:
    """Return the probability of an option; a whole vote is 0 or 1."""
    return f"{chance:.2f}" if 0 < chance < 1 else f"{chance:.0f}"


def votes_table(view: SessionView) -> TextTable:
    """Return the panel's answer to each typed question, and the seats' votes."""
    from peerage.providers.typed_answers import likeliest

    table = TextTable(
        TableColumn("question", "name"),
        TableColumn("answer", "word"),
        TableColumn("probability"),
        TableColumn("worth", use=1),
        TableColumn("votes", "below"),
    )
    answers = {one.name: one for one in (view.verdict.answers if view.verdict else ())}
    for question in view.query.questions:
        answer, cast = answers.get(question.name), view.typed_votes[question.name]
        votes = " · ".join(
            f"{seat} {'/'.join(map(chance_text, vote))}" for seat, vote in cast.items()
        )
        if answer is None:
            table.add(question.name, NOTHING, NOTHING, NOTHING, votes)
            continue
        chances = answer.probabilities
        values = [one.value for one in question.options] or ["true", "false"]
        at = likeliest(chances)
        worth = f"{answer.effective_votes:.1f} of {len(answer.votes)}"
        table.add(question.name, values[at], f"{chances[at]:.2f}", worth, votes)
    return table


def _answers(view: SessionView, n_lines: int | None) -> Iterator[Block]:
    """Yield every answer, complete or cut to `n_lines` lines.

    The winner's answer is complete, unless the verdict is a synthesis of the answers.
    """
    if not view.answers:
        return
    yield Heading("Answers")
    kind = view.verdict.kind if view.verdict else ""
    text_above = view.verdict.text if view.verdict else view.conclusion
    for answer in view.answers:
        rank = f"{answer.score.rank}. " if answer.score and answer.score.rank else ""
        title, aside = f"{rank}{answer.response.model}", _answer_aside(answer)
        if messages := answer.response.messages:
            yield Quote(fold_messages(messages, MAX_STEP), title, aside, messages=messages)
            continue
        if text_above and answer.response.text == text_above:
            yield Quote("(the text above)", title, aside)
            continue
        whole = not view.best or (answer in view.best[:1] and kind not in WHOLE_IN_VERDICT)
        yield Quote(answer.response.text, title, aside, n_lines=None if whole else n_lines)


def _answer_aside(answer: AnswerView) -> str:
    """Return an answer's length, time, cost and problems."""
    gate = answer.gate
    n_calls = sum(len(one.tool_calls) for one in answer.response.messages)
    parts = [
        how_many(answer.response.words, "word"),
        how_many(n_calls, "tool call") if n_calls else "",
        "given with the question" if answer.given else "",
        "cut off at its token limit" if answer.response.truncated else "",
        "looks like a refusal" if answer.looks_like_a_refusal else "",
        *time_and_cost(answer.response),
        f"failed the safety gate ({gate.family})" if gate and not gate.passed else "",
    ]
    return " · ".join(filter(None, parts))


def show_scored(console: Screen, scored: Scored, quiet: bool = False) -> None:
    """Print a scored session: the question, the ranking, flags, and a summary of the audit."""
    if scored.session.query.text:
        console.print(one_line(scored.session.query.text, MAX_QUESTION), style="bold")
    console.show_table(ranking_table(scored))
    if not quiet:
        for line in _notes(scored):
            console.print(line, style="dim")
        console.print()


def ranking_table(scored: Scored) -> TextTable:
    """Return a session's candidates, best first."""
    rule, scores = scored.options.rule, scored.session.scores
    gated = not all(row.passed for row in scores)
    table = TextTable(
        TableColumn("rank"),
        TableColumn("model", "name"),
        *([TableColumn("gate", "word")] if gated else []),
        TableColumn(
            "rivals beaten",
            meaning="Share of the other answers on a ballot that are ranked below it, averaged.",
        ),
        TableColumn("0 to 1", "drawing", use=4),
        *([] if rule == "borda" else [TableColumn(rule, page_head=rule.replace("_", " "))]),
        TableColumn("borda", use=3, meaning="The same as a number of rivals."),
        TableColumn("wins", use=5, meaning="Ballots with it alone in first place."),
        TableColumn("votes", use=1, meaning="Ballots that rank it."),
        TableColumn("score", use=2, page_head="mark", meaning="Mean mark, from 1 to 10."),
    )
    for row in scores:
        table.add(
            figure(row.rank),
            row.model,
            *([Cell("" if row.passed else "failed", "red")] if gated else []),
            f"{row.share:.2f}" if row.votes else Cell("no votes", "dim"),
            Interval(row.share, row.low, row.high) if row.votes else None,
            *([] if rule == "borda" else [figure(row.value if row.votes else None, 3)]),
            figure(row.borda),
            str(row.wins),
            f"{row.votes} of {row.possible}",
            figure(row.mean_score),
        )
    return table


def _notes(scored: Scored) -> list[str]:
    n, options = len(scored.counted), scored.options
    own = f", {OWN_VOTES[options.own_votes]}" if has_own_answers(scored.session) else ""
    lines = [f"{scored.n_counted} of {how_many(n, 'ballot')} counted, rule {options.rule}{own}."]
    lines += [*_without_a_vote(scored), *_ties(scored), *_describe_ceilings(scored)]
    reviewer_flags = [(ballot.reviewer, flag) for ballot in scored.counted for flag in ballot.flags]
    flags = session_flags([*reviewer_flags, *(("", flag) for flag in scored.session.flags)])
    lines += [f"flag: {flag}" for flag in flags[:MAX_FLAGS_SHOWN]]
    if len(flags) > MAX_FLAGS_SHOWN:
        more = how_many(len(flags) - MAX_FLAGS_SHOWN, "more flag")
        lines.append(f"… and {more} (--json has them all)")
    failed = [gate for gate in scored.session.gates if not gate.passed]
    lines += [f"gate: {gate.model}: {gate.family} ({gate.excerpt!r})" for gate in failed]
    return lines if scored.audit is None else [*lines, _audit_line(scored.audit)]


def _without_a_vote(scored: Scored) -> list[str]:
    """Return the reviewers without a vote: fewer than two answers of others to rank."""
    if scored.options.own_votes != "out":
        return []
    alone = dict.fromkeys(
        ballot.reviewer
        for ballot in scored.counted
        if not ballot.abstained and len(set(ballot.shown) - {ballot.reviewer}) < 2
    )
    why = "a vote needs two answers to compare that the reviewer did not write"
    return [f"No vote by {', '.join(alone)}: {why}."] if alone else []


def _ties(scored: Scored) -> list[str]:
    """Return sentences about candidates that are equal, and about those without a value."""
    rows = [row for row in scored.scores if row.votes and row.value is not None]
    lines = [
        f"{a.model} and {b.model} are equal; {a.model} has more first places."
        for a, b in pairwise(rows)
        if (a.passed, a.value) == (b.passed, b.value) and a.rank != b.rank
    ]
    for rank, group in groupby(rows, key=lambda row: row.rank):
        tied = [row.model for row in group]
        if tied[1:]:
            why = "equal in value and in first places; listed by name"
            lines.append(f"{', '.join(tied)} share rank {rank}: {why}.")
    unranked = [row.model for row in scored.scores if row.rank is None]
    if unranked:
        why = f"{scored.options.rule} has no value for them"
        lines.append(f"Not ranked: {', '.join(unranked)}; {why}.")
    return lines


def _describe_ceilings(scored: Scored) -> list[str]:
    """Return how many scores the ceilings of the rubric lowered, and which ceilings it has."""
    n_lowered, n = scored.n_lowered
    if not n_lowered or scored.options.rubric is None:
        return []
    ceilings = ", ".join(
        f"under {float(below):g} at most {float(cap):g}"
        for below, cap in scored.options.rubric.ceilings
    )
    of_all = "all" if n_lowered == n else f"{n_lowered} of"
    return [f"Low accuracy lowered {of_all} {how_many(n, 'score')} (accuracy {ceilings})."]


def _audit_line(audit: Audit) -> str:
    """Return one session's audit in a line, and how much data a finding would need."""
    length = next(one for one in audit.findings if one.metric == "length")
    answers = how_many(length.n, "answer")
    few = f" ({length.n_min} are needed)" if length.n < length.n_min else ""
    parts = [
        f"{answers}: too few to tell whether scores depend on length{few}"
        if length.value is None or few
        else f"scores and length correlate {length.value:+.2f} over {answers}"
    ]
    parts += [
        f"{words} marks were given by {', '.join(names)}"
        for words, kind in (("low", "harsh"), ("high", "generous"))
        if (names := audit.bias_audit[f"{kind}_reviewers"])
    ]
    return f"audit: {'; '.join(parts)}. `peerage audit` judges many sessions."


# -- the bill --------------------------------------------------------------------------------------


def bill_line(bill: Bill) -> str:
    """Return the number of calls, the tokens and the cost of a session, in one line."""
    tokens = [
        f"{n:,} {way}"
        for n, way in ((bill.tokens_in, "in"), (bill.tokens_out, "out"))
        if n is not None
    ]
    parts = [how_many(bill.n_calls, "call")]
    parts += [f"tokens {', '.join(tokens)}"] if tokens else []
    return " · ".join([*parts, f"cost {money(bill.usd, bill.n_unpriced)}"])


def bills_table(view: SessionView) -> TextTable:
    """Return the number of calls, the tokens and the cost of each seat."""
    table = TextTable(
        TableColumn("seat", "name"),
        TableColumn("calls", use=1),
        TableColumn("tokens in", use=2),
        TableColumn("tokens out", use=3),
        TableColumn("cost"),
    )
    for seat, bill in view.bills_by("seat").items():
        tokens = (NOTHING if n is None else f"{n:,}" for n in (bill.tokens_in, bill.tokens_out))
        table.add(seat, str(bill.n_calls), *tokens, money(bill.usd, bill.n_unpriced))
    return table
