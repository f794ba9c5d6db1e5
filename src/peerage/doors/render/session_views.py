"""One session in words and tables: the answer first, then the reasons.

`ask_blocks` is what `peerage ask` prints at the end, and `session_blocks` is the complete record.
Terminals, pipes and pages draw these blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from peerage.doors.render.layout import (
    Block,
    Cell,
    Content,
    Heading,
    Interval,
    Line,
    Quote,
    Screen,
    TableColumn,
    TextTable,
    Verbatim,
    level,
)
from peerage.doors.render.phrases import (
    NOTHING,
    OWN_VOTES,
    correct_lines,
    figure,
    meaning,
    minute,
    money,
    seconds,
    session_flags,
)
from peerage.errors import how_many
from peerage.messages import describe_image, fold_messages

if TYPE_CHECKING:
    from peerage.bills import Bill
    from peerage.council.readings import Remark, ReviewView
    from peerage.findings import Audit
    from peerage.scoring import Scored
    from peerage.types import Failure, Response, ScoringOptions, Session
    from peerage.view import AnswerView, SessionView

MAX_FLAGS_SHOWN = 12
MAX_QUESTION = 200  # characters of a question in a line
DECISION_MODEL = "decision model"  # shown in place of reasons, which these models do not give
MAX_REASON = 160  # characters of a reviewer's reason in the grid
MAX_OWN = 160  # characters of a reviewer's own answer
AGREES = {True: "agrees", False: "contradicts", None: NOTHING}  # with the reviewer's own answer
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
        yield from _review(review, raw)
    for review in view.people:
        yield from _review(review, raw, "by a person; this review does not change the scores")
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
    yield from _grid(view)
    yield from _dissent(view)


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


def failure_line(failure: Failure) -> str:
    """Return a failure in one line."""
    why = f"{failure.message} ({failure.kind})" if failure.message else failure.kind
    return f"{failure.seat} could not {failure.stage}: {why}"


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
        *_took(answer.response),
        f"failed the safety gate ({gate.family})" if gate and not gate.passed else "",
    ]
    return " · ".join(filter(None, parts))


def _took(call: Response | ReviewView) -> list[str]:
    """Return the time and the cost of a reply, as far as they are known."""
    usd = call.usage.cost_usd if call.usage else None
    time = [] if call.latency_ms is None else [seconds(call.latency_ms / 1000)]
    return time if usd is None else [*time, money(usd)]


def show_scored(console: Screen, scored: Scored, quiet: bool = False) -> None:
    """Print a scored session: the question, the ranking, flags, and a summary of the audit."""
    if scored.session.query.text:
        console.print(one_line(scored.session.query.text, MAX_QUESTION), style="bold")
    console.show_table(ranking_table(scored))
    if not quiet:
        for line in _notes(scored):
            console.print(line, style="dim")
        console.print()


def one_line(text: str, n_characters: int) -> str:
    """Return a text in one line of at most `n_characters`, cut between words."""
    flat = " ".join(text[: 8 * n_characters].split())
    if len(flat) <= n_characters:
        return flat
    cut = flat[: n_characters - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut[n_characters // 2 :] else cut) + "…"


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


def n_voters(session: Session, options: ScoringOptions, model: str) -> int:
    """Return how many ballots could contain a vote for a model, given who was shown what."""
    dealt = {(ballot.reviewer, ballot.sheet): set(ballot.authors) for ballot in session.ballots}
    if options.own_votes != "in":
        dealt = {key: authors - {key[0]} for key, authors in dealt.items()}
    least = 1 if options.own_votes == "place_kept" else 2
    return sum(model in authors and len(authors) >= least for authors in dealt.values())


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


def has_own_answers(session: Session) -> bool:
    """Return whether a reviewer of the session also wrote one of its answers."""
    authors = {response.model for response in session.responses}
    authors |= {author for ballot in session.ballots for author in ballot.authors}
    return any(ballot.reviewer in authors for ballot in session.ballots)


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
        f"{answers}: too few to tell whether scores depend on length"
        if length.value is None
        else f"scores and length correlate {length.value:+.2f} over {answers}{few}"
    ]
    parts += [
        f"{words} marks were given by {', '.join(names)}"
        for words, kind in (("low", "harsh"), ("high", "generous"))
        if (names := audit.bias_audit[f"{kind}_reviewers"])
    ]
    return f"audit: {'; '.join(parts)}. `peerage audit` judges many sessions."


# -- reviews ---------------------------------------------------------------------------------------


def _grid(view: SessionView) -> Iterator[Block]:
    if not view.reviews:
        return
    has_reasons = any(review.reason is not None for review in view.last_reviews)
    yield Heading(f"Rankings by reviewer{', with reasons' if has_reasons else ''}")
    own_counts = view.scored is not None and view.scored.options.own_votes == "in"
    own = ""
    if any(review.own_answer is not None for review in view.reviews):  # committed reviews
        own = "; reviewers had their own answers on their pages and did not rank them"
    elif has_own_answers(view.session) and not own_counts:
        own = "; a place in parentheses is the reviewer's own answer, not counted"
    yield Line(f"1 is best{own}.", "dim")
    yield grid_table(view, own_counts)


def grid_table(view: SessionView, own_counts: bool) -> TextTable:
    """Return where each reviewer placed each candidate, with a one-line reason."""
    candidates = [score.model for score in (view.scored.scores if view.scored else ())]
    table = TextTable(
        TableColumn("reviewer", "name"),
        *(TableColumn(name, use=i, named=True) for i, name in enumerate(candidates)),
        TableColumn("why", "below"),
    )
    for review in view.last_reviews:
        remarks = review.remark_by_candidate
        cells = (_place(remarks.get(name), own_counts, len(candidates)) for name in candidates)
        table.add(review.reviewer, *cells, review_reason(review, view))
    return table


def _place(remark: Remark | None, own_counts: bool, n: int) -> Content:
    if remark is None or remark.place is None:
        return Cell(NOTHING, "dim")
    if remark.own and not own_counts:
        return Cell(f"({remark.place})", "dim", "own")
    style = "bold green" if remark.place == 1 else ""
    return Cell(str(remark.place), style, level(remark.place, n))


def review_reason(review: ReviewView, view: SessionView) -> str:
    """Return a reviewer's reason, or why it has no vote, in one line."""
    if review.failure is not None:
        return f"no review: {one_line(review.failure.message, MAX_REASON)} ({review.failure.kind})"
    if any(name == review.reviewer for name, _ in view.not_heard):
        return "not needed: the winner could no longer change"
    if not review.is_in:
        return "no review yet" if not view.is_finished else "no review"
    if review.abstained:
        return f"no vote: {one_line(meaning(review.abstained), MAX_REASON)}"
    if review.is_decision:
        return DECISION_MODEL
    reason = review.reason
    if reason is None:
        return ""
    about = "" if reason.note.startswith(reason.candidate) else f"{reason.candidate}: "
    return one_line(f"{about}{reason.note}", MAX_REASON)


def _dissent(view: SessionView) -> Iterator[Block]:
    """Yield dissenting quotes, on the ranking and on a yes-or-no verdict."""
    verdict = view.verdict
    minority = [vote for vote in view.decisions if verdict and vote.approved != verdict.approved]
    if not view.dissent and not minority:
        return
    yield Heading("Dissent")
    for vote in minority:
        side = "would approve" if vote.approved else "would reject"
        why = " ".join(vote.reasons) or "(no reason given)"
        yield Line(f"{vote.seat} {side}: “{why}”", "magenta")
    for dissent in view.dissent:
        if dissent.distance is not None:  # None: a vote on the verdict, shown above
            far = f"{dissent.distance:.0%} of pairs ordered the other way"
            yield Line(f"{dissent.reviewer} ({far}): “{dissent.quote}”", "magenta")


def _review(review: ReviewView, raw: bool, who: str = "") -> Iterator[Block]:
    """Yield one complete review: marks and notes in the order seen, flags, and the raw reply."""
    round_ = f", round {review.round + 1}" if review.round else ""
    replaced = "" if review.is_last else " (replaced by a later round)"
    order = "in the order it saw them" if review.is_order_known else "the order it saw is not known"
    yield Heading(f"Review by {review.reviewer}{round_}{replaced}, {order}", is_detail=True)
    if who:
        yield Line(who, "dim")
    if review.failure is not None:
        yield Line(failure_line(review.failure), "red")
    elif review.abstained:
        yield Line(f"no vote: {meaning(review.abstained)}", "yellow")
    if review.own_answer is not None:
        own = one_line(review.own_answer, MAX_OWN)
        yield Line(f"its own answer, written before it reviewed: “{own}”", "dim")
    yield marks_table(review)
    for flag in session_flags(("", flag) for flag in review.flags):
        yield Line(f"flag: {flag}", "dim")
    if took := _took(review):
        yield Line(" · ".join(took), "dim")
    if raw and review.raw:
        yield Verbatim(review.raw, f"{review.reviewer}, raw reply")


def marks_table(review: ReviewView) -> TextTable:
    """Return each answer's place, score, marks and note by one reviewer, in the order seen."""
    table = TextTable(
        TableColumn("as", "word"),
        TableColumn("model", "name"),
        TableColumn("place"),
        TableColumn("score"),
        *([TableColumn("own answer", "word")] if review.own_answer is not None else []),
        TableColumn("marks", "below"),
        TableColumn("note", "below"),
    )
    for remark in review.remarks:
        label = f"{remark.label} (own)" if remark.own else remark.label
        place, score = figure(remark.place), figure(remark.score)
        agrees = [AGREES[remark.agrees]] if review.own_answer is not None else []
        marks, note = _marks(remark), _note(remark)
        table.add(label, remark.candidate, place, score, *agrees, marks, note)
    return table


def _marks(remark: Remark) -> str:
    """Return the marks of an answer; those of a decision model with its confidence."""
    sure = remark.confidence or {}
    return " · ".join(
        f"{name} {round(mark, 2):g}" + (f" ({sure[name]:.2f} sure)" if name in sure else "")
        for name, mark in (remark.marks or {}).items()
    )


def _note(remark: Remark) -> str:
    if remark.confidence is None:
        return remark.note
    if remark.probability is None:
        return DECISION_MODEL
    return f"{DECISION_MODEL}: {remark.probability:.0%} likely to rank above another answer"


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
