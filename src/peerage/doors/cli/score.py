"""`peerage score`: a ballots file in, a table or JSON out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from peerage.doors.cli.options import FLAT, Common, Dash
from peerage.doors.cli.screen import bar, interval_bar, read_stdin, write_json
from peerage.errors import InputError
from peerage.reports.options import ScoreOptions

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from peerage.config import Settings
    from peerage.doors.cli.terminal import Terminal
    from peerage.scoring import Law, Scored

STYLES = {"high": "green", "medium": "yellow", "low": "red"}
MAX_FLAGS_SHOWN = 12
WIDE = 100  # columns of a terminal that has room for the long bars


def score(
    file: Annotated[str, Dash, Parameter(help="A ballots file, or - for stdin.")],
    /,
    *,
    options: Annotated[ScoreOptions, FLAT] = ScoreOptions(),
    common: Common = Common(),
) -> None:
    """Score the ballots of a file, under the flags and the limits of the configuration."""
    from peerage.council.documents import read_json, sessions_of
    from peerage.scoring import score_session

    law = _law(options, common.settings())
    document = read_json(_bytes(file), file)
    scored = [score_session(session, law) for session in sessions_of(document, file)]
    if common.json:
        documents = [one.document() for one in scored]
        write_json(documents if isinstance(document, list) else documents[0])
        return
    from peerage.doors.cli.terminal import Terminal

    console = Terminal()
    for one in scored:
        show(console, one, common.quiet)


def _law(options: ScoreOptions, settings: Settings) -> Law:
    """The scoring options; a rubric or a limit of one's own comes from the configuration."""
    from peerage import config
    from peerage.scoring import Law

    return Law(
        rule=options.rule,
        own_votes=options.own_votes,
        rubric=config.rubric(options.rubric, settings) if options.rubric else None,
        safety_gate=options.safety_gate or settings.council.safety_gate,
        safety_score_cap=settings.council.safety_score_cap,
        limits=settings.audit.limits,
    )


def _bytes(file: str) -> bytes:
    if file == "-":
        return read_stdin()
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file.", place=file) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}.", place=file) from None


def show(console: Terminal, scored: Scored, quiet: bool = False) -> None:
    """A session's result on a terminal: the ranking, what was odd, and the audit's word."""
    session = scored.session
    if session.query.text:
        console.print(_shortened(session.query.text, 200), style="bold")
    console.print(ranking(scored, console.width))
    if quiet:
        return
    for line in notes(scored):
        console.print(line, style="dim")
    console.print()


def ranking(scored: Scored, width: int = 80) -> RenderableType:
    """The table of a session's candidates, best first."""
    from rich.table import Table

    from peerage.doors.cli.terminal import joined, styled

    law = scored.law
    table = Table(box=None, pad_edge=False, header_style="dim")
    room = 20 if width >= WIDE else 10
    share_head = "share of rivals beaten" if width >= WIDE else "share"
    own = [] if law.rule == "borda" else [law.rule.rjust(len("1500.000"))]
    heads = (*own, "borda", "wins", "votes", "score", "confidence")
    fixed = len("rank") + room + len(" 0.00") + sum(map(len, heads)) + 2 * (len(heads) + 2)
    table.add_column("rank", justify="right", min_width=len("rank"))
    table.add_column("model", no_wrap=True, max_width=max(12, width - fixed))
    table.add_column(share_head, no_wrap=True, min_width=room + len(" 0.00"))
    for head in heads:
        table.add_column(
            head, justify="left" if head == "confidence" else "right", min_width=len(head)
        )
    for row in scored.session.scores:
        line = (
            bar(row.share, room)
            if row.low is None
            else interval_bar(row.share, row.low, row.high, room)
        )
        share = styled(f"{line} {row.share:.2f}" if row.votes else "no votes")
        share.stylize("cyan" if row.votes else "dim", 0, len(line))
        cells: list[str | Text] = [
            str(row.rank),
            row.model if row.passed else joined(row.model, styled(" gated", "red")),
            share,
        ]
        if law.rule != "borda":
            cells.append(f"{row.value:.3f}" if row.votes and row.value is not None else "–")
        cells += [f"{row.borda:.2f}", str(row.wins), str(row.votes)]
        cells.append("–" if row.mean_score is None else f"{row.mean_score:.2f}")
        cells.append(styled(row.confidence, STYLES[row.confidence]))
        table.add_row(*cells)
    return table


def notes(scored: Scored) -> list[str]:
    n_abstained = sum(ballot.abstained for ballot in scored.counted)
    n = len(scored.counted)
    lines = [
        f"{n - n_abstained} of {n} ballots counted, rule {scored.law.rule}, "
        f"own votes {scored.law.own_votes}."
    ]
    flags = [f"{ballot.reviewer}: {flag}" for ballot in scored.counted for flag in ballot.flags]
    flags += scored.session.flags
    lines += [f"  flag  {flag}" for flag in flags[:MAX_FLAGS_SHOWN]]
    if len(flags) > MAX_FLAGS_SHOWN:
        lines.append(f"  … and {len(flags) - MAX_FLAGS_SHOWN} more flags (--json has them all)")
    failed = [gate for gate in scored.session.gates if not gate.passed]
    lines += [f"  gate  {gate.model}: {gate.family} ({gate.excerpt!r})" for gate in failed]
    if scored.audit is not None:
        lines.append(_audit_line(scored))
    return lines


def _audit_line(scored: Scored) -> str:
    assert scored.audit is not None  # noqa: S101 - the caller looked
    summary = scored.audit.bias_audit
    length = next(f for f in scored.audit.findings if f.metric == "length")
    r = "length r undefined" if length.value is None else f"length r {length.value:+.2f}"
    parts = [f"{r} (n = {length.n} of {length.n_min}, {length.status})"]
    parts += [f"harsh: {', '.join(names)}"] if (names := summary["harsh_reviewers"]) else []
    parts += [f"generous: {', '.join(names)}"] if (names := summary["generous_reviewers"]) else []
    return f"audit: risk {summary['overall_bias_risk']}; " + "; ".join(parts) + "."


def _shortened(text: str, limit: int) -> str:
    flat = " ".join(text[: 8 * limit].split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
