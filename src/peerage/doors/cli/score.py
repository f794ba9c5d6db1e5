"""`peerage score`: a ballots file in, a table or JSON out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from peerage.doors.cli.options import FLAT, Common, Dash
from peerage.doors.cli.screen import read_stdin, write_json
from peerage.errors import InputError
from peerage.reports.options import ScoreOptions

if TYPE_CHECKING:
    from peerage.config import Settings
    from peerage.types import ScoringOptions


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

    scoring = _scoring_options(options, common.settings())
    document = read_json(_bytes(file), file)
    scored = [score_session(session, scoring) for session in sessions_of(document, file)]
    if common.json:
        documents = [one.document() for one in scored]
        write_json(documents if isinstance(document, list) else documents[0])
        return
    from peerage.doors.cli.terminal import Terminal
    from peerage.doors.render.session_views import show_scored

    console = Terminal()
    for one in scored:
        show_scored(console, one, common.quiet)


def _scoring_options(options: ScoreOptions, settings: Settings) -> ScoringOptions:
    """The scoring options; a rubric or a limit of one's own comes from the configuration."""
    from peerage import config
    from peerage.types import ScoringOptions

    return ScoringOptions(
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
