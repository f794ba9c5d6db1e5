"""The command line: parse, call, render. Each command imports what it needs when it runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from peerage.doors.cli.options import ConfigOption, JsonOption, QuietOption
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
    try:
        app()
    except PeerageError as error:
        sys.stderr.write(f"peerage: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("\npeerage: interrupted.\n")
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output left; that is its right
        sys.stderr.close()
        sys.exit(0)


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
def demo() -> None:
    """A short tour, with no key and no network."""
    from peerage.doors.cli.demo import run

    run()
