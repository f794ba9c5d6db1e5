"""The result of a gate in words, with its chart, for terminals, comments and pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from peerage.boards.differences import CORRECT, SCORE, SHARE
from peerage.boards.regressions import GUARD_ALPHA, MIN_JUDGES
from peerage.doors.render.layout import Block, Cell, Heading, Line, TableColumn, TextTable, Verbatim
from peerage.doors.render.phrases import flag_text, signed_figure
from peerage.errors import few, how_many
from peerage.reports.gate_results import GateResult, GateResults, MeasureResult, TellingQuery
from peerage.reports.requirements import CheckResult
from peerage.stats.bets import Look

N_LINES = 12  # lines of a chart
WIDTH = 41  # characters of a chart's line, an odd number so that zero has a place
MEASURES = {
    SHARE: "share of rivals beaten",
    SCORE: "mean mark, as a fraction of the scale",
    CORRECT: "share of correct answers",
}
CHECK_STYLES = {"holds": "green", "fails": "bold red", "undecided": "dim"}
N_SESSIONS = 3  # sessions that are named for each query
N_REGRESSIONS = 10  # rows of the table; the JSON has all


def verdict_sentence(result: GateResult) -> str:
    """Return the verdict in a sentence, with the guard's objection if it has one."""
    base, candidate, margin = result.base, result.candidate, result.bar["margin"]
    sentences = {
        "better": f"{candidate} is better than {base}.",
        "worse": f"{candidate} is worse than {base}.",
        "same": f"{candidate} is the same as {base} within ±{margin:g}.",
        "not_worse": f"{candidate} is less than {margin:g} worse than {base}, if worse at all; "
        "whether it is better is still undecided.",
        "undecided": f"Undecided: the reviews so far do not show whether {candidate} is worse than "
        f"{base}.",
    }
    sentence = sentences[result.decision.verdict]
    if not result.guard.blocks or result.decision.verdict == "worse":
        return sentence
    return f"{sentence.removesuffix('.')}, but the guard blocks it: {_objection(result)}."


def verdict_sentences(result: GateResult | GateResults) -> list[str]:
    """Return the verdict on each candidate in a sentence, the worst first."""
    some = (result,) if isinstance(result, GateResult) else result.worst_first
    return [verdict_sentence(one) for one in some]


def _objection(result: GateResult) -> str:
    """Return why the guard blocks the candidate."""
    guard = result.guard
    if guard.has_more_regressions:
        n_worse, n_better = len(guard.regressions), len(guard.improvements)
        worse = how_many(n_worse, "clear regression")
        return f"{worse} against {how_many(n_better, 'clear improvement')}"
    n = len(guard.repeated_regressions)
    return f"the repeats of {how_many(n, 'query', 'queries')} show a clear regression"


def reasons(result: GateResult) -> Iterator[str]:
    """Yield the reasons for the verdict, one sentence each: first the size, then the verdict."""
    for one in result.measures:
        yield size_sentence(result, one)
    if result.decision.after is not None:
        yield decided_sentence(result)
    if result.decision.verdict == "worse":
        yield from loss_sentences(result)
    if result.needed is not None:
        more = how_many(result.needed, "more query", "more queries")
        yield f"About {more} like these would give a verdict."
    if result.bar["suite"] is not None:
        yield f"The verdict is only for this suite of {result.bar['suite']:,} queries."
    yield from guard_sentences(result)
    yield f"Order of queries: {result.order}. Bar: {result.bar_hash[:19]}."
    if result.registered:
        is_same = result.registered == result.bar_hash
        yield (
            "This is the bar that the season was started with."
            if is_same
            else f"The season was started with another bar: {result.registered[:19]}."
        )
    yield from (f"Note: {flag_text(flag)}." for flag in result.flags)


def size_sentence(result: GateResult, one: MeasureResult) -> str:
    """Return how large the difference on a measure is, with its interval."""
    what = MEASURES.get(one.measure, f"{one.measure}, as a fraction of the scale")
    together = "" if result.n_candidates == 1 else f" for all {result.n_candidates} candidates"
    queries = how_many(result.n_queries, "query", "queries")
    return (
        f"Difference in {what}: {signed_figure(one.difference, one.low, one.high, 3)}, "
        f"{100 * (1 - result.bar['alpha']):g}% interval{together}, valid however often you look; "
        f"{queries} in {how_many(result.n_sessions, 'session')}."
    )


def decided_sentence(result: GateResult) -> str:
    """Return when the verdict was reached, and that later queries do not change it."""
    n, after = result.n_queries, result.decision.after or 0
    queries = how_many(n, "query", "queries")
    final = "" if after == n else " Later queries make the size more exact; they do not reopen it."
    return f"The verdict was reached after {after:,} of {queries}.{final}"


def loss_sentences(result: GateResult) -> Iterator[str]:
    """Yield what *worse* says and does not say: that there is a loss, its size, and the margin."""
    margin = result.bar["margin"]
    for one in result.measures:
        if one.decision.verdict != "worse":
            continue
        measure = f" on {one.measure}" if len(result.measures) > 1 else ""
        if one.high < -margin:
            size = f"it is larger than the margin of {margin:g}"
        elif one.low > -margin:
            size = f"it is smaller than the margin of {margin:g}"
        else:
            size = f"whether it is larger than the margin of {margin:g} is not known"
        yield f"That there is a loss{measure} was shown; {size}."
        if one.high >= 0.0:
            yield (
                f"The interval of all queries{measure} reaches {one.high:+.3f}: the queries after "
                "the verdict favoured the candidate more. A loss was shown all the same: equal "
                f"models reach that verdict at any look in at most "
                f"{100 * result.bar['alpha']:g}% of gates."
            )


def guard_sentences(result: GateResult) -> Iterator[str]:
    """Yield what was found on single queries, and if the guard is on, what follows from it."""
    guard = result.guard
    if not guard.n_checked and not guard.most_repeats:
        if guard.is_on:
            yield (
                f"Guard: not possible here. It needs queries with at least {MIN_JUDGES} judges who "
                "compared both answers; a baseline file has only the base's values (pass --base to "
                "compare both models in one set of reviews)."
            )
        return
    worse = how_many(len(guard.regressions), "clear regression")
    better = how_many(len(guard.improvements), "equally clear improvement")
    judged = how_many(guard.n_checked, "query", "queries")
    counts = f"{worse}, {better} in {judged} with at least {MIN_JUDGES} judges"
    if not guard.is_on:
        if guard.n_checked:
            yield f"{counts[:1].upper()}{counts[1:]}."
        return
    p = "" if guard.p is None else f" (p {guard.p:.3f})"
    more = (
        "more regressions than chance explains"
        if guard.has_more_regressions
        else ("no more regressions than chance explains")
    )
    yield f"Guard: {counts}: {more}{p}."
    if not guard.n_repeated:
        most = f"the most here is {guard.most_repeats}" if guard.most_repeats else "there are none"
        yield (
            f"Guard: a regression on one query alone needs {guard.repeats_needed} repeats of it; "
            f"{most}."
        )
        return
    names = few([one.query for one in guard.repeated_regressions]) or "no clear regression"
    queries = how_many(guard.n_repeated, "query", "queries")
    yield f"Guard: repeats of {queries} show: {names}."


def error_rates(result: GateResult) -> str:
    """Return the error probability of each verdict, in a sentence."""
    alpha, margin = result.bar["alpha"], result.bar["margin"]
    looks = "however often you look"
    if not result.keeps_looks:
        looks = "for one gate over these reviews (`peerage gate` on a store keeps its looks)"
    equal = "equal models are called different"
    if result.n_candidates > 1:
        equal = f"any of {result.n_candidates} candidates that equal the base is called different"
    one = "an" if result.n_candidates == 1 else "any"
    guard = f"; the guard blocks {one} equal model in at most {100 * GUARD_ALPHA:g}%"
    return (
        f"Error rates, {looks}: {equal} in at most "
        f"{100 * alpha:g}% of gates; a model that is worse by {margin:g} passes in at most "
        f"{100 * alpha:g}%{guard if result.guard.is_on else ''}."
    )


def chart_looks(one: MeasureResult) -> list[Look]:
    """Return the looks in a small chart, including the last and the deciding one."""
    step = max(1, -(-len(one.looks) // N_LINES))
    some = {*one.looks[::-1][::step], *(x for x in one.looks if x.n == one.decision.after)}
    return sorted(some)


def chart_ends(looks: Sequence[Look], margin: float) -> float:
    """Return how far a chart extends on both sides of zero."""
    late = looks[len(looks) // 3 :]
    widest = max([2 * margin, *(abs(end) for look in late for end in (look.low, look.high))])
    return min(1.0, -(-widest * 10 // 1) / 10)


def chart(one: MeasureResult, margin: float) -> str:
    """Return the running interval as lines of text, one per look."""
    some = chart_looks(one)
    reach = chart_ends(some, margin)

    def at(value: float) -> int:
        part = (value + reach) / (2 * reach)
        return round(max(0.0, min(1.0, part)) * (WIDTH - 1))

    head = f"{f'-{reach:g}':<{WIDTH // 2}}0{f'+{reach:g}':>{WIDTH // 2}}"
    lines = [f"queries  difference  {head}"]
    for look in some:
        cells = [" "] * WIDTH
        for end in (-margin, margin):
            cells[at(end)] = ":"
        cells[at(0.0)] = "│"
        for i in range(at(look.low), at(look.high) + 1):
            cells[i] = "─"
        cells[at(look.mean)] = "●"
        lines.append(f"{look.n:>7}  {look.mean:>+10.3f}  {''.join(cells)}".rstrip())
    return "\n".join(lines)


def telling_table(some: Sequence[TellingQuery], title: str) -> TextTable:
    """Return queries with their difference, judges and sessions."""
    table = TextTable(
        TableColumn("query", "name"),
        TableColumn("difference"),
        TableColumn("judges against", use=1),
        TableColumn("sessions", "text"),
        title=title,
    )
    for one in some:
        judges = f"{one.n_against} of {one.n_judges}" if one.n_judges else "–"
        table.add(one.query, f"{one.difference:+.3f}", judges, few(one.sessions, N_SESSIONS))
    return table


def telling_tables(
    result: GateResult, *, all_clear: bool
) -> Iterator[tuple[str, Sequence[TellingQuery]]]:
    """Yield the tables of single queries with their titles."""
    guard = result.guard
    yield f"queries that most favour {result.candidate}", result.for_candidate
    yield f"queries that most favour {result.base}", result.for_base
    if not (guard.is_on or all_clear):
        return
    yield f"queries whose repeats favour {result.base}", guard.repeated_regressions
    yield f"clear regressions: all judges prefer {result.base}", guard.regressions
    yield f"clear improvements: all judges prefer {result.candidate}", guard.improvements


def shown_tables(
    result: GateResult, *, all_clear: bool = False
) -> Iterator[tuple[str, Sequence[TellingQuery]]]:
    """Yield the tables that have rows, shortened, with the number of their rows in the title.

    The clear regressions and improvements are shown if the guard is on, or with `all_clear`.
    """
    for title, some in telling_tables(result, all_clear=all_clear):
        n = len(some)
        first = f" (the first {N_REGRESSIONS} of {n:,})" if n > N_REGRESSIONS else ""
        if some:
            yield f"{title}{first}", some[:N_REGRESSIONS]


def measures_table(result: GateResult) -> TextTable:
    """Return the verdict on each of several measures."""
    table = TextTable(
        TableColumn("measure", "name"),
        TableColumn("verdict", "word"),
        TableColumn("difference"),
        TableColumn("decided after", use=1),
        title="by dimension, corrected for the number of dimensions (e-Holm)",
    )
    for one in result.measures:
        after = "–" if one.decision.after is None else f"{one.decision.after:,}"
        value = signed_figure(one.difference, one.low, one.high, 3)
        table.add(one.measure, one.decision.verdict.replace("_", " "), value, after)
    return table


def requirements_table(check: CheckResult) -> TextTable:
    """Return each requirement with its status and its measured value."""
    table = TextTable(
        TableColumn("requirement", "name"),
        TableColumn("result", "word"),
        TableColumn("value (95%)"),
    )
    for one in check.results:
        status = Cell(one.status, CHECK_STYLES[one.status])
        interval = "" if one.low is None else f" ({one.low:.3g} … {one.high:.3g})"
        value = "–" if one.value is None else f"{one.value:.3g}{interval}"
        table.add(one.text, status, value)
    return table


def gate_blocks(result: GateResult | GateResults, quiet: bool = False) -> Iterator[Block]:
    """Yield a gate's blocks: the verdicts, the worst first, then each one's reasons and queries."""
    yield from map(Heading, verdict_sentences(result))
    if quiet:
        return
    if isinstance(result, GateResult):
        yield from reason_blocks(result)
        return
    for one in result.worst_first:
        yield Heading(f"{one.candidate} against {one.base}")
        yield from reason_blocks(one)


def reason_blocks(result: GateResult) -> Iterator[Block]:
    """Yield the blocks below a verdict: its reasons, the chart and the queries."""
    yield from (Line(reason) for reason in reasons(result))
    yield Line(error_rates(result), "dim")
    if len(result.measures) > 1:
        yield measures_table(result)
    for one in result.measures[:1]:
        yield Verbatim(
            chart(one, result.bar["margin"]),
            f"the interval over time; : marks ±{result.bar['margin']:g}",
        )
    for title, some in shown_tables(result):
        yield telling_table(some, title)
