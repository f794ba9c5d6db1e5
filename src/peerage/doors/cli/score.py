"""`peerage score`: ballots in, in whatever shape they come; a table or JSON out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from peerage.doors.cli.options import FLAT, Common, Dash
from peerage.doors.cli.screen import read_stdin, say, write_json
from peerage.errors import InputError
from peerage.reports.options import ScoreOptions

if TYPE_CHECKING:
    from peerage.scoring import Scored

PARTIAL = 3
TABLES = (".csv", ".tsv", ".parquet", ".pq")
LINES = (".jsonl", ".ndjson")
MAX_ROWS = 100_000  # of a table: boards take larger ones


def score(
    file: Annotated[
        str, Dash, Parameter(help="Ballots as JSON, JSONL, CSV or Parquet; - for stdin.")
    ],
    /,
    *,
    options: Annotated[ScoreOptions, FLAT] = ScoreOptions(),
    common: Common = Common(),
) -> int:
    """Score the ballots of a file; 3 where a session has none that could be counted.

    A file holds sessions as docs/ballots.md describes them, rankings by name, rows of reviews
    (reviewer, candidate, rank or score; session optional), or comparisons (model_a, model_b,
    winner).
    """
    from peerage.reports import Reports

    reports, document = Reports(common.settings()), _document(file)
    scored = reports.score(document, options, file)
    if common.json:
        documents = [one.document() for one in scored]
        write_json(documents if _are_many(document, documents) else documents[0])
    else:
        from peerage.doors.cli.terminal import Terminal
        from peerage.doors.render.session_views import show_scored

        console = Terminal()
        for one in scored:
            if len(scored) > 1 and one.session.id:
                console.print(f"session {one.session.id}", style="bold")
            show_scored(console, one, common.quiet)
    uncounted = [one for one in scored if one.counted and all(b.abstained for b in one.counted)]
    for one in uncounted:
        name = f"session {one.session.id}: " if one.session.id else ""
        reasons = ", ".join(dict.fromkeys(_reasons(one)))
        say(f"{name}no ballot could be counted ({reasons}).")
    return PARTIAL if uncounted else 0


def _are_many(document: Any, documents: Sequence[object]) -> bool:
    """Whether the result is a list: for a list of sessions, and for rows of several."""
    from peerage.council.documents import is_rankings, is_rows

    bare = is_rows(document) or is_rankings(document)
    return isinstance(document, list) and (len(documents) > 1 or not bare)


def _reasons(scored: Scored) -> Iterator[str]:
    for ballot in scored.counted:
        kinds = (flag.partition(":") for flag in ballot.flags)
        yield from (why.replace("_", " ") for kind, _, why in kinds if kind == "abstained")


def _document(file: str) -> Any:
    """What a file holds, as JSON values: a document, a list of them, or the rows of a table."""
    from peerage.council.documents import read_json
    from peerage.engines.intake import rows_in

    suffix = Path(file).suffix.lower()
    if suffix in TABLES:
        return rows_in(Path(file), MAX_ROWS)
    data = _bytes(file)
    if suffix in LINES:
        return [
            read_json(line, f"{file}, line {i}")
            for i, line in enumerate(data.splitlines(), 1)
            if line.strip()
        ]
    if file == "-" and not data.lstrip().startswith((b"{", b"[")):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "stdin.csv"
            copy.write_bytes(data)
            return rows_in(copy, MAX_ROWS)
    return read_json(data, file)


def _bytes(file: str) -> bytes:
    if file == "-":
        return read_stdin()
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file.", place=file) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}.", place=file) from None
