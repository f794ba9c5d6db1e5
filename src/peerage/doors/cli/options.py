"""Options that many commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
