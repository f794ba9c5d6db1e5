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
from peerage.errors import PeerageError

app = typer.Typer(
    name="peerage",
    help="Peer review for language models: blind ballots, honest scores, audited reviewers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line; a person's mistake ends in one paragraph, never in a traceback."""
    code = 0
    try:
        app()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0
    except PeerageError as error:
        sys.stderr.write(f"peerage: {error}\n")
        code = error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\npeerage: interrupted.\n")
        code = 130
    except BrokenPipeError:  # the reader of our output left; that is its right
        sys.stderr.close()
    sys.exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"peerage {version('peerage')}")
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
    rule: Annotated[str, typer.Option(help="borda, mean_rank, hybrid, elo, …")] = "borda",
    own_votes: Annotated[
        str, typer.Option(help="What becomes of a vote for oneself: out, in or seed.")
    ] = "out",
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
    limit: Annotated[int, typer.Option(min=1, help="How many of the latest.")] = 20,
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
    """Score a stored session again under another law, without calling a model."""
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
