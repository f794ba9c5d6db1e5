"""The command line: parse, call, render. Each command imports what it needs when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from peerage.doors.cli import analyses, transfer
from peerage.doors.cli.options import (
    BudgetOption,
    ConfigOption,
    JsonOption,
    OwnVotesOption,
    QuietOption,
    RubricOption,
    RuleOption,
    SeedOption,
    StoreOption,
    council_flags,
)
from peerage.doors.cli.screen import (
    ReaderLeftError,
    close_streams,
    prepare_streams,
    say,
    write_line,
)
from peerage.errors import PeerageError, UsageError
from peerage.types import ScoringOptions

INTERRUPTED = 130
SCORING = ScoringOptions()  # the defaults
MAX_LISTED = 1_000_000  # sessions in one list

app = typer.Typer(
    name="peerage",
    help="Peer review for language models: blind ballots, honest scores, audited reviewers.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line; a person's mistake ends in one paragraph, never in a traceback."""
    try:
        prepare_streams()
        code = _run(sys.argv[1:])
    except ReaderLeftError as error:
        code = error.exit_code
    except PeerageError as error:
        say(str(error))
        code = error.exit_code
    except typer.TyperException as error:
        say(f"{error.format_message()} {_help_hint(error)}")
        code = error.exit_code
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        say(f"{place}{error.strerror or error}.")
        code = UsageError.exit_code
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted.")
        code = INTERRUPTED
    sent = close_streams()
    sys.exit(code if sent or code else UsageError.exit_code)


def _run(arguments: list[str]) -> int:
    """Run one command; the exit code."""
    for number, argument in enumerate(arguments, 1):
        if not argument.isascii() and any(
            "\ud800" <= character <= "\udfff" for character in argument
        ):
            raise UsageError(f"argument {number} is not UTF-8 text: {argument}")
    try:
        code = app(arguments or ["--help"], standalone_mode=False)
    except SystemExit as left:
        code = left.code
    return code if isinstance(code, int) else 0


def _help_hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"Try `{context.command_path if context else 'peerage'} --help`."


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        write_line(f"peerage {version('peerage')}")
        raise typer.Exit


@app.callback()
def peerage(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Peer review for language models."""


@app.command()
def score(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A ballots file, or - for stdin.")],
    rule: Annotated[str, typer.Option(help="borda, mean_rank, hybrid, elo, …")] = SCORING.rule,
    own_votes: Annotated[
        str, typer.Option(help="What becomes of a vote for oneself: out, in or seed.")
    ] = SCORING.own_votes,
    rubric: Annotated[
        str | None, typer.Option(help="Rank by marks under this rubric; without it, no rubric.")
    ] = None,
    safety_gate: Annotated[
        bool, typer.Option("--safety-gate", help="Put answers that fail the gate last.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Score ballots from anywhere: no store, no network, no model."""
    from peerage.doors.cli.score import run

    run(file, rule, own_votes, rubric, safety_gate, config, json, quiet)


@app.command()
def ask(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="The question, or - for stdin.")
    ],
    category: Annotated[str, typer.Option(help="May choose the rubric.")] = "",
    verdict: Annotated[
        str | None, typer.Option(help="synthesis, debate, binary, tie_breaker or none.")
    ] = None,
    rule: RuleOption = None,
    rubric: RubricOption = None,
    own_votes: OwnVotesOption = None,
    seed: SeedOption = None,
    budget_usd: BudgetOption = None,
    safety_gate: Annotated[bool | None, typer.Option("--safety-gate/--no-safety-gate")] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Put a question to the council, and watch it answer, review and conclude."""
    from peerage.doors.cli.ask import Manner, run

    flags = {
        **council_flags(rule, rubric, own_votes, seed, budget_usd),
        "council.verdict": verdict,
        "council.safety_gate": safety_gate,
        "store": store,
    }
    raise typer.Exit(run(question, category, flags, config, Manner(json, quiet)))


@app.command(name="run")
def run_season(
    prompts: Annotated[Path, typer.Argument(help="JSONL, CSV or Parquet with a query column.")],
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Sessions at a time.")] = 16,
    verdict: Annotated[str | None, typer.Option(help="As in `peerage ask`.")] = None,
    rule: RuleOption = None,
    rubric: RubricOption = None,
    own_votes: OwnVotesOption = None,
    seed: SeedOption = None,
    budget_usd: BudgetOption = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on where an earlier run stopped.")
    ] = True,
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Hold a season: one session for every row of a file."""
    from peerage.doors.cli.ask import Manner
    from peerage.doors.cli.run import run

    flags = {
        **council_flags(rule, rubric, own_votes, seed, budget_usd),
        "council.verdict": verdict,
        "store": store,
    }
    raise typer.Exit(run(prompts, concurrency, flags, config, Manner(json, quiet), resume))


@app.command()
def sessions(
    limit: Annotated[int, typer.Option(min=1, max=MAX_LISTED, help="How many of the latest.")] = 20,
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List the latest sessions of the store."""
    from peerage.doors.cli.history import list_sessions

    list_sessions(store, limit, config, json)


@app.command()
def show(
    session: Annotated[str, typer.Argument(metavar="ID", help="A session's id, or its beginning.")],
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show one session in full."""
    from peerage.doors.cli.history import show_one

    show_one(session, config, {"store": store}, json)


@app.command()
def replay(
    session: Annotated[str, typer.Argument(metavar="ID", help="A session's id, or its beginning.")],
    rule: RuleOption = None,
    rubric: RubricOption = None,
    own_votes: OwnVotesOption = None,
    safety_gate: Annotated[bool | None, typer.Option("--safety-gate/--no-safety-gate")] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Score a stored session again by another rule, rubric or gate; no model is called."""
    from peerage.doors.cli.history import replay_one

    flags = {
        **council_flags(rule, rubric, own_votes, None, None),
        "council.safety_gate": safety_gate,
        "store": store,
    }
    replay_one(session, config, flags, json)


app.command()(analyses.board)
app.command()(analyses.audit)
app.command()(analyses.rings)
app.command(name="import")(transfer.import_)
app.command()(transfer.export)


@app.command()
def doctor(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Tell what works here and what is missing, with the fix."""
    from peerage.doors.cli.doctor import run

    raise typer.Exit(run(config, json))


@app.command()
def demo(
    question: Annotated[
        str | None, typer.Argument(help="What to ask the local model's council.")
    ] = None,
    pause: Annotated[bool, typer.Option("--pause/--no-pause", help="Wait after screens.")] = True,
) -> None:
    """A short tour, with no key and no network: a real council, then a season of known truth."""
    from peerage.doors.cli.demo import QUESTION, run

    run(question or QUESTION, pause)
