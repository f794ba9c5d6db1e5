"""Options that only the command line has: where the data is, and how output is written.

The options of reports are in `peerage.reports.options`, those of sessions in
`peerage.reports.session_options`; each field of those models becomes an option.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

from cyclopts import Parameter

from peerage.doors.cli.screen import confirm, say, write_file, write_json
from peerage.errors import PeerageError, UsageError
from peerage.reports import InputTables, Reports

if TYPE_CHECKING:
    from peerage.config import Settings
    from peerage.config.trust import Permission
    from peerage.doors.cli.terminal import Terminal
    from peerage.doors.render.layout import Block
    from peerage.imports.formats import Format

NO_FLAGS: Mapping[str, object] = MappingProxyType({})
LIKE_AN_OPTION = re.compile(r"--?[A-Za-z][\w-]*")

STORE = "The store: sqlite:///FILE or postgresql://HOST/DATABASE. Default: sqlite:///peerage.db."
AS = "Format of a file, such as arena or inspect; detected by default."
MAP = "Columns of a file of unknown format: candidate=…,reviewer=…,score=…"
CONFIG = "Configuration file. Default: ./peerage.toml."

FLAT = Parameter(name="*", consume_multiple=True)  # the fields of a model, each as an option
WITH_NO = Parameter(name="*", negative_bool="no-")  # the same, with --no-… for each switch


def _no_option(_: object, value: str) -> None:
    """Raise an error if a question or file looks like a mistyped option; `--` allows anything."""
    if LIKE_AN_OPTION.fullmatch(value) and "--" not in sys.argv:
        raise UsageError(f"there is no option {value}.", hint="Try --help.")


Dash = Parameter(allow_leading_hyphen=True, validator=_no_option)  # takes - for stdin


class Documented(Protocol):
    """A result with a documented JSON form."""

    def document(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Documented)


@FLAT
@dataclass(frozen=True)
class Common:
    """Options of every command."""

    store: Annotated[str | None, Parameter(help=STORE)] = None
    config: Annotated[Path | None, Parameter(help=CONFIG)] = None
    json: Annotated[bool, Parameter(help="Print one JSON document on stdout.")] = False
    quiet: Annotated[bool, Parameter(help="Print only the result.")] = False

    def where(self) -> str:
        """Return --store and --config as given, to repeat them in a suggested command."""
        from peerage.stores import without_password

        store = self.store and without_password(self.store)
        options = {"--store": store, "--config": self.config}
        return "".join(f" {name} {quote(str(value))}" for name, value in options.items() if value)

    def settings(self, flags: Mapping[str, object] = NO_FLAGS) -> Settings:
        """Return the settings, with flags by their dotted names."""
        from peerage import config

        given = {**flags, "store": self.store}
        return _load(lambda: config.load(self.config, flags=given))

    def council_settings(self, flags: Mapping[str, object] = NO_FLAGS) -> Settings:
        """Return the settings, with the default panel if no seat is configured."""
        from peerage.seating import settings_of

        given = {**flags, "store": self.store}
        return _load(lambda: settings_of(self.config, given))

    def reports(self, tables: InputTables | None = None, *, makes_store: bool = False) -> Reports:
        """Return the reports over these tables, or over the store.

        A store that was named must exist, unless `makes_store` is set. If the default store does
        not exist yet, an empty store in memory is read, and no file is created.
        """
        from peerage.config import with_flags
        from peerage.stores import NO_STORE, missing_file

        settings = self.settings()
        is_named = self.store is not None or settings.store != type(settings)().store
        if not (is_named or makes_store) and missing_file(settings.store) is not None:
            settings = with_flags(settings, {"store": NO_STORE})
        must_exist = is_named and not makes_store
        return Reports(settings, tables or InputTables(), must_exist)

    def write(self, result: R, show: Callable[[Terminal, R, bool], None]) -> None:
        """Write a result to stdout: its JSON, or the output of `show`."""
        if self.json:
            write_json(result.document())
        else:
            show(open_terminal(), result, self.quiet)

    def write_blocks(self, result: R, blocks: Callable[[R, bool], Iterable[Block]]) -> None:
        """Write a result to stdout: its JSON, or its blocks."""
        self.write(result, lambda screen, one, quiet: screen.show_blocks(blocks(one, quiet)))

    def write_file(self, path: Path, write_to: Callable[[Path], Any]) -> None:
        """Let a function write a file, completely or not at all, and print the file's name."""
        write_file(path, write_to)
        if not self.quiet:
            say(f"wrote {path}")

    def write_page(self, path: Path, page: str) -> None:
        """Write a text to a file."""
        self.write_file(path, lambda fresh: fresh.write_text(page, encoding="utf-8"))


Files = Annotated[
    tuple[Path, ...], Parameter(help="Files or folders of judgements to read instead of the store.")
]


class InputFiles:
    """Tables to read instead of those in the store."""

    def tables(self, against: Path | None = None, item_weights: Path | None = None) -> InputTables:
        return InputTables(**vars(self), against=against, item_weights=item_weights)


@FLAT
@dataclass(frozen=True)
class ReviewFiles(InputFiles):
    """Reviews to read instead of those in the store."""

    reviews: Annotated[
        list[str] | None,
        Parameter(help="Table of reviews to read instead of the store; repeatable."),
    ] = None
    engine: Annotated[str, Parameter(help="Engine: duckdb or spark.")] = "duckdb"
    master: Annotated[str | None, Parameter(help="Spark's master URL, with --engine spark.")] = None


@FLAT
@dataclass(frozen=True)
class JudgementFiles(ReviewFiles):
    """Reviews to read instead of those in the store, also from files in other formats."""

    format: Annotated[str | None, Parameter(name="--as", help=AS)] = None
    columns: Annotated[str, Parameter(name="--map", help=MAP)] = ""

    @contextmanager
    def open(
        self,
        files: Sequence[Path],
        against: Path | None = None,
        item_weights: Path | None = None,
        known_format: Format | None = None,
    ) -> Iterator[InputTables]:
        """Yield the tables of these options, together with files of judgements in any format.

        `known_format` is the format of the files, if the user named their columns.
        """
        tables = ReviewFiles(self.reviews, self.engine, self.master).tables(against, item_weights)
        is_told = self.format is not None or bool(self.columns)
        paths = [*files, *map(Path, self.reviews or ())]
        if not paths and is_told:
            raise UsageError(
                "--as and --map say how to read files, and no file is named.",
                hint="Name one, as in: peerage board models grades.csv --map score=rating",
            )
        if not files and not is_told:
            yield tables
            return
        from peerage.imports.files import open_reviews

        with open_reviews(paths, known_format or self.format, self.columns, note=say) as reviews:
            yield replace(tables, reviews=reviews)


@FLAT
@dataclass(frozen=True)
class OpinionFiles(InputFiles):
    """Opinions, items and users to read instead of those in the store."""

    opinions: Annotated[str | None, Parameter(help="Table of opinions; default: the store's.")] = (
        None
    )
    items: Annotated[str | None, Parameter(help="Table of item_id and contributor.")] = None
    users: Annotated[str | None, Parameter(help="Table of user_id and affiliated.")] = None
    engine: Annotated[str, Parameter(help="Engine: duckdb or spark.")] = "duckdb"
    master: Annotated[str | None, Parameter(help="Spark's master URL, with --engine spark.")] = None


def confirm_unranked(error: PeerageError) -> None:
    """Ask the user whether to continue without votes; raise the error if there is no terminal."""
    goes_on = confirm(f"{error}\nContinue without a ranking?")
    if goes_on is None:
        raise error
    if not goes_on:
        raise UsageError("stopped before any model was called.")


def open_terminal(*, stderr: bool = False) -> Terminal:
    """Return the console for tables and colours; its library is loaded only when needed."""
    from peerage.doors.cli.terminal import Terminal

    return Terminal(stderr=stderr)


def _load(load: Callable[[], Settings]) -> Settings:
    """Load settings, ask for the consent that they need, and print their notes to stderr."""
    from peerage.config.trust import ConsentError, grant

    try:
        settings = load()
    except ConsentError as error:
        for permission in error.missing:
            if not confirm_permission(permission, error):
                raise UsageError(f"stopped: not allowed to {permission}.") from None
            grant(error.folder, [permission])
        settings = load()
    for note in settings.notes:
        say_once(note)
    return settings


def confirm_permission(permission: Permission, error: PeerageError) -> bool:
    """Ask whether a folder's file may do this; raise the error if there is no terminal."""
    answer = confirm(f"this folder's peerage.toml wants to {permission}; allow it here?")
    if answer is None:
        raise error
    return answer


say_once = lru_cache(maxsize=1024)(say)
