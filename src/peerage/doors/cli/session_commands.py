"""`peerage ask`, `decide`, `sessions`, `show`, `replay`, `score`: run, show and score sessions."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from peerage.doors.cli.common_options import (
    FLAT,
    WITH_NO,
    Common,
    Dash,
    confirm_unranked,
    open_terminal,
)
from peerage.doors.cli.screen import (
    INTERRUPTED,
    PARTIAL,
    read_stdin,
    say,
    write_json,
    write_line,
)
from peerage.doors.render.layout import Line, blocks_markdown
from peerage.doors.render.phrases import failure_line
from peerage.doors.render.session_lists import show_sessions
from peerage.doors.render.session_views import (
    ask_blocks,
    resume_line,
    session_blocks,
    show_scored,
    why_no_verdict,
)
from peerage.errors import BudgetError, InputError
from peerage.reports.session_options import (
    AskOptions,
    DecideOptions,
    ReplayOptions,
    ScoreOptions,
    SessionsOptions,
)
from peerage.types import Session

if TYPE_CHECKING:
    from peerage.panel import Council
    from peerage.scoring import Scored
    from peerage.view import SessionView

REFUSED = 1
TABLES = (".csv", ".tsv", ".parquet", ".pq")
LINES = (".jsonl", ".ndjson")
MAX_ROWS = 1_000_000  # rows of a table; boards can read larger tables
SILENT_S = 2.0  # before the first line of progress, and between two lines

Full = Annotated[bool, Parameter(help="Show every answer completely, not only its first lines.")]
ImageSources = Annotated[
    list[str] | None,
    Parameter(
        negative=(),
        help="An image of the question: a file, or a link that is passed on. For several, repeat.",
    ),
]
AnswersFile = Annotated[
    Path | None,
    Parameter(
        help="Judge the answers in this JSON file, by name: texts, or lists of messages with tool "
        "calls."
    ),
]
SessionId = Annotated[str, Parameter(name="ID", help="Id of a session, or the beginning of it.")]


# -- a question ----------------------------------------------------------------------------------


def ask(
    question: Annotated[str, Dash, Parameter(help="Question, or - for stdin.")] = "",
    /,
    *,
    options: Annotated[AskOptions, WITH_NO] = AskOptions(),
    image: ImageSources = None,
    answers: AnswersFile = None,
    full: Full = False,
    common: Common = Common(),
) -> int:
    """Ask the council a question; the exit code says how the session ended."""
    text = _text_in_stdin() if question == "-" else question
    own = {"category", "seats", "system", "after", "resume", "budget_usd"}  # not council settings
    keywords = options.model_dump(include=own, exclude_defaults=True)
    keywords |= _read_given(image or [], answers)
    return _hold_session(text, options.flags(), keywords, common, full)


def decide(
    text: Annotated[str, Dash, Parameter(help="Text to decide on, or - for stdin.")],
    /,
    *,
    options: Annotated[DecideOptions, FLAT] = DecideOptions(),
    image: ImageSources = None,
    common: Common = Common(),
) -> int:
    """Let the panel vote on typed questions about a text, and print its probabilities.

    A question may begin with a name: urgent="The message is urgent." To continue an interrupted
    decision: `peerage ask --resume`.
    """
    own = {"category", "seats", "system", "budget_usd"}
    keywords = options.model_dump(include=own, exclude_defaults=True)
    keywords |= {"questions": options.questions, **_read_given(image or [], None)}
    words = _text_in_stdin() if text == "-" else text
    return _hold_session(words, {}, keywords, common, full=False)


def _hold_session(
    text: str, flags: Mapping[str, object], keywords: dict[str, Any], common: Common, full: bool
) -> int:
    """Run a session, show its result, and return the exit code."""
    import asyncio

    from peerage.panel import Council, NoVotesError

    settings = common.council_settings(flags)
    held: list[SessionView] = []  # the session, once it is in the log
    code = None
    try:
        try:
            asyncio.run(_run_session(Council(settings), text, keywords, common, held))
        except NoVotesError as error:  # before anything was stored or paid
            confirm_unranked(error)
            council = Council(settings)
            council.allows_unranked = True
            asyncio.run(_run_session(council, text, keywords, common, held))
    except KeyboardInterrupt:
        id_ = held[0].id if held else ""
        resume = f"session {id_} is not finished. {resume_line(id_, options=common.where())}"
        say(resume if held else "interrupted.")
        return INTERRUPTED
    except BudgetError as error:
        say(f"{error} Everything so far is stored.")
        code = BudgetError.exit_code
    if not held:
        return code or 0
    (view,) = held
    _show_asked(view, common, full)
    return exit_code(view.session, view.asked_for) if code is None else code


def _text_in_stdin() -> str:
    try:
        return read_stdin().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text (byte {error.start}).", place="stdin") from None


def _read_given(images: Sequence[str], answers: Path | None) -> dict[str, Any]:
    """Return the images and answers that were given with a question, if any."""
    given: dict[str, Any] = {}
    if images:
        links = ("http://", "https://", "data:")
        given["images"] = [one if one.startswith(links) else Path(one) for one in images]
    if answers is not None:
        from peerage.imports.files import place_errors
        from peerage.imports.foreign_records import document
        from peerage.imports.prompt_files import read_answers

        with place_errors(answers):
            given["answers"] = read_answers(document(answers))
    return given


async def _run_session(
    council: Council, text: str, keywords: dict[str, Any], common: Common, held: list[SessionView]
) -> None:
    """Run the session and show it as it goes; append its view to `held`."""
    from peerage.doors.cli.terminal import watch

    console = open_terminal(stderr=common.json)
    live = not common.quiet and console.is_terminal
    async with council, council.begun(text, live=live, **keywords) as begun:
        held.append(begun.view)
        await watch(begun, console if live else None, common.quiet)


def _show_asked(view: SessionView, common: Common, full: bool) -> None:
    """Print the result on stdout, and failures on stderr."""
    if common.json:
        from peerage.reports.sessions import session_document

        write_json(session_document(view))
        return
    if common.quiet:
        _write_bare_verdict(view)
        return
    console = open_terminal()
    stored = Line(f"all reviews: peerage show {view.id}", "dim")
    console.show_blocks([*ask_blocks(view, full), stored])
    errors = open_terminal(stderr=True)
    for failure in view.failures if console.is_terminal else ():  # a pipe got them as they came
        errors.print(failure_line(failure), style="red")


def _write_bare_verdict(view: SessionView) -> None:
    """Print only the verdict on stdout, or on stderr why there is none."""
    if text := view.conclusion:
        write_line(text, multiline=True)
    elif lines := why_no_verdict(view):
        say("\n".join(lines))


def exit_code(session: Session, verdict: str) -> int:
    """Return 0 if done, 1 if rejected, 3 if the session ended early or decided nothing."""
    approved = None if session.verdict is None else session.verdict.approved
    if session.status != "done" or (verdict == "binary" and approved is None):
        return PARTIAL
    return REFUSED if approved is False else 0


# -- stored sessions -------------------------------------------------------------------------------


def sessions(
    *,
    options: Annotated[SessionsOptions, FLAT] = SessionsOptions(),
    common: Common = Common(),
) -> None:
    """List the latest sessions of the store."""
    common.write(common.reports().sessions(options), show_sessions)


def show(
    session: SessionId,
    /,
    *,
    raw: Annotated[bool, Parameter(help="Also show the raw replies.")] = False,
    markdown: Annotated[
        list[Path] | None,
        Parameter(
            consume_multiple=(0, 1),
            help="Write Markdown to stdout or to this file.",
            validator=(),
        ),
    ] = None,
    html: Annotated[
        Path | None, Parameter(help="Write an HTML page to this file.", validator=())
    ] = None,
    common: Common = Common(),
) -> None:
    """Show one complete session, as it was first scored."""
    if common.json:
        write_json(common.reports().session_document(session))
        return
    view = common.reports().session(session)
    if html is not None:
        from peerage.doors.render.pages import session_page

        common.write_page(html, session_page(view, raw))
    if markdown:
        common.write_page(markdown[0], blocks_markdown(session_blocks(view, raw)) + "\n")
    elif markdown is not None:
        write_line(blocks_markdown(session_blocks(view, raw)), multiline=True)
    elif common.quiet:
        _write_bare_verdict(view)
    elif html is None:
        open_terminal().show_blocks(session_blocks(view, raw))


def replay(
    session: SessionId,
    /,
    *,
    options: Annotated[ReplayOptions, WITH_NO] = ReplayOptions(),
    common: Common = Common(),
) -> None:
    """Score a stored session again with other options; no model is called."""
    common.write(common.reports().replay(session, options), show_scored)


# -- ballots of a file -----------------------------------------------------------------------------


def score(
    file: Annotated[
        str, Dash, Parameter(help="Ballots as JSON, JSONL, CSV or Parquet; - for stdin.")
    ],
    /,
    *,
    options: Annotated[ScoreOptions, FLAT] = ScoreOptions(),
    common: Common = Common(),
) -> int:
    """Score the ballots of a file; exit 3 if a session has no countable ballot.

    A file contains sessions as described in docs/ballots.md, rankings by name, rows of reviews
    (reviewer, candidate, rank or score; session optional), or comparisons (model_a, model_b,
    winner).
    """
    from peerage.reports import Reports

    document = _document(file)
    step = None if common.quiet else _step()
    sessions = Reports(common.settings()).score(document, options, file, step)
    if common.json:
        documents = [scored.document() for scored in sessions]
        write_json(documents if _are_many(document, documents) else documents[0])
    else:
        console = open_terminal()
        for scored in sessions:
            if len(sessions) > 1 and scored.session.id:
                console.print(f"session {scored.session.id}", style="bold")
            show_scored(console, scored, common.quiet)
    uncounted = [scored for scored in sessions if scored.counted and not scored.n_counted]
    for scored in uncounted:
        name = f"session {scored.session.id}: " if scored.session.id else ""
        say(f"{name}no ballot could be counted ({', '.join(dict.fromkeys(_reasons(scored)))}).")
    return PARTIAL if uncounted else 0


def _step() -> Callable[[str, int, int], None]:
    """Return a function that reports the progress of a long file on stderr."""
    import time

    told_at = time.monotonic()

    def step(what: str, done: int, total: int) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= SILENT_S:
            told_at = time.monotonic()
            say(f"{what}: {done:,} of {total:,}")

    return step


def _are_many(document: Any, documents: Sequence[object]) -> bool:
    """Return whether the JSON output is a list: for several sessions, or a list of sessions."""
    from peerage.ballot_files import is_rankings, is_rows

    bare = is_rows(document) or is_rankings(document)
    return isinstance(document, list) and (len(documents) > 1 or not bare)


def _reasons(scored: Scored) -> Iterator[str]:
    for ballot in scored.counted:
        kinds = (flag.partition(":") for flag in ballot.flags)
        whys = [why.replace("_", " ") for kind, _, why in kinds if kind == "abstained"]
        yield from whys or ["the reviewer has fewer than two answers of others to compare"]


def _document(file: str) -> Any:
    """Return a file as JSON values: a document, a list of them, or the rows of a table."""
    from peerage.ballot_files import read_json
    from peerage.engines.intake import rows_in

    suffix = Path(file).suffix.lower()
    if suffix in TABLES:
        return rows_in(Path(file), MAX_ROWS)
    data = _bytes(file)
    if suffix in LINES:
        return [
            read_json(line, f"{file}, line {i}")
            for i, line in enumerate(data.splitlines(), 1)
            if line.strip()
        ]
    if file == "-" and not data.lstrip().startswith((b"{", b"[")):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "stdin.csv"
            copy.write_bytes(data)
            return rows_in(copy, MAX_ROWS)
    return read_json(data, file)


def _bytes(file: str) -> bytes:
    if file == "-":
        return read_stdin()
    try:
        with Path(file).open("rb") as data:
            is_device = stat.S_ISCHR(os.fstat(data.fileno()).st_mode)
            if is_device and not data.isatty() and data.peek(1):  # such as /dev/zero: it never ends
                raise InputError("it is a device, not a file.", place=file)
            return data.read()
    except FileNotFoundError:
        raise InputError("the file does not exist.", place=file) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}.", place=file) from None
