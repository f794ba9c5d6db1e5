"""`peerage doctor`: which seats answer, what each can do, what is missing, and the fix."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from peerage import config
from peerage.config.keys import OPENAI_URL
from peerage.doors.cli.options import Common
from peerage.doors.cli.screen import write_json
from peerage.errors import PeerageError
from peerage.panel import NO_SEATS
from peerage.providers import Call, Reply
from peerage.providers.calling import Caller
from peerage.providers.money import PER_TOKEN, Price
from peerage.stores import missing_file, open_store, without_password
from peerage.types import Failure, Query, Seat

if TYPE_CHECKING:
    from peerage.config import Settings
    from peerage.doors.render.layout import TextTable

PING = "Reply with the single word: ready."
PING_SECONDS = 20.0
NEEDED = ("configuration", "store", "seat")  # the rest a session can do without
EXTRAS = {  # the package that is looked for, the part of us that needs it, and what for
    "server": ("fastapi", "serve", "`peerage serve`: HTTP, web pages, OpenAI-compatible"),
    "mcp": ("mcp", "mcp", "`peerage mcp`: a tool for assistants"),
    "postgres": ("psycopg", "postgresql", "a store on PostgreSQL"),
    "spark": ("pyspark", "spark", "boards on a cluster"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at; the fix is empty where nothing is wrong."""

    what: str
    ok: bool
    finding: str
    fix: str = ""
    calls: str = ""  # of a seat: the model, and where it is
    price: str = ""


def doctor(*, common: Common = Common()) -> int:
    """Ask each seat for one word, and look at the rest; 0 when a session could be held."""
    checks = asyncio.run(_checks(common))
    if common.json:
        write_json({"checks": [asdict(check) for check in checks]})
    else:
        _show(checks)
    needed = [check for check in checks if check.what.startswith(NEEDED)]
    return 0 if all(check.ok for check in needed) else 1


async def _checks(common: Common) -> list[Check]:
    try:
        settings = common.council_settings()
    except PeerageError as error:
        return [Check("configuration", False, str(error), "Correct the file.")]
    found = config.find(common.config)
    checks = [Check("configuration", True, str(found) if found else "the defaults, no file")]
    checks.append(_store(settings.store))
    if settings.seats:
        checks.append(_panel(settings))
    else:
        checks.append(Check("seats", False, "there are none", NO_SEATS))
    caller = Caller()
    try:
        checks += await asyncio.gather(*(_seat(caller, seat) for seat in settings.seats))
    finally:
        await caller.close()
    return [*checks, *_extras()]


def _store(url: str) -> Check:
    if missing_file(url) is not None:
        return Check("store", True, f"{url} (will be made when first used)")
    try:
        store = open_store(url)
        n = len(store.sessions())
    except PeerageError as error:
        return Check("store", False, str(error), "Choose another with --store.")
    return Check("store", True, f"{without_password(url)}, {n} sessions")


async def _ping(caller: Caller, seat: Seat) -> Reply | Failure:
    """A seat's reply to the shortest question there is."""
    call = Call(seat, "answer", PING, f"doctor|{seat.name}", Query(PING), max_tokens=16)
    reply = await asyncio.wait_for(caller.call(call), PING_SECONDS)
    if isinstance(reply, Failure) and reply.kind == "out_of_tokens":
        return Reply("")  # it thinks before it speaks, so it is there
    return reply


async def answers(caller: Caller, seat: Seat) -> bool:
    """Whether a seat replies when it is asked."""
    try:
        return isinstance(await _ping(caller, seat), Reply)
    except (TimeoutError, PeerageError):
        return False


async def _seat(caller: Caller, seat: Seat) -> Check:
    name = f"seat {seat.name}"
    calls = _calls(seat)
    try:
        price = _price(caller.channel(seat).price)
        reply = await _ping(caller, seat)
    except TimeoutError:
        late = f"no reply in {PING_SECONDS:.0f} s; {calls}"
        return Check(name, False, late, FIXES["timeout"], calls)
    except PeerageError as error:
        return Check(name, False, error.message, error.hint or "Correct the seat.", calls)
    if isinstance(reply, Failure):
        failed = f"{reply.kind}: {reply.message}; {calls}; {price}"
        return Check(name, False, failed, FIXES.get(reply.kind, ""), calls, price)
    can = "held to a schema" if caller.can_constrain(seat) else "free text only"
    variable = config.key_name(seat)
    unset = variable and config.secret(variable) is None
    fix = f"{variable} is not set: it answered without a key." if unset else ""
    finding = f"{calls}; {price}; answers in {reply.latency_ms or 0:.0f} ms; {can}"
    return Check(name, True, finding, fix, calls, price)


def _calls(seat: Seat) -> str:
    """What a seat calls, and where."""
    model = seat.model or "a model without a name"
    places = {
        "openai": f"{model} at {seat.base_url or OPENAI_URL}",
        "local": f"{model} in this process",
        "simulated": "nobody: it is simulated",
    }
    return places.get(seat.provider, f"{model} by {seat.provider}")


def _price(price: Price | None) -> str:
    if price is None:
        return "price unknown"
    first = price.steps[0]
    if not (first.token_in or first.token_out):
        return "free"
    in_, out = first.token_in / PER_TOKEN, first.token_out / PER_TOKEN
    more = ", more for long prompts" if len(price.steps) > 1 else ""
    return f"${in_:g} in, ${out:g} out per million tokens{more}"


def _panel(settings: Settings) -> Check:
    """How many calls one question makes, and who makes them."""
    n_answers, n_reviews = (len(settings.seats_that(role)) for role in ("answer", "review"))
    verdict = settings.council.verdict
    n_chair = {"none": 0, "binary": n_reviews}.get(verdict, 1)
    n = n_answers + n_reviews * settings.council.rounds + n_chair
    said = f"a question takes about {n} calls: {n_answers} answer, {n_reviews} review"
    rubric = settings.council.rubric or "none, one score an answer"
    return Check("panel", True, f"{said}, verdict {verdict}, rubric {rubric}")


FIXES = {
    "unauthorized": "Set the variable that api_key_env names, to a valid key.",
    "connection": "Check base_url, and that the server runs.",
    "timeout": "Check base_url, or raise timeout_s.",
    "rate_limited": "Wait, or lower max_concurrency.",
    "bad_request": "Check model: the endpoint does not know it or refuses the request.",
    "not_json": "Check base_url: what answers there is no OpenAI-compatible API.",
    "unpriced": "Give the seat price_in and price_out, or drop budget_usd.",
}


def _local() -> Check:
    from peerage.providers.local import available

    missing = available()
    use = "a toy of 135 million parameters in this process, with no key"
    return Check("local model", missing is None, use, missing or "")


def _extras() -> list[Check]:
    """What can be done here beside asking, or could be with one more installation."""
    from peerage.doors.cli import COMMANDS
    from peerage.engines import engines
    from peerage.stores import stores

    known = {*COMMANDS, *stores.names(), *engines.names()}
    return [
        _local(),
        *(
            Check(
                f"extra {name}",
                find_spec(module) is not None,
                use,
                "" if find_spec(module) else f"pip install 'peerage[{name}]'",
            )
            for name, (module, part, use) in EXTRAS.items()
            if part in known
        ),
    ]


def _show(checks: list[Check]) -> None:
    from peerage.doors.cli.terminal import Terminal

    checks_table(checks).show(Terminal())


def checks_table(checks: Sequence[Check]) -> TextTable:
    """What was looked at, with the fix below what is wrong."""
    from peerage.doors.render.layout import Cell, TableColumn, TextTable

    columns = (
        TableColumn("", "word"),
        TableColumn("check", "name"),
        TableColumn("finding", "text"),
    )
    table = TextTable(*columns)
    for check in checks:
        needed = check.what.startswith(NEEDED)
        missing = Cell("✗", "red") if needed else Cell("–", "dim")
        mark = Cell("✓", "green") if check.ok else missing
        table.add(mark, check.what, check.finding)
        if check.fix:
            table.add("", "", Cell(f"→ {check.fix}", "yellow"))
    return table
