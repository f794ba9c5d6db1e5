"""`peerage init` and `doctor`: write a starter file, and check what works."""

from __future__ import annotations

import asyncio
import json
import tempfile
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import chain, count, cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from peerage import config
from peerage.config.trust import ConsentError
from peerage.doors.cli.common_options import AS, MAP, Common, open_terminal
from peerage.doors.cli.screen import write_json, write_line
from peerage.doors.render.layout import Cell, TableColumn, TextTable
from peerage.dry_runs import check_seat
from peerage.errors import PeerageError, UsageError, how_many, install_command
from peerage.panel import COUNTED_VOTES
from peerage.providers.calling import Caller
from peerage.providers.local import FIX, TOY, available, local_seats
from peerage.providers.model_servers import ModelServer, model_servers
from peerage.providers.money import price_of
from peerage.seating import how_to_seat, panel_fault
from peerage.stores import missing_file, open_store, without_password
from peerage.types import Seat

if TYPE_CHECKING:
    from peerage.config import Settings

LOCAL_MODEL = "No key and no server was found, but the local model is installed"
MAX_SERVER_SEATS = 3  # of the models that one server offers
ENOUGH = 3  # seats, so that no single vote decides
TEMPERATURES = (0.2, 0.7, 1.0)
WRITTEN = (  # the keys of a seat that a starter file spells out, in this order
    *("name", "model", "family", "provider", "base_url", "api_key_env"),
    *("temperature", "system", "timeout_s", "options"),
)
HEADER = """\
# The panel of `peerage ask`, written by `peerage init`. Every key and its default:
# `docs/configuration.md`. Keys stay in the environment: a seat only names the variable.
# `peerage doctor` shows which seats answer, and their prices.

# store = "sqlite:///peerage.db"

[council]
{options}
# budget_usd = 1.0        # never spend more on one session, or on a whole season
"""
OPTIONS = """\
# rubric = "general"      # or "coding", "creative", "factual", "original"; false: one score
# verdict = "synthesis"   # or "debate", "binary" (a gate for CI), "tie_breaker", "none\""""
QUICK_OPTIONS = """\
rubric = false            # one score per answer: a rubric takes this model a minute more
verdict = "tie_breaker"   # the best answer: a synthesis makes this model read all answers again"""
EXAMPLES = """
# Any OpenAI-compatible endpoint can have a seat, and different families judge best together:
#
# [[seat]]
# name = "sonnet"
# model = "anthropic/claude-sonnet-4.5"
# base_url = "https://openrouter.ai/api/v1"
# api_key_env = "OPENROUTER_API_KEY"
#
# [[seat]]
# name = "gpt"
# model = "gpt-5-mini"
# base_url = "https://api.openai.com/v1"      # its key is in OPENAI_API_KEY
#
# [[seat]]
# name = "llama"
# model = "llama3.2"                          # a server of your own needs no key
# base_url = "http://127.0.0.1:11434/v1"
# price_in = 0.0                              # USD per million tokens, if no price is known
# price_out = 0.0
"""
UNPRICED = """\
# price_in = 0.0          # USD per million tokens: the price of this model is not known.
# price_out = 0.0         # Set both (0 if it is free), so that a budget can be kept.
"""
NEEDED = ("configuration", "store", "panel", "seat")  # checks that must succeed for a session
EXTRAS = {  # the package that shows whether an extra is installed, and the use of the extra
    "server": ("fastapi", "`peerage serve`: HTTP, web pages, OpenAI-compatible"),
    "mcp": ("mcp", "`peerage mcp`: a tool for assistants"),
    "postgres": ("psycopg", "a store on PostgreSQL"),
    "spark": ("pyspark", "boards on a cluster"),
    "frames": ("polars", "results as tables of pandas and polars"),
    "plots": ("matplotlib", "charts in notebooks"),
    "telemetry": ("opentelemetry", "traces of a server"),
    "signing": ("cryptography", "passports of judges"),
}


# -- a starter file --------------------------------------------------------------------------------


def init(*, common: Common = Common()) -> None:
    """Write a starter peerage.toml for the API keys and model servers found on this machine.

    An existing file is never overwritten, unless it is the one with examples only that this command
    writes if it finds nothing.

    It looks for vendors' keys in the environment, for Ollama, llama.cpp, vLLM and LM Studio on
    their usual loopback ports, and for the installed local model. It asks no questions, and writes
    no key into the file.
    """
    path = config.find(common.config) or config.FILE
    is_blank = _is_blank_starter(path)
    if not is_blank and (path.exists() or path.is_symlink()):
        raise UsageError(
            "the file already exists, and was not changed.",
            place=str(path),
            hint="To check it: peerage doctor. To write another file: --config FILE. To start "
            "again: delete it, then peerage init.",
        )
    sources = _seats_by_source()
    all_seats = [seat for seats in sources.values() for seat in seats]
    try:
        with path.open("w" if is_blank else "x", encoding="utf-8") as out:
            out.write(starter(sources) + _other_keys(seat.get("api_key_env") for seat in all_seats))
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot be written: {reason}.", place=str(path)) from None
    if common.json:
        write_json({"file": str(path), "seats": [seat["name"] for seat in all_seats]})
        return
    for source, seats in sources.items():
        write_line(f"{source}: {', '.join(seat['name'] for seat in seats)}")
    if not all_seats:
        write_line(
            "No key, no server and no local model was found: the file has examples to fill in. "
            f"Or try a small model: {FIX}"
        )
    then = 'peerage doctor, then peerage ask "…"' if all_seats else "edit it, then peerage doctor"
    write_line(f"wrote {path}. Next: {then}")


def _is_blank_starter(path: Path) -> bool:
    """Return whether a file is what `init` writes if it finds no key, server or local model."""
    try:
        return not path.is_symlink() and path.read_text(encoding="utf-8") == starter({})
    except (OSError, ValueError):
        return False


def starter(seats_by_source: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the text of a starter file with these seats, or only with examples."""
    all_seats = [seat for seats in seats_by_source.values() for seat in seats]
    is_local = bool(all_seats) and all(seat.get("provider") == "local" for seat in all_seats)
    parts = [HEADER.format(options=QUICK_OPTIONS if is_local else OPTIONS)]
    for source, seats in seats_by_source.items():
        parts.append(f"\n# {source}\n")
        parts += [f"# {line}\n" for line in textwrap.wrap(TOY, 95) if source == LOCAL_MODEL]
        for seat in seats:
            lines = [f"{key} = {_toml(seat[key])}\n" for key in WRITTEN if seat.get(key)]
            parts += ["\n[[seat]]\n", *lines]
            if price_of(Seat(**{key: seat[key] for key in WRITTEN if key in seat})) is None:
                parts.append(UNPRICED)
    return "".join(parts) + EXAMPLES


def _other_keys(used: Iterable[str | None]) -> str:
    """Return a comment for each vendor's key that is set but that no seat uses."""
    used = set(used)
    host_by_key = {key: host for host, keys in config.KEY_NAMES.items() for key in keys}
    return "".join(
        f"\n# {key} is set too: add a seat with a model of {host}.\n"
        for key, host in host_by_key.items()
        if key not in used and config.secret(key)
    )


def _toml(value: object) -> str:
    """Return a value as TOML; a text is written in ASCII, as in JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(value[key])}" for key in value) + " }"
    return json.dumps(value)


def _seats_by_source() -> dict[str, list[dict[str, Any]]]:
    """Return seats for the keys and servers found; if there are none, those of the local model."""
    sources: dict[str, list[dict[str, Any]]] = {}
    names: set[str] = set()
    for seat in config.default_seats():
        sources.setdefault(f"For the key in {seat['api_key_env']}", []).append(seat)
        names.add(seat["name"])
    for server in model_servers():
        sources[f"{server.name} at {server.base_url}"] = _server_seats(server, names)
    if not sources and available() is None:
        sources[LOCAL_MODEL] = [asdict(seat) for seat in local_seats()]
    return sources


def _server_seats(server: ModelServer, names: set[str]) -> list[dict[str, Any]]:
    """Return a seat for each of a server's first models, at least ENOUGH seats in all.

    If there are too few models, a model gets several seats, which differ in temperature. The names
    of the new seats are added to `names`.
    """
    seats: list[dict[str, Any]] = [
        {"name": _new_name(id_, names), "model": id_, "base_url": server.base_url}
        for id_ in server.models[:MAX_SERVER_SEATS]
    ]
    if len(names) >= ENOUGH:
        return seats
    again = islice(cycle(list(seats)), ENOUGH - len(seats))
    seats += [{**seat, "name": _new_name(seat["model"], names)} for seat in again]
    return [
        {**seat, "temperature": temperature}
        for seat, temperature in zip(seats, TEMPERATURES, strict=True)
    ]


def _new_name(model: str, names: set[str]) -> str:
    """Return a name for a seat from its model, without folders; numbered if already used."""
    base = model.rstrip("/").rpartition("/")[2] or model
    in_use = {name.casefold() for name in names}
    numbered = (f"{base}-{n}" for n in count(2))
    name = next(name for name in chain([base], numbered) if name.casefold() not in in_use)
    names.add(name)
    return name


# -- what works ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Check:
    """One check; `fix` is empty if nothing is wrong."""

    what: str
    ok: bool
    finding: str
    fix: str = ""
    calls: str = ""  # for a seat: the model that it calls, and its address
    price: str = ""


def doctor(
    file: Annotated[Path | None, Parameter(help="File or folder of judgements to check.")] = None,
    /,
    *,
    format: Annotated[str | None, Parameter(name="--as", help=AS)] = None,
    columns: Annotated[str, Parameter(name="--map", help=MAP)] = "",
    common: Common = Common(),
) -> int:
    """Check the configuration and every seat, or a file of judgements.

    Without a file, each seat is asked for one word and a tiny review; the exit code is 0 if a
    session could be run.
    """
    if file is not None:
        from peerage.doors.render.file_views import show_diagnosis
        from peerage.imports.diagnosis import diagnose

        common.write(diagnose(file, format, columns), show_diagnosis)
        return 0
    checks = asyncio.run(_checks(common))
    if common.json:
        write_json({"checks": [asdict(check) for check in checks]})
    else:
        open_terminal().show_table(checks_table(checks))
    needed = [check for check in checks if check.what.startswith(NEEDED)]
    return 0 if all(check.ok for check in needed) else 1


async def _checks(common: Common) -> list[Check]:
    try:
        settings = common.council_settings()
    except ConsentError:
        raise
    except PeerageError as error:
        return [Check("configuration", False, str(error), "Correct the file.")]
    path = config.find(common.config)
    none = Check("seats", False, "no seat is configured", how_to_seat(settings))
    checks = [
        Check("configuration", True, str(path) if path else "the defaults, no file"),
        _store(settings.store),
        _panel(settings) if settings.seats else none,
    ]
    caller = Caller()
    try:
        tried = await asyncio.gather(*(check_seat(caller, seat) for seat in settings.seats))
        for seat, result in zip(settings.seats, tried, strict=True):
            checks.append(Check(f"seat {seat.name}", **asdict(result)))
    finally:
        await caller.close()
    return [*checks, *_extras()]


def _store(url: str) -> Check:
    if (file := missing_file(url)) is not None:
        try:
            with tempfile.TemporaryFile(dir=file.absolute().parent):
                return Check("store", True, f"{url} (will be created on first use)")
        except OSError as error:
            why = f"{url} cannot be created: {error.strerror} ({file.absolute().parent})"
            return Check("store", False, why, "Choose another with --store.")
    try:
        n = len(open_store(url).sessions())
    except PeerageError as error:
        return Check("store", False, str(error), "Choose another with --store.")
    return Check("store", True, f"{without_password(url)}, {how_many(n, 'session')}")


def _panel(settings: Settings) -> Check:
    """Return the number of calls that one question makes, and to which seats."""
    n_answers, n_reviews = (len(settings.seats_that(role)) for role in ("answer", "review"))
    verdict = settings.council.verdict
    n_chair = {"none": 0, "tie_breaker": 0, "binary": n_reviews}.get(verdict, 1)
    n = n_answers + n_reviews * settings.council.rounds + n_chair
    tied = f", or {n + 1} with a tie" if verdict == "tie_breaker" else ""
    calls = f"about {how_many(n, 'call')}{tied}: {n_answers} to answer, {n_reviews} to review"
    rubric = settings.council.rubric or "none, one score per answer"
    finding = f"one question makes {calls}, verdict {verdict}, rubric {rubric}"
    try:
        fault = panel_fault(settings)
    except PeerageError as error:  # an unknown rule or moderator
        return Check("panel", False, error.message, error.hint)
    return Check("panel", False, fault, COUNTED_VOTES) if fault else Check("panel", True, finding)


def _extras() -> list[Check]:
    """Return the optional features, with the command that installs each."""
    missing = available()
    toy = "a toy model of 135 million parameters in this process, without a key"
    checks = [Check("local model", missing is None, toy, missing or "")]
    for name, (module, use) in EXTRAS.items():
        is_there = find_spec(module) is not None
        fix = "" if is_there else install_command(name)
        checks.append(Check(f"extra {name}", is_there, use, fix))
    return checks


def checks_table(checks: Sequence[Check]) -> TextTable:
    """Return the checks as a table, with the fix below each problem."""
    table = TextTable(
        TableColumn("", "word"), TableColumn("check", "name"), TableColumn("finding", "text")
    )
    for check in checks:
        needed = check.what.startswith(NEEDED)
        missing = Cell("✗", "red") if needed else Cell("–", "dim")
        mark = Cell("✓", "green") if check.ok else missing
        first, *more = check.finding.splitlines() or [""]
        table.add(mark, check.what, first)
        for line in more:  # of a configuration with several mistakes
            table.add("", "", line.strip())
        if check.fix:
            table.add("", "", Cell(f"→ {check.fix}", "yellow"))
    return table
