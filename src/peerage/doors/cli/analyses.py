"""The commands that read: boards, audits and rings, over the store or over files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from peerage.doors.cli.options import (
    AsOfOption,
    CategoryOption,
    ConfigOption,
    EngineOption,
    HtmlOption,
    ItemsOption,
    JsonOption,
    MasterOption,
    OpinionsOption,
    OwnVotesOption,
    QuietOption,
    ReviewsOption,
    SinceOption,
    StoreOption,
    UsersOption,
    configured,
    runner,
)
from peerage.doors.cli.screen import say
from peerage.errors import InputError, UsageError

COMMUNITY = ("contributors", "reviewers", "items")
FILES = {"reviews", "opinions", "items", "users"}
SHARED = {"name", "against", "engine", "master", "csv", "parquet", "html"}
SHARED |= {"store", "config", "json", "quiet"}
SPELT = {"everyone": "--all", "half_life_days": "--half-life"}
NO_REVIEWS: Mapping[str, Any] = dict.fromkeys(
    ("session_id", "reviewer", "candidate", "rank", "category", "at", "words"), ()
)
NO_OPINIONS: Mapping[str, Any] = dict.fromkeys(
    ("item_id", "contributor", "reviewer", "opinion", "category", "at"), ()
)
NO_REVIEWS_YET = InputError(
    "the store has no reviews yet.",
    hint="Hold a season with `peerage run`, or `peerage import FILE --as reviews`.",
)
NO_OPINIONS_YET = InputError(
    "the store has no opinions yet.", hint="`peerage import FILE --as opinions` brings them."
)


def audit(
    session: Annotated[str | None, typer.Option(metavar="ID", help="One session only.")] = None,
    reviewer: Annotated[str | None, typer.Option(help="One reviewer only.")] = None,
    since: SinceOption = None,
    dimension: Annotated[str | None, typer.Option(help="A rubric dimension's marks.")] = None,
    fail_on: Annotated[
        str | None, typer.Option(help="evidence or indicator: exit code 1 where there is any.")
    ] = None,
    html: HtmlOption = None,
    reviews: ReviewsOption = None,
    engine: EngineOption = "duckdb",
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Audit the reviewers: who is biased, how sure is that, what cannot be known."""
    if session is not None:
        from peerage.doors.cli.history import audit_one

        audit_one(session, config, {"store": store}, json, fail_on)
        return
    from peerage.doors.cli.output import run_audit

    named = {"reviews": reviews, "engine": engine} if reviews else {}
    with _files_as_parquet(named) as files:
        found = files.get("reviews") or _reviews_in(*_stored({"store": store, "config": config}))
        if not found:
            raise NO_REVIEWS_YET
        run_audit(
            found,
            reviewer=reviewer,
            since=since or "all",
            dimension=dimension,
            fail_on=fail_on,
            html=html,
            config_file=config,
            as_json=json,
            quiet=quiet,
            engine=engine,
        )


def board(
    name: Annotated[str, typer.Argument(help="models, contributors, reviewers or items.")],
    category: CategoryOption = None,
    since: SinceOption = None,
    as_of: AsOfOption = None,
    rule: Annotated[str | None, typer.Option(help="borda, mean_rank, bradley_terry, …")] = None,
    own_votes: OwnVotesOption = None,
    by_category: Annotated[bool, typer.Option("--by-category")] = False,
    interval: Annotated[
        str | None, typer.Option(help="sessions, or two-way: reviewers too.")
    ] = None,
    reputation: Annotated[
        str | None, typer.Option(help="fixed, peer (models) or iterate (community).")
    ] = None,
    matrix: Annotated[bool, typer.Option("--matrix", help="Head to head.")] = False,
    compare_rules: Annotated[bool, typer.Option("--compare-rules")] = False,
    length_controlled: Annotated[bool, typer.Option("--length-controlled")] = False,
    item_weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Weights of items: item_id, weight.")
    ] = None,
    history: Annotated[str | None, typer.Option(help="week: how the board came about.")] = None,
    half_life_days: Annotated[
        float | None,
        typer.Option("--half-life", metavar="DAYS", help="An opinion's weight halves in this."),
    ] = None,
    literal: Annotated[bool, typer.Option("--literal", help="As PeerBench scores.")] = False,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with an outside ranking.")
    ] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Find coefficients that agree.")] = False,
    without_flagged: Annotated[bool, typer.Option("--without-flagged")] = False,
    everyone: Annotated[bool, typer.Option("--all", help="Also those not ranked.")] = False,
    engine: EngineOption = "duckdb",
    master: MasterOption = None,
    reviews: ReviewsOption = None,
    opinions: OpinionsOption = None,
    items: ItemsOption = None,
    users: UsersOption = None,
    csv: Annotated[bool, typer.Option("--csv")] = False,
    parquet: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    html: HtmlOption = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show a leaderboard: models with intervals, rank ranges and tiers, or a community's."""
    given = {k: v for k, v in locals().items() if v is not None and v is not False}
    if name not in (*COMMUNITY, "models"):
        known = f"Known: models, {', '.join(COMMUNITY)}."
        raise UsageError(f"there is no board {name!r}.", hint=known)
    with _files_as_parquet(given) as given:
        (_models_board if name == "models" else _community_board)(given)


def _models_board(given: Mapping[str, Any]) -> None:
    from peerage.doors.cli.output import run_models
    from peerage.reports import board_models, board_models_of_store
    from peerage.reports.options import ModelBoardOptions

    terms = ModelBoardOptions(**_fields_of(ModelBoardOptions, given, {"item_weights", "reviews"}))
    files, weights = given.get("reviews"), given.get("item_weights")
    if not files:
        store, rubric_of = _stored(given)
        files = _reviews_in(store, rubric_of)
    engine = _engine(given, files)
    if not files:
        _hint(given, NO_REVIEWS_YET)
        board = board_models(NO_REVIEWS, terms, engine=engine)
    elif "reviews" in given or weights or given["engine"] != "duckdb":
        board = board_models(files, terms, engine=engine, item_weights=weights)
    else:
        board = board_models_of_store(store, rubric_of, terms, engine)
    run_models(board, engine, _output(given), given.get("against"))


def _community_board(given: Mapping[str, Any]) -> None:
    from peerage.doors.cli.output import run_board
    from peerage.reports.options import CommunityBoardOptions

    asked = _fields_of(CommunityBoardOptions, given, {"opinions", "items", "users", "tune"})
    run_board(
        given["name"],
        _tables(given),
        asked,
        _output(given),
        against=given.get("against"),
        tune="tune" in given,
        config_file=given.get("config"),
    )


def rings(
    opinions: OpinionsOption = None,
    items: ItemsOption = None,
    users: UsersOption = None,
    since: SinceOption = None,
    as_of: AsOfOption = None,
    category: CategoryOption = None,
    engine: EngineOption = "duckdb",
    master: MasterOption = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find voting rings, with p-values and the evidence; nobody is punished."""
    given = {k: v for k, v in locals().items() if v is not None and v is not False}
    from peerage.doors.cli.output import run_rings

    asked = {name: given[name] for name in given.keys() & {"since", "as_of", "category"}}
    with _files_as_parquet(given) as given:
        run_rings(_tables(given), asked, _output(given), config)


# -- what was given -----------------------------------------------------------------------------


@contextmanager
def _files_as_parquet(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What was given, with Parquet in the place of files in which types can only be guessed."""
    from peerage.engines.intake import readable

    with tempfile.TemporaryDirectory() as folder:
        files = {kind: given[kind] for kind in given.keys() & FILES if given["engine"] == "duckdb"}
        yield {
            **given,
            **{
                k: readable(Path(folder) / k, [v] if isinstance(v, str) else v)
                for k, v in files.items()
            },
        }


def _fields_of(kind: Any, given: Mapping[str, Any], more: set[str]) -> dict[str, Any]:
    """What was given of a board's terms; an option that is another board's is refused."""
    known = {field.name for field in fields(kind)}
    if strange := sorted(given.keys() - known - more - SHARED):
        spelt = ", ".join(SPELT.get(name, f"--{name.replace('_', '-')}") for name in strange)
        raise UsageError(f"the board of {given['name']} takes no {spelt}.")
    return {name: given[name] for name in given.keys() & known}


def _output(given: Mapping[str, Any]) -> Any:
    from peerage.doors.cli.output import Output

    return Output(
        **{field.name: given[field.name] for field in fields(Output) if field.name in given}
    )


def _engine(given: Mapping[str, Any], found: Any) -> Any:
    """The engine asked for; where there is nothing to read, none need be started."""
    return runner(given["engine"], given.get("master")) if found else runner("duckdb", None)


def _hint(given: Mapping[str, Any], missing: InputError) -> None:
    """An empty store is no error to a board: it shows an empty table, and this on stderr."""
    if "quiet" not in given:
        say(str(missing))


def _stored(given: Mapping[str, Any]) -> tuple[Any, Any]:
    """The store, and the way to the rubric of each of its sessions."""
    from peerage.panel import recorded_rubric

    settings, store = configured(given.get("config"), {"store": given.get("store")})
    return store, partial(recorded_rubric, settings)


def _reviews_in(store: Any, rubric_of: Any) -> list[str]:
    from peerage.doors.render.phrases import flag_text
    from peerage.reports.stored_reviews import reviews_in

    def tell(flag: str) -> None:
        say(flag_text(flag))

    return [str(path) for path in reviews_in(store, rubric_of, tell)]


def _tables(given: Mapping[str, Any]) -> Any:
    """A community's tables: the files named, else what was imported into the store."""
    from peerage.doors.cli.output import Tables

    named = {kind: given.get(kind) for kind in ("opinions", "items", "users")}
    if named["opinions"] is None:
        from peerage.engines.mirror import Mirror
        from peerage.reports.stored_reviews import imported

        _, store = configured(given.get("config"), {"store": given.get("store")})
        mirror = Mirror(store.mirror_folder)
        for kind, file in named.items():
            paths = [str(path) for path in imported(store, mirror, kind)]
            named[kind] = file or paths or None
    found = any(named.values())
    if named["opinions"] is None:
        _hint(given, NO_OPINIONS_YET)
        named["opinions"] = NO_OPINIONS
    return Tables(_engine(given, found), **named)
