"""An option of a session is declared once: the doors, the log and the reference derive from it."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from peerage.config import settings
from peerage.config.settings import Table

ADD_TWO_OPTIONS = """
    from typing import Annotated
    from pydantic.fields import FieldInfo
    from peerage.config import settings

    def add(name, annotation, default, sentence):
        field = FieldInfo.from_annotated_attribute(
            annotation, settings.Field(default=default, description=sentence)
        )
        settings.CouncilSettings.__annotations__[name] = annotation
        settings.CouncilSettings.model_fields[name] = field

    SCORES = Annotated[settings.Share, settings.SCORES]
    add("warmth", SCORES, 0.5, "How warm a verdict is.")
    add("hush", settings.Flag, False, "Print no pleasantries.")
    settings.CouncilSettings.model_rebuild(force=True)
    settings.Settings.model_rebuild(force=True)
"""
LOOK = """
    import asyncio, json, sys
    from peerage import config
    from peerage.config.recorded import options_record, recorded_council
    from peerage.doors.openai.council_requests import CouncilExtras
    from peerage.doors.mcp.session_tools import AskToolOptions
    from peerage.event_facts import opening_of
    from peerage.panel import Council
    from peerage.reports.session_options import AskOptions, ReplayOptions, RunOptions
    from peerage.session_requests import SessionRequest
    from peerage.types import Seat

    folder = sys.argv[1]
    with open(f"{folder}/peerage.toml", "w") as file:
        file.write("[council]\\nwarmth = 0.25\\nhush = true\\n")
    in_file = config.load(f"{folder}/peerage.toml", environ={}).council
    in_environ = config.load(environ={"PEERAGE_WARMTH": "0.75", "PEERAGE_HUSH": "yes"}).council
    panel = [Seat(name, provider="simulated") for name in "abc"]
    store = f"sqlite:///{folder}/p.db"

    async def open_and_resume():
        async with Council(seats=panel, store=store, warmth=0.25, hush=True) as council:
            begun = await council.open("Why?")
            await begun.events.aclose()
            await council.store.release(begun.lease)
        async with Council(seats=panel, store=store) as council:
            again = await council.resume(resume=begun.history[0].session_id)
            await again.events.aclose()
            opened = opening_of(again.history)
            return opened.options, recorded_council(opened, config.Settings().council)

    record, resumed = asyncio.run(open_and_resume())
    doors = {"ask": AskOptions, "run": RunOptions, "replay": ReplayOptions}
    doors |= {"http": SessionRequest, "mcp": AskToolOptions, "openai": CouncilExtras}
    print(json.dumps({
        "file": [in_file.warmth, in_file.hush],
        "environment": [in_environ.warmth, in_environ.hush],
        "log": [record["warmth"], record["hush"]],
        "resumed": [resumed.warmth, resumed.hush],
        "doors": {door: [name in options.model_fields for name in ("warmth", "hush")]
                  for door, options in doors.items()},
    }))
"""
HELP = """
    import sys
    from peerage.__main__ import main
    sys.argv = ["peerage", "ask", "--help"]
    main()
"""


def python_of_two_more_options(code: str, *arguments: object) -> str:
    """Run code in a Python whose council has two more options."""
    program = textwrap.dedent(ADD_TWO_OPTIONS) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_option_that_is_declared_reaches_every_place_that_should_have_it(tmp_path: Path) -> None:
    """A client sets the first, which scores; the second is the operator's."""
    there = json.loads(python_of_two_more_options(LOOK, tmp_path))
    assert there["file"] == [0.25, True]
    assert there["environment"] == [0.75, True]
    assert there["log"] == there["resumed"] == [0.25, True]
    assert there["doors"] == {
        "ask": [True, True],
        "run": [True, True],
        "replay": [True, False],
        "http": [True, False],
        "mcp": [True, False],
        "openai": [True, False],
    }


def test_an_option_that_is_declared_is_in_the_help_of_the_command() -> None:
    page = python_of_two_more_options(HELP)
    assert "--warmth" in page
    assert "How warm a verdict is." in page
    assert "--hush" in page


def test_no_two_tables_of_the_council_annotate_an_option_of_one_name() -> None:
    """An option of a seat, a rubric or the server may share a word with one of another table."""
    council = set(settings.CouncilSettings.__annotations__)
    others = [table for table in all_tables(Table) if table is not settings.CouncilSettings]
    shared = {
        f"{table.__name__}.{name}"
        for table in others
        for name in vars(table).get("__annotations__", {})
        if name in council
    }
    assert shared == {"Settings.rubric", "Settings.audit"}  # the tables of those names


def all_tables(table: type[Table]) -> list[type[Table]]:
    """Return a class and all its subclasses."""
    return [table, *(one for child in table.__subclasses__() for one in all_tables(child))]
