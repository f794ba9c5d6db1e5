"""The result of a gate in words, with its chart, for terminals, comments and pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from peerage.boards.differences import CORRECT, MIN_JUDGES, SCORE, SHARE
from peerage.doors.render.layout import Block, Cell, Heading, Line, TableColumn, TextTable, Verbatim
from peerage.doors.render.phrases import flag_text, signed_figure
from peerage.errors import few, how_many
from peerage.reports.gates import GateResult, MeasureResult, TellingQuery
from peerage.reports.requirements import CheckResult
from peerage.stats.bets import Look

N_LINES = 12  # lines of a chart
WIDTH = 41  # characters of a chart's line, an odd number so that zero has a place
MEASURES = {
    SHARE: "share of rivals beaten",
    SCORE: "mean mark, as a fraction of the scale",
    CORRECT: "share of correct answers",
}
CHECK_STYLES = {"holds": "green", "fails": "bold red", "undecided": "yellow"}
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
    if not result.regressions or result.decision.verdict == "worse":
        return sentence
    caught = how_many(len(result.regressions), "query is", "queries are")
    return f"{sentence.removesuffix('.')}, but the guard blocks it: {caught} clearly worse."


def reasons(result: GateResult) -> Iterator[str]:
    """Yield the reasons for the verdict, one sentence each."""
    level = f"{100 * (1 - result.bar['alpha']):g}%"
    queries = how_many(result.n_queries, "query", "queries")
    for one in result.measures:
        what = MEASURES.get(one.measure, f"{one.measure}, as a fraction of the scale")
        yield (
            f"Difference in {what}: {signed_figure(one.difference, one.low, one.high, 3)}, "
            f"{level} interval, valid however often you look; {queries} in "
            f"{how_many(result.n_sessions, 'session')}."
        )
    if result.decision.after is not None:
        yield f"The verdict was reached after {result.decision.after:,} of {queries}."
    if result.needed is not None:
        more = how_many(result.needed, "more query", "more queries")
        yield f"About {more} like these would give a verdict."
    if result.bar["suite"] is not None:
        yield f"The verdict is only for this suite of {result.bar['suite']:,} queries."
    if result.guarded:
        yield guard_sentence(result)
    yield f"Order of queries: {result.order}. Bar: {result.bar_hash[:19]}."
    if result.registered:
        is_same = result.registered == result.bar_hash
        yield (
            "This is the bar that the season was started with."
            if is_same
            else f"The season was started with another bar: {result.registered[:19]}."
        )
    yield from (f"Note: {flag_text(flag)}." for flag in result.flags)


def guard_sentence(result: GateResult) -> str:
    """Return what the guard found on single queries, or why it could not check any."""
    if not result.n_guarded:
        return (
            f"Guard: not possible here. It needs queries with at least {MIN_JUDGES} judges who "
            "compared both answers; a baseline file has only the base's values (pass --base to "
            "compare both models in one set of reviews)."
        )
    n = len(result.regressions)
    caught = how_many(n, "clear regression") if n else "no clear regression"
    judged = how_many(result.n_guarded, "query", "queries")
    return f"Guard: {caught} in {judged} with at least {MIN_JUDGES} judges."


def error_rates(result: GateResult) -> str:
    """Return the error probability of each verdict, in a sentence."""
    alpha, margin = result.bar["alpha"], result.bar["margin"]
    return (
        "Error rates, however often you look: equal models are called different in at most "
        f"{100 * alpha:g}% of gates; a model that is worse by {margin:g} passes in at most "
        f"{100 * alpha:g}%."
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


def regressions_title(result: GateResult) -> str:
    """Return the title of the table of clear regressions."""
    n = len(result.regressions)
    some = f" (the first {N_REGRESSIONS} of {n:,})" if n > N_REGRESSIONS else ""
    return f"clear regressions: all judges prefer {result.base}{some}"


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


def gate_blocks(result: GateResult, quiet: bool = False) -> Iterator[Block]:
    """Yield a gate's blocks: the verdict first, then its reasons, the chart and the sessions."""
    yield Heading(verdict_sentence(result))
    if quiet:
        return
    yield from (Line(reason) for reason in reasons(result))
    yield Line(error_rates(result), "dim")
    if len(result.measures) > 1:
        yield measures_table(result)
    for one in result.measures[:1]:
        yield Verbatim(
            chart(one, result.bar["margin"]),
            f"the interval over time; : marks ±{result.bar['margin']:g}",
        )
    if result.regressions:
        yield telling_table(result.regressions[:N_REGRESSIONS], regressions_title(result))
    if result.for_candidate:
        yield telling_table(result.for_candidate, f"queries that most favour {result.candidate}")
    if result.for_base:
        yield telling_table(result.for_base, f"queries that most favour {result.base}")
