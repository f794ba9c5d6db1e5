"""One session on a terminal or in a pipe: the verdict, the ranking, the dissent, the bill."""

from __future__ import annotations

from peerage.doors.cli.live import failure_line
from peerage.doors.cli.terminal import Terminal, markdown, panel, paragraph
from peerage.doors.render.layout import Cell, Interval, TableColumn, TextTable
from peerage.doors.render.phrases import figure, session_flags
from peerage.reports.sessions import rescored
from peerage.scoring import Scored
from peerage.types import Audit, ScoringOptions, Session, Verdict

MAX_FLAGS_SHOWN = 12
MAX_QUESTION = 200  # characters


def show_session(
    session: Session, options: ScoringOptions, console: Terminal | None = None, brief: bool = False
) -> None:
    """A session; brief is the verdict alone, as it was written."""
    console = console or Terminal()
    if session.verdict is not None:
        if brief:
            text = session.verdict.text or session.verdict.note
            console.print(paragraph(text), soft_wrap=True)
            return
        _show_verdict(console, session.verdict)
    if session.ballots:
        _show_ranking(console, rescored(session, options))
    for words in session.verdict.dissent if session.verdict else ():
        far = f"{words.distance:.0%} of pairs the other way"
        line = f"dissent ({far}), {words.reviewer}: “{words.quote}”"
        console.print(line, style="magenta")
    for failure in session.failures:
        console.print(failure_line(failure), style="red")
    if session.status == "no_quorum":
        n = len(session.responses)
        console.print(f"Only {n} answered: too few to review each other.", style="red")
    cost = "unknown" if session.cost_usd is None else f"${session.cost_usd:.4f}"
    console.print(f"session {session.id} · cost {cost}", style="dim")


def _show_verdict(console: Terminal, verdict: Verdict) -> None:
    title = verdict.kind.replace("_", " ") + (f" by {verdict.by}" if verdict.by else "")
    if verdict.approved is not None:
        title += ": approved" if verdict.approved else ": rejected"
    text = verdict.text or verdict.note
    if console.is_terminal:
        console.print(panel(markdown(text), title, title_align="left"))
    else:
        console.title(title)
        console.print()
        console.print(paragraph(text))
        console.print()
    if verdict.note:
        console.print(f"note: {verdict.note}", style="yellow")


def show_scored(console: Terminal, scored: Scored, quiet: bool = False) -> None:
    """A scored session: the question, the ranking, what was odd, and the audit's word."""
    if scored.session.query.text:
        flat = " ".join(scored.session.query.text[: 8 * MAX_QUESTION].split())
        cut = flat if len(flat) <= MAX_QUESTION else f"{flat[: MAX_QUESTION - 1]}…"
        console.print(cut, style="bold")
    _show_ranking(console, scored, quiet)
    if not quiet:
        console.print()


def _show_ranking(console: Terminal, scored: Scored, quiet: bool = False) -> None:
    ranking_table(scored).show(console)
    for line in () if quiet else _notes(scored):
        console.print(line, style="dim")


def ranking_table(scored: Scored) -> TextTable:
    """A session's candidates, best first."""
    rule, scores = scored.options.rule, scored.session.scores
    gated = not all(row.passed for row in scores)
    table = TextTable(
        TableColumn("rank"),
        TableColumn("model", "name"),
        *([TableColumn("gate", "word")] if gated else []),
        TableColumn("rivals beaten"),
        TableColumn("0 to 1", "drawing", use=4),
        *([] if rule == "borda" else [TableColumn(rule)]),
        TableColumn("borda", use=3),
        TableColumn("wins", use=5),
        TableColumn("votes", use=1),
        TableColumn("score", use=2),
    )
    for row in scores:
        table.add(
            str(row.rank),
            row.model,
            *([Cell("" if row.passed else "failed", "red")] if gated else []),
            f"{row.share:.2f}" if row.votes else Cell("no votes", "dim"),
            Interval(row.share, row.low, row.high) if row.votes else None,
            *([] if rule == "borda" else [figure(row.value if row.votes else None, 3)]),
            figure(row.borda),
            str(row.wins),
            f"{row.votes} of {_n_voters(scored, row.model)}",
            figure(row.mean_score),
        )
    return table


def _n_voters(scored: Scored, model: str) -> int:
    """On how many reviewers' ballots the model was, its own left out where own votes are."""
    own = scored.options.own_votes != "out"
    return len(
        {
            (ballot.reviewer, ballot.sheet)
            for ballot in scored.session.ballots
            if model in ballot.authors and (own or ballot.reviewer != model)
        }
    )


def _notes(scored: Scored) -> list[str]:
    n = len(scored.counted)
    n_counted = n - sum(ballot.abstained for ballot in scored.counted)
    lines = [
        f"{n_counted} of {n} ballots counted, rule {scored.options.rule}, "
        f"own votes {scored.options.own_votes}."
    ]
    flags = [(ballot.reviewer, flag) for ballot in scored.counted for flag in ballot.flags]
    told = session_flags([*flags, *(("", flag) for flag in scored.session.flags)])
    lines += [f"  flag  {flag}" for flag in told[:MAX_FLAGS_SHOWN]]
    if len(told) > MAX_FLAGS_SHOWN:
        lines.append(f"  … and {len(told) - MAX_FLAGS_SHOWN} more flags (--json has them all)")
    failed = [gate for gate in scored.session.gates if not gate.passed]
    lines += [f"  gate  {gate.model}: {gate.family} ({gate.excerpt!r})" for gate in failed]
    return lines if scored.audit is None else [*lines, _audit_line(scored.audit)]


def _audit_line(audit: Audit) -> str:
    """What one session can say of its reviewers, and how much more it would take."""
    length = next(one for one in audit.findings if one.metric == "length")
    r = "undefined" if length.value is None else f"{length.value:+.2f}"
    parts = [f"scores and length correlate {r} over {length.n} answers"]
    if length.n < length.n_min:
        parts[0] += f" ({length.n_min} would be needed to tell)"
    parts += [
        f"{word}: {', '.join(names)}"
        for word in ("harsh", "generous")
        if (names := audit.bias_audit[f"{word}_reviewers"])
    ]
    return f"audit: {'; '.join(parts)}. `peerage audit` judges many sessions."
