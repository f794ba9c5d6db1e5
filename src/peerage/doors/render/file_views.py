"""A file of judgements: the boards and metrics that it supports, as tables and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerage.doors.render.layout import Cell, Screen, TableColumn, TextTable
from peerage.errors import how_many

if TYPE_CHECKING:
    from peerage.imports.diagnosis import Diagnosis

WORDS = {  # whether the audit can measure a metric, by the status of its finding
    "evidence": "yes: evidence of bias",
    "indicator": "yes: a sign of bias",
    "clear": "yes: within the healthy range",
    "inconclusive": "yes, but inconclusive",
    "too_few": "too few observations",
    "not_identifiable": "no",
    "missing": "no",
    "does_not_apply": "does not apply",
}
WORDS_OF_JUDGES = {  # of metrics that are about a judge's quality, not about a bias
    "evidence": "yes: not healthy",
    "indicator": "yes: perhaps not healthy",
    "clear": "yes: healthy",
}
OF_JUDGES = ("agreement", "consistency", "effective_votes", "drift")
USEFUL = ("evidence", "indicator", "clear", "inconclusive")


def show_diagnosis(console: Screen, diagnosis: Diagnosis, quiet: bool = False) -> None:
    """Print the format of a file, the boards and metrics it supports, and what to log next time."""
    files = f"{how_many(diagnosis.n_files, 'file')}, " if diagnosis.n_files > 1 else ""
    title = f"{diagnosis.file}: {files}{diagnosis.title} ({diagnosis.format})"
    console.print(title, style="bold")
    console.print(_counts(diagnosis))
    for judge, n in diagnosis.labels_by_judge.items():
        line = f"✓ {judge} against people: {how_many(n, 'label')}, see peerage audit"
        console.print(line, style="green")
    for board, reason in diagnosis.boards.items():
        mark, style = ("✓", "green") if not reason else ("✗", "red")
        console.print(f"{mark} board {board}{f': {reason}' if reason else ''}", style=style)
    if diagnosis.sessions_needed is not None:
        console.print(_needs_line(diagnosis))
    for oddity in diagnosis.oddities:
        console.print(f"! {oddity}", style="yellow")
    if diagnosis.metrics and not quiet:
        console.show_table(metrics_table(diagnosis))
    if diagnosis.advice and not quiet:
        console.print(f"To log next time: {diagnosis.advice}")


def _counts(diagnosis: Diagnosis) -> str:
    n_rows = how_many(diagnosis.n_rows, "row")
    if diagnosis.kind not in ("reviews", "sessions"):
        items = how_many(diagnosis.n_sessions, "item")
        return f"{n_rows}, {items}, {how_many(diagnosis.n_reviewers, 'reviewer')}."
    parts = (
        how_many(diagnosis.n_sessions, "session"),
        how_many(diagnosis.n_candidates, "candidate"),
        how_many(diagnosis.n_reviewers, "reviewer"),
    )
    return f"{n_rows}: {', '.join(parts)}."


def _needs_line(diagnosis: Diagnosis) -> str:
    if not diagnosis.sessions_needed:
        return "These sessions are enough to detect a difference of 0.05 in share."
    sessions = how_many(diagnosis.sessions_needed, "more session")
    rows = how_many(diagnosis.rows_needed or 0, "row")
    return f"About {sessions} ({rows}) would be enough to detect a difference of 0.05 in share."


def metrics_table(diagnosis: Diagnosis) -> TextTable:
    """Return each metric of the audit, whether the file allows it, and if not, what is missing."""
    table = TextTable(
        TableColumn("metric", "name"),
        TableColumn("n"),
        TableColumn("can the audit measure it?", "word"),
        TableColumn("why not, or what to log", "text"),
        title="the audit of this file",
    )
    for one in diagnosis.metrics:
        style = "" if one.status in USEFUL else "dim"
        words = WORDS | WORDS_OF_JUDGES if one.metric in OF_JUDGES else WORDS
        table.add(one.metric, f"{one.n:,}", Cell(words[one.status], style), one.log_next)
    return table
