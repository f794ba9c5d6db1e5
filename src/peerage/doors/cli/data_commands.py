"""`peerage import`, `export`, `move`, `delete`, `tag` and `imports`: commands on stored data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from peerage.doors.cli.common_options import AS, MAP, Common, open_terminal
from peerage.doors.cli.screen import confirm, say, write_file, write_json, write_line
from peerage.doors.render.phrases import flag_line
from peerage.doors.render.session_lists import show_imports
from peerage.errors import InputError, UsageError, how_many
from peerage.paths import new_folder
from peerage.reports import Reports
from peerage.reports.session_options import DeleteOptions, TagOptions
from peerage.text import visible

EXPORT_AS = (
    "Format: arena, inspect, every-eval-ever, data-set, lines, or otlp (which is sent if there is "
    "no TARGET)."
)


def import_(
    files: Annotated[list[Path], Parameter(help="Files or folders to import, also of an export.")],
    /,
    *,
    format: Annotated[str | None, Parameter(name="--as", help=AS)] = None,
    columns: Annotated[str, Parameter(name="--map", help=MAP)] = "",
    common: Common = Common(),
) -> None:
    """Import judgements; a file is imported completely or not at all, and only once."""
    from peerage.imports import take
    from peerage.imports.formats import NoJudgementsError
    from peerage.imports.formats.mapped import MAPPED
    from peerage.imports.store_folders import take_export

    reports = common.reports(makes_store=True)
    scale, rubrics = reports.settings.community.scale, reports.settings.rubric
    imported = []
    parts = [(path, file) for path in files for file in _files_of(path, format, columns)]
    for path, file in parts:
        store = reports.store  # created only now, when there is a file to import
        name = file.name if file == path else str(file.relative_to(path))
        try:
            with _steps(f"{name}: ", quiet=common.json or common.quiet) as step:
                tables = (
                    take_export(store, file, step, scale, rubrics)
                    if file.is_dir()
                    else [take(store, file, format, time.time, scale, step, rubrics, columns, name)]
                )
        except NoJudgementsError as error:
            if file == path:
                raise
            say(str(error))
            continue
        imported += tables
        for table in () if common.json else tables:  # printed now, as the next file may be refused
            state = "was already imported, nothing changed" if table.already else "imported"
            what = "" if table.kind == table.unit else f" of {table.kind}"
            is_plain = table.format in ("", table.kind, MAPPED)
            what += "" if is_plain else f" from {table.format}"
            rows = how_many(table.n, table.unit.removesuffix("s"))
            write_line(f"{table.name}: {rows}{what}, {state}.")
            for flag in table.flags:
                write_line(flag_line(flag))
    if common.json:
        write_json({"imported": [asdict(table) for table in imported]})


def _files_of(path: Path, format: str | None, columns: str) -> list[Path]:
    """Return the files to import: those of a folder, unless this is an export."""
    from peerage.imports.files import expand
    from peerage.imports.store_folders import is_export

    if not path.exists():
        raise InputError("the file does not exist.", place=str(path))
    return [path] if is_export(path) else expand([path], format, columns, say)


def export(
    target: Annotated[
        Path | None,
        Parameter(name="TARGET", help="New folder, or the file for --as.", validator=()),
    ] = None,
    /,
    *,
    reviews: Annotated[
        Path | None,
        Parameter(help="Write all reviews as one table: .parquet, .csv or .jsonl.", validator=()),
    ] = None,
    format: Annotated[str | None, Parameter(name="--as", help=EXPORT_AS)] = None,
    common: Common = Common(),
) -> None:
    """Export the whole store, its reviews as one table, or in another tool's format."""
    from peerage.imports.store_folders import export as export_store
    from peerage.imports.table_files import check_table_format, write_reviews

    if target is None and reviews is None and format != "otlp":
        raise UsageError("no target was given.", hint="Name a folder, or --reviews FILE.")
    reports = common.reports()
    counts: dict[str, int] = {}
    if format is not None and (target is not None or format == "otlp"):
        counts[format] = _export_as(reports, format, target)
        if not common.json:
            where = "sent" if target is None else f"in {target}"
            write_line(f"{how_many(counts[format], 'entry', 'entries')} {where}.")
    elif target is not None:
        counts |= export_store(reports.store, target)
        if not common.json:
            tables = how_many(counts["imports"], "table")
            write_line(f"{how_many(counts['sessions'], 'session')} and {tables} in {target}.")
    if reviews is not None:
        check_table_format(reviews)
        files, suffix = reports.review_files(), reviews.suffix
        times = {entry.at for entry in reports.store.imports()}
        counts["reviews"] = write_file(
            reviews, lambda fresh: write_reviews(files, suffix, fresh, times)
        )
        if not common.json:
            write_line(f"{how_many(counts['reviews'], 'review')} in {reviews}.")
    if common.json:
        write_json(counts)


def _export_as(reports: Reports, name: str, target: Path | None) -> int:
    """Write the reviews in the format of another tool, or send them as events; return how many."""
    from importlib.metadata import version

    from peerage.imports.exports import FOLDERS, ReviewExport, export_reviews, send_events
    from peerage.reports.options import ModelBoardOptions

    source = ReviewExport(
        reports.review_files(),
        lambda: reports.board(ModelBoardOptions(since="all")),
        version("peerage"),
        "" if target is None else target.stem,
        {entry.at for entry in reports.store.imports()},
    )
    if target is None:
        return send_events(source)
    if name in FOLDERS:
        return export_reviews(source, name, target)
    return write_file(target, lambda fresh: export_reviews(source, name, fresh))


def merge(
    files: Annotated[list[Path], Parameter(help="Files that `export --as lines` wrote.")],
    /,
    *,
    to: Annotated[Path, Parameter(help="The file to write.", validator=())],
    common: Common = Common(),
) -> None:
    """Write the union of several files of reviews; the order of the files does not matter."""
    from peerage.imports.exports import merge_lines

    n = write_file(to, lambda fresh: merge_lines(files, fresh))
    if common.json:
        write_json({"reviews": n})
    else:
        write_line(f"{how_many(n, 'review')} in {to}.")


def move(
    *,
    to: Annotated[str, Parameter(help="URL of an empty store: postgresql://… or sqlite:///FILE.")],
    common: Common = Common(),
) -> None:
    """Copy the whole store into an empty one and compare the two; the old one is not changed."""
    from peerage.stores import move as copy_store
    from peerage.stores import open_store, without_password

    source = open_store(common.settings().store, must_exist=True)
    with _steps("", quiet=common.json or common.quiet) as step:
        counts = copy_store(source, open_store(to), step)
    if common.json:
        write_json({"to": without_password(to), **counts})
    else:
        listed = ", ".join(f"{n:,} {name}" for name, n in counts.items())
        write_line(f"{listed}: copied to {without_password(to)} and verified.")
        write_line("The old store is unchanged; set the new one as `store` in peerage.toml.")


def publish(
    folder: Annotated[Path, Parameter(name="DIR", help="New or empty folder.")],
    /,
    *,
    season: Annotated[
        str, Parameter(help="Only this season (its id or the beginning of it).")
    ] = "",
    session: Annotated[
        str, Parameter(help="Only this session (its id or the beginning of it).")
    ] = "",
    people: Annotated[bool, Parameter(help="Show names of people.")] = False,
    common: Common = Common(),
) -> None:
    """Write the board, its audit and its sessions as pages for any web server."""
    from peerage.curation import note_folder
    from peerage.doors.render.publishing import Kind, check_publication, published_pages

    if season and session:
        raise UsageError(
            "--season and --session cannot be used together.", hint="Omit one of them."
        )
    reports = common.reports()
    kind: Kind = "season" if season else "session" if session else "board"
    publication = check_publication(reports, kind, season or session, people)
    paths = []
    with _steps("", quiet=common.json or common.quiet) as step, new_folder(folder) as fresh:
        for path, text in published_pages(reports, publication):
            step(path)
            _write_page(fresh / path, text)
            paths.append(path)
    note_folder(reports.store, folder, kind, publication.of, time.time())
    if common.json:
        write_json({"folder": str(folder), "pages": paths})
    else:
        write_line(f"{how_many(len(paths), 'page')} in {folder}. Open {folder / 'index.html'}")


def _write_page(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@contextmanager
def _steps(prefix: str, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the name of each step on stderr, if that is a TTY."""
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
    list[str] | None, Parameter(name="ID", help="Ids of sessions, or the beginnings of ids.")
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
    undo: Annotated[bool, Parameter(help="Restore what was deleted.")] = False,
    yes: Annotated[
        bool, Parameter(help="Do not ask for confirmation; required in a pipe.")
    ] = False,
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
        question = f"Delete {plan.words()} ({names})? Nothing is erased: --undo restores it."
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
        for folder in plan.folders:
            write_line(
                f"{visible(folder)} was published with it: delete that folder and publish it again."
            )
    return 0


def tag(
    sessions: Sessions = None,
    /,
    *,
    add: Annotated[list[str] | None, SEVERAL, Parameter(help="Tags to add, one word each.")] = None,
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
    deleted: Annotated[bool, Parameter(help="List deleted tables instead.")] = False,
    common: Common = Common(),
) -> None:
    """List the imported tables with their numbers, by which `peerage delete` finds them."""
    common.write(common.reports().imports(deleted=deleted), show_imports)
