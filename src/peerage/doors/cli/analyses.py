"""The commands that read: boards, audits, imports and exports, over the store or over files."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerage.doors.cli.options import (
    ConfigOption,
    JsonOption,
    OwnVotesOption,
    QuietOption,
    StoreOption,
)
from peerage.errors import InputError, UsageError

if TYPE_CHECKING:
    from peerage.stores import Store

ReviewsOption = Annotated[
    list[str] | None,
    typer.Option("--reviews", metavar="FILE", help="A reviews table instead of the store."),
]
OpinionsOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="Opinions instead of the store's.")
]
ItemsOption = Annotated[str | None, typer.Option(metavar="FILE", help="Whose the items are.")]
UsersOption = Annotated[str | None, typer.Option(metavar="FILE", help="Who is affiliated.")]
COMMUNITY = ("contributors", "reviewers", "items")
SinceOption = Annotated[str, typer.Option("--since", help="30d, 12h, 4w or all.")]


def audit(
    session: Annotated[str | None, typer.Option(metavar="ID", help="One session only.")] = None,
    reviewer: Annotated[str | None, typer.Option(help="One reviewer only.")] = None,
    since: SinceOption = "all",
    dimension: Annotated[str | None, typer.Option(help="A rubric dimension's marks.")] = None,
    fail_on: Annotated[
        str | None, typer.Option(help="evidence or indicator: exit code 1 where there is any.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="A page with charts.")] = None,
    reviews: ReviewsOption = None,
    engine: Annotated[str, typer.Option(help="duckdb or spark.")] = "duckdb",
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Audit the reviewers: who is biased, how sure is that, what cannot be known."""
    if session is not None:
        from peerage.doors.cli.history import audit_one

        audit_one(session, config, {"store": store}, json)
        return
    from peerage.doors.cli.audit import run

    run(
        _reviews(reviews, store, config),
        reviewer=reviewer,
        since=since,
        dimension=dimension,
        fail_on=fail_on,
        html=html,
        config_file=config,
        as_json=json,
        quiet=quiet,
        engine=engine,
    )


def import_(
    files: Annotated[list[Path], typer.Argument(help="Files, or one folder of an export.")],
    kind: Annotated[
        str | None, typer.Option("--as", help="reviews, opinions, items, users or sessions.")
    ] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Load judgements made elsewhere; a file comes in whole or not at all, and only once."""
    from dataclasses import asdict

    from peerage import config as configuration
    from peerage.doors.cli.screen import write_json
    from peerage.importing import take, take_export

    settings = configuration.load(config)
    opened = _store(store, config)
    taken = []
    for file in files:
        if file.is_dir():
            taken += take_export(opened, file)
            continue
        if kind is None:
            raise UsageError("say what the file holds.", hint="--as reviews, --as opinions, …")
        if not quiet:
            sys.stderr.write(f"reading {file} …\n")
        taken.append(take(opened, file, kind, time.time, settings.community.scale))
    if json:
        write_json({"imported": [asdict(one) for one in taken]})
        return
    for one in taken:
        state = "was there already, nothing changed" if one.already else "imported"
        typer.echo(f"{one.name}: {one.n:,} {one.unit} of {one.kind}, {state}.")


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder to be made.")],
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write the whole store as JSONL and Parquet that `peerage import DIR` takes back."""
    from peerage.doors.cli.screen import write_json
    from peerage.importing import export as written

    counts = written(_store(store, config), folder)
    if json:
        write_json(counts)
    else:
        typer.echo(f"{counts['sessions']} sessions and {counts['imports']} tables in {folder}.")


def board(
    name: Annotated[str, typer.Argument(help="models, contributors, reviewers or items.")],
    category: Annotated[str | None, typer.Option(help="One category only.")] = None,
    since: Annotated[str | None, typer.Option(help="30d, 12h, 4w or all.")] = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="TIME", help="Where the window ends.")
    ] = None,
    rule: Annotated[str, typer.Option(help="borda, mean_rank, bradley_terry, …")] = "borda",
    own_votes: OwnVotesOption = None,
    by_category: Annotated[bool, typer.Option("--by-category")] = False,
    interval: Annotated[
        str, typer.Option(help="sessions, or two-way: reviewers too.")
    ] = "sessions",
    reputation: Annotated[str, typer.Option(help="fixed, peer (models) or iterate.")] = "fixed",
    matrix: Annotated[bool, typer.Option("--matrix", help="Head to head.")] = False,
    compare_rules: Annotated[bool, typer.Option("--compare-rules")] = False,
    length_controlled: Annotated[bool, typer.Option("--length-controlled")] = False,
    item_weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Weights of items: item_id, weight.")
    ] = None,
    history: Annotated[str, typer.Option(help="week: how the board came about.")] = "",
    half_life: Annotated[
        float | None, typer.Option(metavar="DAYS", help="An opinion's weight halves in this time.")
    ] = None,
    literal: Annotated[bool, typer.Option("--literal", help="PeerBench to the letter.")] = False,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with an outside ranking.")
    ] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Find coefficients that agree.")] = False,
    without_flagged: Annotated[bool, typer.Option("--without-flagged")] = False,
    everyone: Annotated[bool, typer.Option("--all", help="Also those not ranked.")] = False,
    engine: Annotated[str, typer.Option(help="duckdb or spark.")] = "duckdb",
    master: Annotated[str | None, typer.Option(help="Spark's master URL.")] = None,
    reviews: ReviewsOption = None,
    opinions: OpinionsOption = None,
    items: ItemsOption = None,
    users: UsersOption = None,
    csv: Annotated[bool, typer.Option("--csv")] = False,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show a leaderboard: models with intervals, rank ranges and tiers, or a community's."""
    if name in COMMUNITY:
        from peerage.doors.cli.community import Shown, run_board

        run_board(
            name,
            _tables(opinions, items, users, engine, store, config),
            {
                "reputation": reputation,
                "half_life_days": half_life,
                "literal": literal,
                "everyone": everyone,
                "since": since or "all",
                "as_of": as_of,
                "category": category,
                "without_flagged": without_flagged,
            },
            Shown(json, csv, quiet),
            against=against,
            tune=tune,
            config_file=config,
        )
        return
    if name != "models":
        raise UsageError(
            f"there is no board {name!r}.", hint=f"Known: models, {', '.join(COMMUNITY)}."
        )
    from peerage.doors.cli.board_models import Output, run
    from peerage.standings import Terms

    terms = Terms(
        rule=rule,
        own_votes=own_votes or "out",  # type: ignore[arg-type]  # Terms refuses what it does not know
        since=since or "30d",
        as_of=as_of,
        category=category,
        by_category=by_category,
        interval=interval,
        reputation=reputation,
        matrix=matrix,
        compare_rules=compare_rules,
        length_controlled=length_controlled,
        history=history,
    )
    run(
        _reviews(reviews, store, config),
        terms,
        Output(json, csv, parquet, html, quiet),
        engine,
        master,
        item_weights=str(item_weights) if item_weights else None,
        against=against,
    )


def rings(
    opinions: OpinionsOption = None,
    items: ItemsOption = None,
    users: UsersOption = None,
    since: SinceOption = "all",
    category: Annotated[str | None, typer.Option(help="One category only.")] = None,
    engine: Annotated[str, typer.Option(help="duckdb or spark.")] = "duckdb",
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find voting rings, with p-values and the evidence; nobody is punished."""
    from peerage.doors.cli.community import Shown, run_rings

    tables = _tables(opinions, items, users, engine, store, config)
    asked = {"since": since, "category": category}
    run_rings(tables, asked, Shown(json=json, quiet=quiet), config)


def _tables(
    opinions: str | None,
    items: str | None,
    users: str | None,
    engine: str,
    url: str | None,
    config_file: Path | None,
) -> Any:
    """A community's tables: the files named, else what was imported into the store."""
    from peerage.doors.cli.community import Tables

    if opinions is not None:
        return Tables(opinions, items, users, engine)
    from peerage.engines.mirror import Mirror
    from peerage.tables import imported

    store = _store(url, config_file)
    mirror = Mirror(store.mirror_folder)
    found = {
        kind: [str(path) for path in imported(store, mirror, kind)]
        for kind in ("opinions", "items", "users")
    }
    if not found["opinions"]:
        raise InputError(
            "the store has no opinions yet.",
            hint="`peerage import FILE --as opinions` brings them.",
        )
    return Tables(
        found["opinions"], items or found["items"] or None, users or found["users"] or None, engine
    )


def _store(url: str | None, config_file: Path | None) -> Store:
    from peerage import config
    from peerage.stores import open_store

    return open_store(url or config.load(config_file).store)


def _reviews(files: list[str] | None, url: str | None, config_file: Path | None) -> Any:
    """The tables to read: those named, else all that the store knows."""
    if files:
        return files[0] if len(files) == 1 else files
    from peerage import config
    from peerage.convening import law_then
    from peerage.stores import open_store
    from peerage.tables import reviews_in

    settings = config.load(config_file)
    found = reviews_in(open_store(url or settings.store), lambda law: law_then(settings, law))
    if not found:
        raise InputError(
            "the store has no reviews yet.",
            place=url or settings.store,
            hint="Hold a season with `peerage run`, or `peerage import FILE --as reviews`.",
        )
    return [str(path) for path in found]
