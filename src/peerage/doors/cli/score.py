"""`peerage score`: a ballots file in, a table or JSON out."""

from __future__ import annotations

from pathlib import Path

from peerage.council.documents import read_json, sessions_of
from peerage.doors.cli.options import noted
from peerage.doors.cli.screen import read_stdin, write_json
from peerage.errors import InputError
from peerage.scoring import check_options, score_session
from peerage.types import OwnVotes, ScoringOptions


def run(
    file: str,
    rule: str,
    own_votes: str,
    rubric: str | None,
    safety_gate: bool,
    config_file: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    options = _options(rule, own_votes, rubric, safety_gate, config_file)
    document = read_json(_bytes(file), file)
    scored = [score_session(session, options) for session in sessions_of(document, file)]
    if as_json:
        documents = [one.document() for one in scored]
        write_json(documents if isinstance(document, list) else documents[0])
        return
    from peerage.doors.cli.terminal import Terminal
    from peerage.doors.render.session_views import show_scored

    console = Terminal()
    for one in scored:
        show_scored(console, one, quiet)


def _options(
    rule: str, own_votes: str, rubric: str | None, safety_gate: bool, config_file: Path | None
) -> ScoringOptions:
    """The options of the flags; a rubric or a limit of one's own comes from the configuration."""
    from peerage import config

    settings = noted(config.load(config_file))
    votes: OwnVotes = own_votes  # type: ignore[assignment]  # checked below
    options = ScoringOptions(
        rule=rule,
        own_votes=votes,
        rubric=config.rubric(rubric, settings) if rubric else None,
        safety_gate=safety_gate or settings.council.safety_gate,
        safety_score_cap=settings.council.safety_score_cap,
        limits=settings.audit.limits,
    )
    check_options(options)
    return options


def _bytes(file: str) -> bytes:
    if file == "-":
        return read_stdin()
    try:
        return Path(file).read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file.", place=file) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}.", place=file) from None
