"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerage.doors.cli.screen import say
from peerage.errors import UsageError

if TYPE_CHECKING:
    from peerage.config import Settings
    from peerage.engines import Engine
    from peerage.stores import Store

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Default: ./peerage.toml.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout and nothing else there.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Say only what was asked for.")]
StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="Default: sqlite:///peerage.db.")
]
RuleOption = Annotated[str | None, typer.Option("--rule", help="borda, mean_rank, elo, …")]
RubricOption = Annotated[
    str | None, typer.Option("--rubric", help="A rubric's name, or none for holistic marks.")
]
OwnVotesOption = Annotated[str | None, typer.Option("--own-votes", help="out, in or seed.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Orders and draws follow from it.")]
BudgetOption = Annotated[
    float | None, typer.Option("--budget-usd", help="Never spend more than this.")
]
SinceOption = Annotated[str | None, typer.Option("--since", help="30d, 12h, 4w or all.")]
AsOfOption = Annotated[
    str | None, typer.Option("--as-of", metavar="TIME", help="Where the window ends.")
]
CategoryOption = Annotated[str | None, typer.Option("--category", help="One category only.")]
EngineOption = Annotated[str, typer.Option("--engine", help="duckdb or spark.")]
MasterOption = Annotated[str | None, typer.Option("--master", help="Spark's master URL.")]
ReviewsOption = Annotated[
    list[str] | None,
    typer.Option("--reviews", metavar="FILE", help="A reviews table instead of the store."),
]
OpinionsOption = Annotated[
    str | None, typer.Option("--opinions", metavar="FILE", help="Opinions instead of the store's.")
]
ItemsOption = Annotated[
    str | None, typer.Option("--items", metavar="FILE", help="Whose the items are.")
]
UsersOption = Annotated[
    str | None, typer.Option("--users", metavar="FILE", help="Who is affiliated.")
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="A page with charts.")
]


def configured(config_file: Path | None, flags: Mapping[str, object]) -> tuple[Settings, Store]:
    """The settings in force, flags by their dotted names included, and the store they name."""
    from peerage import config
    from peerage.stores import open_store

    settings = noted(config.load(config_file, flags=flags))
    return settings, open_store(settings.store)


def noted(settings: Settings) -> Settings:
    """The settings, after telling on stderr what a person should know of where they come from."""
    for note in settings.notes:
        _tell_once(note)
    return settings


@cache
def _tell_once(note: str) -> None:
    say(f"peerage: {note}")


def runner(engine: str, master: str | None) -> Engine:
    """The engine asked for; a master is a cluster's, so it goes with Spark."""
    from peerage.engines import engines

    make: Any = engines.get(engine)
    if master is not None and engine != "spark":
        raise UsageError(f"--master is not for {engine}.", hint="Add --engine spark.")
    found: Engine = make() if master is None else make(master=master)
    return found


def council_flags(
    rule: str | None,
    rubric: str | None,
    own_votes: str | None,
    seed: int | None,
    budget_usd: float | None,
) -> dict[str, object]:
    """Flags under the names that the configuration knows; None was not given."""
    return {
        "council.rule": rule,
        "council.rubric": False if rubric == "none" else rubric,
        "council.own_votes": own_votes,
        "council.seed": seed,
        "council.budget_usd": budget_usd,
    }
