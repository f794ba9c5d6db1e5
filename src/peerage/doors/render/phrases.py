"""Numbers, times and remarks in words, the same on terminals and pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from peerage.errors import few, how_many
from peerage.events import (
    Advised,
    Answered,
    Asked,
    AskedAgain,
    Committed,
    Dealt,
    Failed,
    Noted,
    Opened,
    Reviewed,
    StoppedEarly,
    Tallied,
    n_words,
    read_event,
)
from peerage.findings import Finding
from peerage.text import visible
from peerage.types import Event, Failure, Gate, Response

if TYPE_CHECKING:
    from peerage.boards import Board
    from peerage.council.readings import ReviewView
    from peerage.view import SessionView

NOTHING = "–"
DECISION_MODEL = "decision model"  # shown in place of reasons, which these models do not give
MICROSECONDS = re.compile(r"(\d\d:\d\d:\d\d)\.\d+")
LOPSIDED = 0.005  # if a value is further from the middle of its interval, both ends are shown
MAX_CHARACTERS = 200  # of a line of progress
N_NAMED = 3  # how many subjects of a repeated flag are named

OWN_VOTES = {
    "out": "own votes left out",
    "in": "own votes counted",
    "place_kept": "own votes dropped, keeping their place",
}

RULES = {  # what each built-in rule counts; a rule of a plug-in is shown by its name
    "borda": "the share of rivals beaten on a ballot, averaged",
    "mean_rank": "the mean place",
    "marks": "marks above the mean of the ballot, in spreads of the reviewer",
    "hybrid": "share of rivals beaten and marks, with equal weights",
    "bradley_terry": "the ratings that make the counted wins most likely",
    "elo": "ratings that move after every ballot",
    "copeland": "rivals beaten by a majority of the ballots",
    "schulze": "rivals beaten along the strongest chains of majorities",
}

# The meaning of each flag. A sentence puts a count before it and the subject after it. The first
# word for a flag of a board or import is a plural; its s is dropped after the count 1.
MEANINGS = {
    # flags of boards and imports
    "sessions_with_one_candidate": "sessions with a single candidate, which had no rival",
    "sessions_without_a_weight": "sessions left out, because they have no item weight",
    "constant_answers": "candidates with the same text for many questions",
    "copied_answers": "pairs of candidates with the same long text for many questions",
    "truncated_answers": "answers cut off at the length limit",
    "asked_again_reviews": "reviews requested again, because the first reply could not be counted",
    "unsealed_reviews": "reviews counted without the code of their ballot",
    "fingerprints_changed": "judges changed in this window, so their marks before and after may "
    "differ (the JSON lists what changed)",
    "reviews_of_two_kinds": "ballots of two kinds, blind and committed, which may differ in "
    "strictness (--review, or Reviews on the board's page, selects one)",
    "sessions_left_out": "sessions left out, because their data cannot be read",
    "sessions_of_several_categories": "sessions whose reviews have several categories",
    "not_in_every_session": "candidates not judged in every session, so they did not all meet the "
    "same rivals",
    "models_that_never_met": "groups of models that never met, not even through common rivals: "
    "ranks of different groups cannot be compared",
    "no_two_way_interval": "models without an interval over sessions and reviewers: it needs two "
    "queries, differing votes, and three reviewers whose votes on the model count (if own votes "
    "are left out, a panel that judges itself needs four)",
    "reviews_in_the_future": "reviews dated in the future; the window ends at the latest one",
    "scores_not_finite": "infinite scores, treated as missing",
    "reviewers_without_a_score": "reviewers without a score of their own, who get the panel's "
    "mean weight",
    "opinions_in_the_future": "opinions dated in the future; the window ends at the latest one",
    "times_in_several_zones": "time zones, all converted to UTC; a time without a zone counts as "
    "UTC",
    "dawid_skene_did_not_converge": "rounds of Dawid and Skene's model, which has not converged",
    "names_that_differed_by_spaces": "names that differed only in surrounding spaces, counted as "
    "one",
    "names_alike": "groups of names that look alike, counted as different",
    "names_reserved": "models with a reserved name, which stands for something else elsewhere",
    "opinions_given_twice": "identical opinions given more than once, counted once",
    # flags of ballots and sessions
    "abstained": "gave no vote",
    "asked_again": "was asked again, because its first reply could not be counted",
    "abstained_beside_a_vote": "both abstained and voted; the vote is not counted",
    "contested": "contradicted itself, or held more than the form",
    "cut_off": "was cut off before the end of its verdict",
    "empty": "sent an empty reply",
    "dimension_dropped": "gave a dimension a name that is too long or cannot be printed",
    "fences_struck": "copied fence lines of its prompt, which were removed",
    "evaluations_dropped": "gave evaluations that cannot be read",
    "label_missing": "did not judge every answer",
    "looks_like_a_refusal": "looks like a refusal, and was judged like any answer",
    "mark_dropped": "gave a mark that is not a number from 1 to 10",
    "mended": "replied in JSON with mistakes, which were repaired",
    "refused": "declined to judge",
    "no_code": "replied without its ballot's code",
    "no_decision": "did not say whether it approves",
    "no_labels": "judged no answer of its ballot",
    "no_marks": "gave no score from 1 to 10",
    "no_reply": "no reply came",
    "no_accuracy": "gave no mark for accuracy",
    "no_ballots": "no ballot counts",
    "no_rubric_score": "gave too few marks for a score",
    "no_text": "the text of the answer is not known",
    "no_votes": "has no votes",
    "not_on_a_ballot": "was on no ballot",
    "not_marked": "gave no marks, so its ballot does not count under the rule marks",
    "not_screened": "was not screened: its text is not known",
    "nothing_to_count": "ranked none of the answers on its ballot",
    "rank_dropped": "gave a rank that cannot be read",
    "rank_mark_mismatch": "ranked differently from its own marks",
    "rank_score_mismatch": "ranked differently from its own scores",
    "ranking_from_scores": "gave no ranking, so its scores were used as one",
    "ranking_too_long": "gave a ranking that is too long",
    "ranking_unclear": "gave a ranking that is not a list of labels, and was not read",
    "recovered": "replied in another form than requested, but could be read",
    "repeated_label": "named an answer twice",
    "score_dropped": "gave a score that is not a number from 1 to 10",
    "scores_dropped": "gave scores that cannot be read",
    "single_ballot": "only one ballot counts",
    "truncated": "was cut off at its length limit, and was judged without the rest",
    "too_many_dimensions": "marked too many dimensions",
    "unknown_label": "named an answer that was not on its ballot",
    "unreadable": "replied with its ballot's code, but in JSON that cannot be read",
    "unsealed": "replied without its ballot's code, but was counted",
    "unmarked": "left out a mark",
}


# -- numbers -----------------------------------------------------------------------------------


def figure(value: Any, digits: int = 2) -> str:
    """Return a number with `digits` decimals (none from 1000 on); an integer has none."""
    if value is None:
        return NOTHING
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.{digits}f}"


def probability(p: float | None) -> str:
    """Return a p- or q-value: `.031`, or `< .001`."""
    if p is None:
        return NOTHING
    return "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def signed_figure(
    value: float | None, low: float | None = None, high: float | None = None, digits: int = 3
) -> str:
    """Return a correlation or difference, with its interval if it has one."""
    if value is None:
        return "undefined"
    interval = "" if low is None else f" ({low:+.{digits}f} … {high:+.{digits}f})"
    return f"{value:+.{digits}f}{interval}"


def finding_value(finding: Finding) -> str:
    """Return a finding's value, with its interval if it has one."""
    if finding.value is None:
        return NOTHING
    if finding.low is None or finding.high is None:
        return f"{finding.value:.3g}"
    return f"{finding.value:.3g} [{finding.low:.3g}, {finding.high:.3g}]"


def finding_n(finding: Finding) -> str:
    """Return the number of observations of a finding, and the number it needs if that is more."""
    return f"{finding.n} of {finding.n_min}" if finding.n < finding.n_min else str(finding.n)


def ranks(row: Mapping[str, Any]) -> str:
    """Return a rank with the range it may lie in: `2 (1–3)`."""
    low, high = row["rank_low"], row["rank_high"]
    if low is None or row["rank"] is None:
        return figure(row["rank"])
    return f"{row['rank']} ({low}–{high})" if low != high else f"{row['rank']} ({low})"


def share(row: Mapping[str, Any], name: str = "share") -> str:
    """Return a share of rivals beaten: `0.713 ± 0.021`, or `1.000 (0.16–1.00)` if lopsided."""
    value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if value is None:
        return "no votes"
    if low is None:
        return f"{value:.3f}"
    if is_lopsided(value, low, high):
        return f"{value:.3f} ({low:.2f}–{high:.2f})"
    return f"{value:.3f} ± {(high - low) / 2:.3f}"


def is_lopsided(value: float, low: float, high: float) -> bool:
    """Return whether a value is so far from the middle of its interval that ± would mislead."""
    return abs((low + high) / 2 - value) > LOPSIDED


def minute(at: float) -> str:
    """Return a time to the minute, or – for an imported time that no calendar date fits."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return NOTHING


def seconds(s: float) -> str:
    """Return a duration: `4 ms`, `0.4 s`, `12 s`, `3 min 5 s`."""
    if s < 0.1:
        return f"{1000 * s:.0f} ms" if s >= 0.001 or s <= 0 else "< 1 ms"
    if s < 10:
        return f"{s:.1f} s"
    return f"{s:.0f} s" if s < 100 else f"{s // 60:.0f} min {s % 60:.0f} s"


def money(usd: float, n_unpriced: int = 0) -> str:
    """Return an amount: `$0.0123`, or `at least $0.0123 (1 call unpriced)`."""
    if not n_unpriced:
        return "< $0.0001" if 0.0 < usd < 0.0001 else f"${usd:.4f}"
    return f"at least ${usd:.4f} ({how_many(n_unpriced, 'call')} unpriced)"


def time_and_cost(call: Response | ReviewView) -> list[str]:
    """Return the time and the cost of a reply, as far as they are known."""
    usd = call.usage.cost_usd if call.usage else None
    time = [] if call.latency_ms is None else [seconds(call.latency_ms / 1000)]
    return time if usd is None else [*time, money(usd)]


def selection_words(chosen: Mapping[str, Any]) -> str:
    """Return which reviews were selected: `season z, sessions of ann and bob, without cyd`."""
    parts = []
    if chosen.get("category") is not None:
        parts.append(f"category {chosen['category']}")
    if chosen.get("season"):
        parts.append(f"season {chosen['season']}")
    if chosen.get("panel"):
        parts.append(f"sessions of {' and '.join(chosen['panel'])}")
    if chosen.get("without"):
        parts.append(f"without {' and '.join(chosen['without'])}")
    if chosen.get("weights"):
        parts.append(f"marks weighted {chosen['weights']}")
    return ", ".join(parts)


SPANS = {"h": "hours", "d": "days", "w": "weeks"}


def window_words(since: str) -> str:
    """Return a window in words: `the last 30 days`, `all time`."""
    if since == "all":
        return "all time"
    number, unit = since.strip()[:-1], SPANS[since.strip()[-1]]
    return f"the last {unit.removesuffix('s')}" if number == "1" else f"the last {number} {unit}"


class Window(NamedTuple):
    """The window of a board in words; a page shows its end in the reader's time zone."""

    span: str  # the last 30 days
    end: str  # a time in ISO 8601, or ""
    left_out: str  # 3 reviews left out


def window_of(board: Board) -> Window:
    """Return a board's window: its length, its end, and how many reviews it leaves out."""
    what = "review" if board.board == "models" else "opinion"
    n_left_out = how_many(board.n_left_out, what) if board.n_left_out else f"no {what}"
    as_of = board.parameters["as_of"]
    span = window_words(board.parameters["since"])
    if board.rows and not as_of:
        span = f"all {what}s, as none has a time"
    return Window(span, option_value(as_of) if as_of else "", f"{n_left_out} left out")


def board_window(board: Board) -> str:
    """Return a board's window and how many reviews it leaves out: `the last 30 days up to …`."""
    span, end, left_out = window_of(board)
    return f"{span} up to {end}; {left_out}" if end else f"{span}; {left_out}"


def option_value(value: Any) -> str:
    """Return the value of an option as text; a time is given without its microseconds."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(option_value, value))
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return MICROSECONDS.sub(r"\1", text)


# -- remarks -----------------------------------------------------------------------------------


def meaning(name: str) -> str:
    """Return the meaning of a flag."""
    return MEANINGS.get(name, name.replace("_", " "))


def one_line(text: str, n_characters: int) -> str:
    """Return a text in one line of at most `n_characters`, cut between words."""
    flat = " ".join(text[: 8 * n_characters].split())
    if len(flat) <= n_characters:
        return flat
    cut = flat[: n_characters - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut[n_characters // 2 :] else cut) + "…"


def failure_line(failure: Failure) -> str:
    """Return a failure in one line."""
    why = f"{failure.message} ({failure.kind})" if failure.message else failure.kind
    return f"{failure.seat} could not {failure.stage}: {why}"


def correct_lines(view: SessionView) -> Iterator[str]:
    """Yield the expected answer of the prompt, and which answers are correct."""
    if view.query.expected:
        yield f"Expected answer: {' or '.join(view.query.expected)}"
    right, wrong = ([name for name, value in view.correct.items() if value == x] for x in (1, 0))
    if right or wrong:
        source = "by people's decision" if view.decision else "by the prompt"
        rest = f"; not correct: {', '.join(wrong)}" if wrong else ""
        yield f"Correct, {source}: {', '.join(right) or 'none'}{rest}."


def flag_text(flag: str) -> str:
    """Return a flag of a board (`name:count`, with or without examples) in words."""
    name, _, rest = flag.partition(":")
    if " " in name:  # a sentence already
        return flag
    n, _, examples = rest.partition(": ")
    words = meaning(name)
    noun, _, about = words.partition(" ")
    words = f"{noun.removesuffix('s')} {about}" if n == "1" else words
    return f"{n} {words}".strip() + (f": {examples}" if examples else "")


def flag_line(flag: str) -> str:
    """Return a flag of a board as a separate line."""
    return f"  flag  {flag_text(flag)}"


def session_flags(flags: Iterable[tuple[str, str]]) -> list[str]:
    """Return the flags of a session in words, each with the reviewer it is about, if any.

    A repeated flag of one reviewer is given once, with its count.
    """
    subjects: dict[tuple[str, str], Counter[str]] = {}
    for who, flag in flags:
        name, _, about = flag.partition(":")
        subjects.setdefault((who, name), Counter())[about] += 1
    return [_repeat_words(who, name, about) for (who, name), about in subjects.items()]


def _repeat_words(who: str, name: str, about: Counter[str]) -> str:
    text = f"{who}: {meaning(name)}" if who else meaning(name)
    n = about.total()
    text += f", {n} times" if n > 1 and who else ""
    subjects = [MEANINGS.get(subject, subject) for subject in about if subject]
    return text + (f" ({few(subjects, N_NAMED)})" if subjects else "")


def agreement(comparison: Mapping[str, Any]) -> str:
    """Return a board's agreement with an outside ranking, in a sentence."""
    tau = signed_figure(*(comparison[f"kendall_{end}"] for end in ("tau", "low", "high")))
    rho = signed_figure(*(comparison[f"spearman{end}"] for end in ("", "_low", "_high")))
    return (
        f"compared with the outside ranking, {comparison['n']} in common "
        f"({comparison['only_here']} only here, {comparison['only_there']} only there): "
        f"Kendall τ {tau}, Spearman {rho}"
    )


def tuning(search: Mapping[str, Any]) -> str:
    """Return the coefficients that agree best with an outside ranking, in a sentence."""
    settings = ", ".join(f"{name} {value}" for name, value in search["settings"].items())
    return (
        f"of {search['tried']} settings tried, {settings} agrees best with the outside ranking: τ "
        f"{signed_figure(search['kendall_tau'])} (now {signed_figure(search['before'])}). The "
        f"figure to trust is the cross-validated τ, {signed_figure(search['cross_validated'])}."
    )


OWN_VOTES_SENTENCES = {
    "out": "A reviewer's vote on its own answer is left out.",
    "in": "A reviewer's vote on its own answer is counted.",
    "place_kept": "A reviewer's vote on its own answer is left out; the others keep their places.",
}
COUNTED_FROM = {  # counts of opinions, and why some are left out
    "opinions": "{:,} opinions",
    "opinions_left_out": "{:,} outside the window",
    "own_left_out": "{:,} on own items",
    "superseded_left_out": "{:,} that the same person gave again later",
}
SAID_ELSEWHERE = {"ranked_by", "coverage", "since", "as_of", "own_votes", "level", *COUNTED_FROM}
AS_USUAL = {"interval": "sessions", "reputation": "fixed"}  # defaults that need not be mentioned


def board_options(board: Board) -> str:
    """Return how a board was counted, in sentences, without its window."""
    notes, options = board.notes, board.parameters
    sentences = []
    if {"sessions", "reviews"} <= notes.keys():  # an empty board has neither
        rule = notes.get("rule") or "borda"
        by = rule.replace("_", " ") + (f" ({RULES[rule]})" if rule in RULES else "")
        sessions, reviews = notes["sessions"], notes["reviews"]
        sentences.append(
            f"Counted from {how_many(sessions, 'session')} with {how_many(reviews, 'review')}, "
            f"by the rule {by}."
        )
    if "opinions" in options:
        total, *rest = (words.format(options.get(name, 0)) for name, words in COUNTED_FROM.items())
        left_out = ", ".join(words for words in rest if not words.startswith("0 "))
        sentences.append(f"Counted from {total}{left_out and f'; left out: {left_out}'}.")
    if options.get("own_votes") in OWN_VOTES_SENTENCES:
        sentences.append(OWN_VOTES_SENTENCES[options["own_votes"]])
    others = [
        name.replace("_", " ") + ("" if value is True else f" {option_value(value)}")
        for name, value in options.items()
        if value not in (None, False) and name not in SAID_ELSEWHERE and AS_USUAL.get(name) != value
    ]
    return " ".join([*sentences, *([f"Options: {', '.join(others)}."] if others else [])])


def ranking_line(board: Board) -> str:
    """Return what a reader must know about a board's values and intervals, or else ""."""
    options, lines = board.parameters, list[str]()
    if options.get("ranked_by") == "share_common":
        lines.append(
            "Ranked by the share on common rivals: not all models met the same rivals (coverage "
            f"{100 * options['coverage']:.0f}%, below 90%), so each share is estimated as "
            "if all models had met equally often. The plain share is shown next to it."
        )
    if n := options.get("comparisons_without_query"):
        lines.append(
            f"{how_many(n, 'comparison does', 'comparisons do')} not name a query: the intervals "
            "take each as independent of all others."
        )
    return " ".join(lines)


def tie_rule(board: str) -> str:
    """Return how a board orders ties, in words."""
    if board == "models":
        return (
            "If two values are equal, the model with more wins (first places) ranks higher; models "
            "equal in both share a rank and are listed by name. A model without a value, or with "
            "too few sessions, has no rank."
        )
    if board == "items":
        return "Items of equal quality are listed by their id."
    return "Equal values share a rank and are listed by name."


NOT_FIRST = "cannot be first"


def rank_groups(
    rows: Iterable[Mapping[str, Any]],
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return the rows of a board in groups with their labels.

    The models that may be first come first, without a label; then those that cannot be first; then
    those whose ranks are not known, with the reason.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {"": [], NOT_FIRST: []}
    for row in rows:
        groups.setdefault(rank_label(row), []).append(row)
    return [(label, group) for label, group in groups.items() if group]


def rank_label(row: Mapping[str, Any]) -> str:
    """Return that a model cannot be first, or why its ranks are not known, or an empty text."""
    if "rank_low" not in row:
        return ""
    if row["rank_low"] is not None:
        return NOT_FIRST if row["rank_low"] > 1 else ""
    if row["share"] is None:
        return "no votes"
    if row.get("provisional"):
        return "provisional: too few sessions for a rank"
    by_rule = row.get("value") is not None and row.get("share_low") is not None
    return "" if by_rule else "too few sessions to say which ranks are possible"


# -- a running session, for logs, chat clients and agents -----------------------------------------


def progress_line(
    view: SessionView, event: Event, max_characters: int | None = MAX_CHARACTERS
) -> str | None:
    """Return an event as a line of progress; None for unimportant events.

    Counts are those at the time of the event, even if the view is ahead.
    """
    text = _progress(view, event)
    if text is None:
        return None
    text = visible(text)
    if max_characters is None or len(text) <= max_characters:
        return text
    return text[: max_characters - 1] + "…"


def _progress(view: SessionView, event: Event) -> str | None:
    match read_event(event):
        case Opened() as fact:
            role = "review" if fact.query.questions else "answer"
            names = [seat.name for seat in fact.seats if role in seat.roles]
            return f"asking {', '.join(names)}" if names else None
        case Advised() as fact if view.query.questions:
            n_seats = sum("review" in seat.roles for seat in view.seats)
            return f"{fact.seat} voted ({view.n_so_far(Advised, event.seq)} of {n_seats})"
        case Answered() as fact:
            n_seats = sum("answer" in seat.roles for seat in view.seats)
            so_far = f" ({view.n_so_far(Answered, event.seq)} of {n_seats})" if n_seats else ""
            return f"{fact.seat} answered in {how_many(n_words(fact), 'word')}{so_far}"
        case Committed() as fact:
            return f"{fact.seat} gave its own short answer first"
        case Noted() as fact:
            return fact.text
        case Failed(kind="skipped", message=""):
            return None  # the reason was reported before
        case Failed() as fact:
            return f"{fact.seat} failed to {fact.stage}: {fact.kind}, {fact.message}"
        case Gate() as fact if not fact.passed:
            return f"{fact.model}'s answer did not pass the safety gate"
        case Dealt() as fact:
            verb = ("reviewer has its ballot", "reviewers have their ballots")
            return how_many(len(fact.ballots), *verb)
        case AskedAgain() as fact:
            return f"{fact.seat} is asked again, since its reply did not count: {meaning(fact.why)}"
        case Reviewed() as fact:
            dealt_at, dealt = view.dealt_before(event.seq)
            n_answers = max(
                (len(one.order) for one in dealt.ballots if one.reviewer == fact.reviewer),
                default=0,
            )
            so_far = f"{view.n_so_far(Reviewed, event.seq, dealt_at)} of {len(dealt.ballots)}"
            return f"{fact.reviewer} reviewed {how_many(n_answers, 'answer')} ({so_far})"
        case StoppedEarly() as fact:
            return f"the winner can no longer change; no reply from {', '.join(fact.not_heard)}"
        case Tallied() as fact if any(score.votes for score in fact.scores):
            best = [score.model for score in fact.scores if score.rank == 1]
            return f"ranked first: {', '.join(best)}"
        case Asked(stage="conclude", again=False) as fact if not view.query.questions:
            return f"{fact.seat} is asked for the verdict"
        case _:
            return None
