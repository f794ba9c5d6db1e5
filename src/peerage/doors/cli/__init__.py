"""The command line: parse, call, render. A command's module is imported when it runs."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from peerage.doors.cli.screen import (
    INTERRUPTED,
    HelpPage,
    ReaderLeftError,
    close_streams,
    prepare_streams,
    say,
    write_line,
)
from peerage.errors import PeerageError, UsageError, shown, without_keys
from peerage.paths import refuse_special_files
from peerage.text import is_unicode
from peerage.types import OLD_OWN_VOTES, own_votes_hint

COMMANDS = {  # the function of each command, its help text, and examples
    "peerage.doors.cli.setup_commands:init": """
        Write a starter peerage.toml for the keys and servers found here.
        peerage init
        peerage init --config team.toml""",
    "peerage.doors.cli.trust_command:trust": """
        Allow what this folder's peerage.toml does beyond configuring, list it, or end it.
        peerage trust
        peerage trust --list
        peerage trust --revoke""",
    "peerage.doors.cli.session_commands:ask": """
        Put a question to the council, and watch it answer, review and conclude.
        peerage ask "Why is the sky blue?"
        peerage ask "Is this migration safe?" --verdict binary --quiet && ./deploy
        git diff | peerage ask - --seats sonnet,gpt,gemini --category code
        peerage ask "And at sunset?" --after 3f9a""",
    "peerage.doors.cli.session_commands:decide": """
        Let the panel vote on typed questions about a text, by probability.
        peerage decide "Charged twice!" --predicate "The message is urgent."
        peerage decide - --choice "Who answers? | billing | sales" --json < mail.txt
        peerage decide "Charged twice!" --score "anger=How angry? | calm | cross" --quiet""",
    "peerage.doors.cli.run:run": """
        Run a season: one session for every row of a file.
        peerage run prompts.jsonl --dry-run
        peerage run prompts.jsonl --concurrency 8 --budget-usd 5
        peerage run answers.csv --verdict none --json""",
    "peerage.doors.cli.session_commands:score": """
        Score ballots from anywhere: no store, no network, no model.
        peerage score ballots.json --rubric general
        peerage score votes.csv --rule schulze --json
        echo '[["a", "b"], ["b", "a"], ["a", "b"]]' | peerage score -""",
    "peerage.doors.cli.data_commands:import_": """
        Import judgements made elsewhere; each file completely or not at all.
        peerage import votes.json
        peerage import opinions.csv --as opinions --store sqlite:///community.db
        peerage import grades.csv --map session_id=question,reviewer=columns
        peerage import backup""",
    "peerage.doors.cli.board_commands:board": """
        Rank models, or a community's people and items.""",
    "peerage.doors.cli.board_commands:audit": """
        Audit the reviewers: who is biased, and how sure is that?
        peerage audit
        peerage audit reviews.csv --fail-on evidence
        peerage audit --session 3f9a --json""",
    "peerage.doors.cli.label_command:label": """
        Label answers of a file as pass or fail, one key each; the file itself is not changed.
        peerage label answers.csv
        peerage label answers.csv --person ann && peerage audit answers.csv""",
    "peerage.doors.cli.judge_commands:advise": """
        Say which judges a panel needs, and which cheaper panel gives the same board.
        peerage advise
        peerage advise --within 0.03 --price gpt=0.004 sonnet=0.006
        peerage advise --reviews reviews.csv --json""",
    "peerage.doors.cli.judge_commands:anchors": """
        Have judges mark the same stored answers again, and say when a judge has changed.""",
    "peerage.doors.cli.judge_commands:rejudge": """
        Have other judges review the stored answers of a season, and show what changes.
        peerage rejudge 624c --with sonnet,gpt
        peerage rejudge 624c --with sonnet --dry-run
        peerage rejudge 624c --with sonnet --budget-usd 2
        peerage rejudge 624c --json""",
    "peerage.doors.cli.judge_commands:passport": """
        Write a signed record of a reviewer, which anyone can recompute from the log.
        peerage passport sonnet --output sonnet.json
        peerage passport sonnet --key team-key.pem""",
    "peerage.doors.cli.judge_commands:verify": """
        Recompute a passport from a store, and show whether it is the same or what differs.
        peerage verify sonnet.json --store sqlite:///team.db""",
    "peerage.doors.cli.gate_commands:gate": """
        Decide whether a candidate is worse than its base, with as few reviews as possible.
        peerage gate --base old --candidate new
        peerage gate --base old --candidate new --season 624c --markdown
        peerage gate --base old --save-baseline baseline.json
        peerage gate --candidate new --against baseline.json""",
    "peerage.doors.cli.gate_commands:check": """
        Check requirements on a board, allowing for the uncertainty of its values.
        peerage check --require "sonnet >= gpt - 0.05 on coding"
        peerage check --require "share(sonnet) > 0.5" --undecided pass""",
    "peerage.doors.cli.board_commands:diff": """
        Compare two seasons, files or stores: models that moved, and the reviews that moved them.
        peerage diff 624c 91ab
        peerage diff march.jsonl april.jsonl --markdown
        peerage diff old.db new.db --json""",
    "peerage.doors.cli.board_commands:rings": """
        Find voting rings, with the evidence.
        peerage rings
        peerage rings --opinions opinions.csv --users users.csv --json""",
    "peerage.doors.cli.session_commands:sessions": """
        List the latest sessions of the store.
        peerage sessions
        peerage sessions --search rainbow --tag good
        peerage sessions --limit 100 --json""",
    "peerage.doors.cli.data_commands:tag": """
        Add tags to sessions, or remove some.
        peerage tag 3f9a --add good
        peerage tag 3f9a 77b0 --add reviewed --remove draft""",
    "peerage.doors.cli.data_commands:delete": """
        Leave sessions, seasons or imports out of boards, audits and lists.
        peerage delete 3f9a
        peerage delete --season 624c --yes
        peerage delete --import 2
        peerage delete 3f9a --undo""",
    "peerage.doors.cli.data_commands:imports": """
        List the tables that were imported.
        peerage imports
        peerage imports --deleted""",
    "peerage.doors.cli.session_commands:show": """
        Show one session in full, as it was scored then.
        peerage show 3f9a
        peerage show 3f9a --raw
        peerage show 3f9a --html session.html""",
    "peerage.doors.cli.session_commands:replay": """
        Score a stored session again with other options; no model is called.
        peerage replay 3f9a --rule schulze
        peerage replay 3f9a --rubric none --own-votes in --json""",
    "peerage.doors.cli.data_commands:export": """
        Write the whole store as JSONL and Parquet, which `peerage import` can read again.
        peerage export backup
        peerage export --reviews reviews.parquet
        peerage export votes.jsonl --as arena
        peerage export --as otlp""",
    "peerage.doors.cli.data_commands:merge": """
        Merge files of reviews with one review per line, such as two versions in git.
        peerage merge a.jsonl b.jsonl --to both.jsonl""",
    "peerage.doors.cli.data_commands:publish": """
        Write the board, the audit and the sessions as pages for a web server or a folder.
        peerage publish site
        peerage publish site --season 624c --people""",
    "peerage.doors.cli.data_commands:move": """
        Copy the whole store into another, such as one on PostgreSQL, and compare the two.
        peerage move --to postgresql://db.example.org/peerage
        peerage move --store sqlite:///old.db --to sqlite:///new.db""",
    "peerage.doors.cli.server_commands:serve": """
        Serve the council over HTTP: sessions, boards, audits, live events.
        peerage serve
        peerage serve --port 8500 --store sqlite:///team.db""",
    "peerage.doors.cli.server_commands:token": """
        Create, list and revoke the tokens of a server.""",
    "peerage.doors.cli.server_commands:mcp": """
        Give agents the council as tools (MCP), over stdin and stdout.
        peerage mcp
        peerage mcp --config team.toml""",
    "peerage.doors.cli.setup_commands:doctor": """
        Show what works here and what is missing, or what a file of judgements can show.
        peerage doctor
        peerage doctor votes.csv
        peerage doctor --config team.toml --json""",
    "peerage.doors.cli.demo:demo": """
        Take a tour, with no key and no network.
        peerage demo
        peerage demo "Why do cats purr?" --no-pause""",
}
TABLE_OPTIONS = {  # the option that names a table, for commands that take no argument
    **dict.fromkeys(("gate", "check"), "--reviews"),
    **dict.fromkeys(
        ("rings", "board contributors", "board reviewers", "board items"), "--opinions"
    ),
}


def version() -> None:
    """Show the version."""
    from importlib.metadata import version

    write_line(f"peerage {version('peerage')}")


OWN_VOTES = "--own-votes"
STARTUP_FILES = (".bashrc", ".zshrc")  # in the home folder; fish needs none


def install_completion() -> None:
    """Install completion for bash, zsh or fish: a file in your home, and lines in the startup file.

    The command names every file that it changes.
    """
    from cyclopts.completion.detect import ShellDetectionError

    startup_files = [Path.home() / name for name in STARTUP_FILES]
    before = [_bytes_of(file) for file in startup_files]
    try:
        written = app.install_completion()
    except ShellDetectionError:
        raise UsageError(
            "your shell could not be detected.", hint="Set SHELL to the path of bash, zsh or fish."
        ) from None
    except OSError as error:
        place = str(error.filename or Path.home())
        raise UsageError(f"cannot be written: {error.strerror}.", place=place) from None
    write_line(f"wrote {written}")
    for file, content in zip(startup_files, before, strict=True):
        if _bytes_of(file) != content:
            write_line(f"added two lines that load it to {file}")
    write_line("completion works in the next shell")


def _bytes_of(file: Path) -> bytes | None:
    """Return the bytes of a file, or None if it cannot be read."""
    try:
        return file.read_bytes()
    except OSError:
        return None


def _default(value: object) -> str | None:
    """Return a default as text for help, or None for unset values and switches that are off."""
    return None if value in (None, False, "", ()) else str(value)


app = App(
    name="peerage",
    help="Peer review for language models: blind ballots, honest scores, audited reviewers.",
    help_flags=("--help", "-h"),
    help_format="plaintext",
    help_formatter=HelpPage(),
    version_flags=(),
    default_parameter=Parameter(
        negative_bool=(),
        negative_iterable=(),
        negative_none=(),
        show_default=_default,
        validator=refuse_special_files,
    ),
)
for _order, (_path, _text) in enumerate(COMMANDS.items()):
    _about, *_examples = textwrap.dedent(_text).strip().splitlines()
    _page: dict[str, Any] = {"help_formatter": HelpPage(*_examples)} if _examples else {}
    _name = _path.partition(":")[2].rstrip("_")
    app.command(_path, name=_name, help=_about, sort_key=_order, **_page)
app.command(version, name="--version")
app.command(install_completion, name="--install-completion")


def main() -> None:
    """Run the command line; a user's mistake gives one paragraph, never a traceback."""
    try:
        prepare_streams()
        code = _run(sys.argv[1:])
    except ReaderLeftError as error:
        code = error.exit_code
    except PeerageError as error:
        say(str(error))
        code = error.exit_code
    except CycloptsError as error:
        command = " ".join(["peerage", *(error.command_chain or ())])
        problem = _explain_unexpected(error) if isinstance(error, UnusedCliTokensError) else error
        say(f"{without_keys(str(problem))} Try `{command} --help`.")
        code = UsageError.exit_code
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        say(without_keys(f"{place}{error.strerror or error}."))
        code = UsageError.exit_code
    except MemoryError:
        say("there is not enough memory for this. Read fewer files, or a shorter window (--since).")
        code = UsageError.exit_code
    except KeyboardInterrupt:
        say("interrupted.")
        code = INTERRUPTED
    sent = close_streams()
    sys.exit(code if sent or code else UsageError.exit_code)


def _explain_unexpected(error: UnusedCliTokensError) -> str:
    """Return the message for an unexpected argument."""
    chain, word = " ".join(error.command_chain or ()), shown((error.unused_tokens or [""])[0])
    if option := TABLE_OPTIONS.get(chain):
        return (
            f"unexpected argument {word}: {chain} takes no arguments. To name a table: "
            f"{option} FILE."
        )
    return f"unexpected argument {word}."


def _with_new_words(arguments: list[str]) -> list[str]:
    """Return the arguments with words of earlier versions replaced; print a hint for each."""
    replaced = list(arguments)
    for i, argument in enumerate(arguments):
        flag, _, value = argument.rpartition("=")
        before = arguments[i - 1] if i else ""
        word = value if flag == OWN_VOTES else argument if before == OWN_VOTES else ""
        if word in OLD_OWN_VOTES:
            say(f"{OWN_VOTES}: {own_votes_hint(word)}")
            replaced[i] = argument.removesuffix(word) + OLD_OWN_VOTES[word]
    return replaced


def _run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    for number, argument in enumerate(arguments, 1):
        if not is_unicode(argument):
            raise UsageError(f"argument {number} is not UTF-8 text: {argument}")
    code = app(
        _with_new_words(arguments),
        exit_on_error=False,
        print_error=False,
        verbose=False,
        result_action="return_value",
    )
    return code if isinstance(code, int) else 0
