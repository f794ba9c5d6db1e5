"""`peerage delete`, `tag` and `imports`: what is left out, brought back, marked, or was loaded."""

from __future__ import annotations

import time
from typing import Annotated

from cyclopts import Parameter

from peerage.doors.cli.common_options import Common
from peerage.doors.cli.screen import confirm, write_json, write_line
from peerage.doors.render.session_views import show_imports
from peerage.errors import UsageError, how_many
from peerage.reports.options import DeleteOptions, TagOptions

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
