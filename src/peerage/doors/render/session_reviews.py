"""Reviews of one session in words and tables: places, reasons, marks, and who dissented."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peerage.council.counting import has_own_answers
from peerage.doors.render.layout import (
    Block,
    Cell,
    Content,
    Heading,
    Line,
    TableColumn,
    TextTable,
    Verbatim,
    level,
)
from peerage.doors.render.phrases import (
    DECISION_MODEL,
    NOTHING,
    failure_line,
    figure,
    meaning,
    one_line,
    session_flags,
    time_and_cost,
)

if TYPE_CHECKING:
    from peerage.council.readings import Remark, ReviewView
    from peerage.view import SessionView

MAX_REASON = 160  # characters of a reviewer's reason in the grid
MAX_OWN = 160  # characters of a reviewer's own answer
AGREES = {True: "agrees", False: "contradicts", None: NOTHING}  # with the reviewer's own answer


def grid_blocks(view: SessionView) -> Iterator[Block]:
    """Yield the places that each reviewer gave, with reasons; nothing without reviews."""
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


def dissent_blocks(view: SessionView) -> Iterator[Block]:
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


def review_blocks(review: ReviewView, raw: bool, who: str = "") -> Iterator[Block]:
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
    if took := time_and_cost(review):
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
