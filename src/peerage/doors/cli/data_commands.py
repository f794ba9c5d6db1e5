"""`peerage import`, `export`, `move`, `delete`, `tag` and `imports`: the stored data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from peerage.doors.cli.common_options import AS, MAP, Common, open_terminal
from peerage.doors.cli.screen import confirm, write_file, write_json, write_line
from peerage.doors.render.phrases import flag_line
from peerage.doors.render.session_views import show_imports
from peerage.errors import InputError, UsageError, how_many
from peerage.reports.options import DeleteOptions, TagOptions
from peerage.text import visible


def import_(
    files: Annotated[list[Path], Parameter(help="Files, or one folder of an export.")],
    /,
    *,
    format: Annotated[str | None, Parameter(name="--as", help=AS)] = None,
    columns: Annotated[str, Parameter(name="--map", help=MAP)] = "",
    common: Common = Common(),
) -> None:
    """Load judgements made elsewhere; a file comes in whole or not at all, and only once."""
    from peerage.imports import take, take_export

    reports = common.reports(makes_store=True)
    scale, rubrics = reports.settings.community.scale, reports.settings.rubric
    imported = []
    for file in files:
        if not file.exists():
            raise InputError("there is no such file.", place=str(file))
        store = reports.store  # made when there is something to put into it
        with _steps(f"{file.name}: ", quiet=common.json or common.quiet) as step:
            tables = (
                take_export(store, file, step, scale, rubrics)
                if file.is_dir()
                else [take(store, file, format, time.time, scale, step, rubrics, columns)]
            )
        imported += tables
        for table in () if common.json else tables:  # at once: the next file may be refused
            state = "was there already, nothing changed" if table.already else "imported"
            what = "" if table.kind == table.unit else f" of {table.kind}"
            what += f" from {table.format}" if table.format not in ("", table.kind) else ""
            rows = how_many(table.n, table.unit.removesuffix("s"))
            write_line(f"{table.name}: {rows}{what}, {state}.")
            for flag in table.flags:
                write_line(flag_line(flag))
    if common.json:
        write_json({"imported": [asdict(table) for table in imported]})


def export(
    folder: Annotated[Path | None, Parameter(name="DIR", help="A folder to be made.")] = None,
    /,
    *,
    reviews: Annotated[
        Path | None, Parameter(help="Write the one table of reviews: .parquet, .csv or .jsonl.")
    ] = None,
    common: Common = Common(),
) -> None:
    """Write the whole store as JSONL and Parquet, or its reviews as one table, to import again."""
    from peerage.imports import check_table_format, write_reviews
    from peerage.imports import export as export_store

    if folder is None and reviews is None:
        raise UsageError("say where to.", hint="Name a folder, or --reviews FILE.")
    reports = common.reports()
    counts: dict[str, int] = {}
    if folder is not None:
        counts |= export_store(reports.store, folder)
        if not common.json:
            tables = how_many(counts["imports"], "table")
            write_line(f"{how_many(counts['sessions'], 'session')} and {tables} in {folder}.")
    if reviews is not None:
        check_table_format(reviews)
        files, suffix = reports.review_files(), reviews.suffix
        counts["reviews"] = write_file(reviews, lambda fresh: write_reviews(files, suffix, fresh))
        if not common.json:
            write_line(f"{how_many(counts['reviews'], 'review')} in {reviews}.")
    if common.json:
        write_json(counts)


def move(
    *,
    to: Annotated[str, Parameter(help="An empty store: postgresql://… or sqlite:///FILE.")],
    common: Common = Common(),
) -> None:
    """Copy the whole store into an empty one and compare the two; the old one stays as it is."""
    from peerage.stores import move as copy_store
    from peerage.stores import open_store, without_password

    source = open_store(common.settings().store, must_exist=True)
    with _steps("", quiet=common.json or common.quiet) as step:
        counts = copy_store(source, open_store(to), step)
    if common.json:
        write_json({"to": without_password(to), **counts})
    else:
        listed = ", ".join(f"{n:,} {name}" for name, n in counts.items())
        write_line(f"{listed}: copied to {without_password(to)}, and the same there.")
        write_line("The old store is as it was; name the new one as `store` in peerage.toml.")


@contextmanager
def _steps(prefix: str, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Takes the name of each step as it begins; shown on stderr with a clock, if that is a TTY."""
    console = open_terminal(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import SpinnerColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), "{task.description}", TimeElapsedColumn())
    with console.progress(*columns, transient=True) as progress:
        prefix = visible(prefix)
        task = progress.add_task(prefix, total=None)
        yield lambda step: progress.update(task, description=f"{prefix}{step} …")


# -- deletions, tags and imports -----------------------------------------------------------------

SEVERAL = Parameter(consume_multiple=True)
N_NAMED = 3
Sessions = Annotated[
    list[str] | None, Parameter(name="ID", help="Ids of sessions, or their beginnings.")
]


def delete(
    sessions: Sessions = None,
    /,
    *,
    season: Annotated[
        list[str] | None, SEVERAL, Parameter(help="All sessions of this season.")
    ] = None,
    import_: Annotated[
        list[str] | None,
        SEVERAL,
        Parameter(name="--import", help="An imported table: its number, hash or file name."),
    ] = None,
    undo: Annotated[bool, Parameter(help="Bring back what was deleted.")] = False,
    yes: Annotated[bool, Parameter(help="Do not ask first; needed in a pipe.")] = False,
    common: Common = Common(),
) -> int:
    """Leave sessions, seasons or imports out of boards, audits and lists; nothing is erased."""
    from peerage.curation import delete as mark_deleted
    from peerage.curation import plan_deletion

    options = DeleteOptions(
        sessions=tuple(sessions or ()),
        seasons=tuple(season or ()),
        imports=tuple(import_ or ()),
        undo=undo,
    )
    reports = common.reports()
    plan = plan_deletion(reports.store, options)
    named = [*plan.sessions, *(one.name for one in plan.imports)]
    names = ", ".join(named[:N_NAMED]) + (", …" if len(named) > N_NAMED else "")
    if named and not (undo or yes):
        question = f"Delete {plan.words()} ({names})? Nothing is erased: --undo brings it back."
        answer = confirm(question)
        if answer is None:
            raise UsageError(
                f"this would delete {plan.words()}.", hint="Add --yes to do it without a terminal."
            )
        if not answer:
            write_line("Nothing was changed.", to_stderr=True)
            return 1
    mark_deleted(reports.store, plan, time.time, reports.settings.community.scale)
    if common.json:
        write_json(plan.document())
    elif not common.quiet:
        done = "brought back" if undo else "deleted"
        state = "not deleted" if undo else "deleted already"
        was = f"{how_many(plan.n_already, 'was', 'were')} {state}" if plan.n_already else ""
        summary = f"{plan.words()} {done}{f' ({names})' if names else ''}"
        write_line("; ".join(filter(None, (summary if named else "", was))) + ".")
    return 0


def tag(
    sessions: Sessions = None,
    /,
    *,
    add: Annotated[list[str] | None, SEVERAL, Parameter(help="Tags to add, a word each.")] = None,
    remove: Annotated[list[str] | None, SEVERAL, Parameter(help="Tags to remove.")] = None,
    common: Common = Common(),
) -> None:
    """Add tags to sessions, or remove some; `peerage sessions --tag` finds them again."""
    from peerage.curation import tag as tag_sessions

    options = TagOptions(
        sessions=tuple(sessions or ()), add=tuple(add or ()), remove=tuple(remove or ())
    )
    tags_by_id = tag_sessions(common.reports().store, options, time.time)
    if common.json:
        write_json({"tags": {id_: list(tags) for id_, tags in tags_by_id.items()}})
    elif not common.quiet:
        for id_, tags in tags_by_id.items():
            write_line(f"{id_}: {', '.join(tags) or 'no tags'}")


def imports(
    *,
    deleted: Annotated[bool, Parameter(help="Those that were deleted, not the others.")] = False,
    common: Common = Common(),
) -> None:
    """List the tables that were imported, by the numbers that `peerage delete` takes."""
    common.write(common.reports().imports(deleted=deleted), show_imports)
