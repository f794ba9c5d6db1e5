"""`peerage serve`, `mcp` and `token`: the council for other programs, and access to it."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from peerage.doors.cli.common_options import FLAT, Common, open_terminal
from peerage.doors.cli.screen import INTERRUPTED, HelpPage, say, write_json, write_line
from peerage.doors.render.layout import TableColumn, TextTable
from peerage.errors import MissingExtraError, NotFoundError, UsageError, install_command, shown
from peerage.hosts import is_loopback
from peerage.reviews.columns import span_s
from peerage.stores import AccessToken, Action, Store, missing_file, open_store, without_password
from peerage.text import visible
from peerage.tokens import Scope, is_login, make_token

if TYPE_CHECKING:
    from peerage.config import Settings
    from peerage.doors.http import AppSettings
    from peerage.doors.http.gate import AccessRules, ConnectionLimits
    from peerage.service import Service

MAX_PORT = 65_535
NEW_OBJECTS = 20_000  # between two garbage collections: running sessions make little garbage
MIN_PERIOD_S = 60.0
WEBHOOK_SECRET = "WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
AT_THIS_MACHINE = "the command line"
Level = Literal["debug", "info", "warning", "error"]


@contextmanager
def _extra(name: str, what: str) -> Iterator[None]:
    """Turn a missing package of an extra into an error with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the {what} needs {error.name}.", hint=install_command(name)
        ) from None


# -- the server ------------------------------------------------------------------------------------


@FLAT
@dataclass(frozen=True)
class ServerOptions:
    """Where the server listens, its limits, and its webhooks."""

    host: Annotated[str, Parameter(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Parameter(help="Port; 0 chooses a free one.")] = 8400
    allow_host: Annotated[
        list[str] | None,
        Parameter(help="Name by which clients reach the server, as behind a proxy; repeatable."),
    ] = None
    cors_origin: Annotated[
        list[str] | None,
        Parameter(
            help="Origin of another site whose pages may use the server, as https://app.example; "
            "repeatable. Also in the file: cors_origins under [server]."
        ),
    ] = None
    forwarded_allow: Annotated[
        list[str] | None,
        Parameter(help="Address or network of a proxy whose X-Forwarded headers are trusted."),
    ] = None
    max_connections: Annotated[int, Parameter(help="Maximum number of connections.")] = 1_000
    max_running: Annotated[int, Parameter(help="Maximum number of running sessions.")] = 64
    max_queued: Annotated[int, Parameter(help="Maximum number of waiting sessions.")] = 256
    grace_s: Annotated[
        float, Parameter(help="Seconds that running sessions get to end when the server stops.")
    ] = 30.0
    webhook: Annotated[
        list[str] | None,
        Parameter(help="URL notified of every finished session; signed with WEBHOOK_SECRET."),
    ] = None
    webhook_private: Annotated[bool, Parameter(help="Allow webhooks in private networks.")] = False
    public_url: Annotated[
        str, Parameter(help="Base URL of links in webhooks; default: the server's own address.")
    ] = ""
    first_token: Annotated[
        bool, Parameter(help="If the store has no token, create one with scope admin and print it.")
    ] = False
    telemetry: Annotated[bool, Parameter(help="Export traces by OpenTelemetry.")] = False
    anchors_every: Annotated[
        str | None,
        Parameter(
            name=("--anchors-every", "--every"),
            help="Have the judges mark the anchors again at this interval: 7d, 12h.",
        ),
    ] = None
    log: Annotated[Level, Parameter(help="Log level; the log is JSON lines on stderr.")] = "info"

    def connection_limits(self) -> ConnectionLimits:
        """Return the connection limit and the trusted proxies."""
        from peerage.doors.http.gate import ConnectionLimits

        for address in self.forwarded_allow or []:
            try:
                ipaddress.ip_network(address, strict=False)
            except ValueError:
                raise UsageError(
                    f"--forwarded-allow: {shown(address)} is not an address.",
                    hint="As in 10.0.0.7 or 10.0.0.0/24.",
                ) from None
        if self.max_connections < 1:
            raise UsageError("--max-connections must be at least 1.")
        proxies = tuple(self.forwarded_allow or ())
        return ConnectionLimits(in_all=self.max_connections, proxies=proxies)

    def app_settings(self, settings: Settings, common: Common) -> AppSettings:
        """Return the options of the HTTP application with these settings."""
        from peerage.config import secret
        from peerage.doors.http import AppSettings
        from peerage.doors.http.telemetry import is_telemetry_configured
        from peerage.doors.http.webhooks import WebhookSettings

        webhooks = None
        if self.webhook:
            key = secret(WEBHOOK_SECRET) or ""
            webhooks = WebhookSettings(tuple(self.webhook), key, self.webhook_private)
        if self.public_url and not self.public_url.startswith(("http://", "https://")):
            hint = "As in https://peerage.example."
            raise UsageError("--public-url must be an http or https address.", hint=hint)
        origins = [*(self.cors_origin or ()), *settings.server.cors_origins]
        rules = _rules(self.host, self.allow_host or [], origins)
        if rules.needs_token and not (self.first_token or _has_token(settings.store)):
            names = ", ".join(self.allow_host or [])
            reached = f"as {names}" if is_loopback(self.host) else f"on {self.host}"
            raise UsageError(
                f"a server that others can reach {reached} needs a token, and the store has none.",
                hint="Add --first-token, or create one first: peerage token create --scope "
                f"admin --name NAME{common.where()}",
            )
        return AppSettings(rules, webhooks, self.telemetry or is_telemetry_configured())


def serve(*, options: ServerOptions = ServerOptions(), common: Common = Common()) -> None:
    """Serve HTTP until interrupted; unfinished sessions continue at the next start."""
    with _extra("server", "server"):
        import uvicorn

        from peerage.doors.http import create_app
        from peerage.doors.http.gate import server_config
        from peerage.doors.http.operations import log_to_stderr
    from peerage.anchors import keep_checking
    from peerage.panel import Council
    from peerage.service import Service
    from peerage.tasks import end

    class Server(uvicorn.Server):
        """A server that ends sessions before it closes connections, so that clients see the end."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await end(checking)
            await service.drain(options.grace_s)
            await super().shutdown(sockets)

    every_s = None if options.anchors_every is None else _period_s(options.anchors_every)
    checking: list[asyncio.Task[None]] = []
    settings = common.council_settings()
    limits = options.connection_limits()
    app_settings = options.app_settings(settings, common)
    council = Council(settings, needs_seats=False)
    listening, host = _listen(options.host, options.port), options.host
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    if options.first_token and app_settings.rules.needs_token and not _has_token(settings.store):
        _make_first_token(settings.store)
    log_to_stderr("warning" if common.quiet else options.log)

    async def prepared_service() -> Service:
        n_running, n_queued = options.max_running, options.max_queued
        service = Service(council, max_running=n_running, max_queued=n_queued)
        await service.seat_panel()
        await service.prepare()
        if every_s is not None:
            checking.append(asyncio.create_task(keep_checking(council, every_s, time.time)))
        return service

    with asyncio.Runner(loop_factory=_quick_loop()) as runner:
        service = runner.run(prepared_service())
        names = ", ".join(seat.name for seat in service.settings.seats)
        store = without_password(service.settings.store)
        panel = f"panel {names}" if names else "no panel yet: set one up in the browser"
        say(f"listening on {address}, store {store}, {panel}")
        linked = replace(app_settings, public_url=options.public_url or address)
        config = server_config(create_app(service, linked), limits)
        with _few_collections():
            runner.run(Server(config).serve([listening]))


def _period_s(text: str) -> float:
    """Return a period in seconds; raise an error if it is below a minute."""
    period = span_s(text)
    if period is None or period < MIN_PERIOD_S:
        raise UsageError("--anchors-every must be at least one minute.", hint="As in 7d or 12h.")
    return period


@contextmanager
def _few_collections() -> Iterator[None]:
    """Make garbage collection rare, and exclude all objects that exist now from it."""
    gc.collect()
    gc.set_threshold(NEW_OBJECTS)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()  # or else objects remain when Python ends, and DuckDB reports leaks


def _quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop factory, if uvloop is installed."""
    try:
        from uvloop import new_event_loop
    except ModuleNotFoundError:
        return None
    return new_event_loop


def _rules(host: str, allow_host: list[str], origins: Iterable[str]) -> AccessRules:
    """Return the access rules; a server that others can reach needs tokens."""
    from peerage.doors.http.gate import AccessRules
    from peerage.doors.http.origins import read_origins

    here = is_loopback(host)
    needs_token = not here or bool(allow_host)
    hosts = frozenset(name.lower() for name in allow_host)
    allowed = frozenset(read_origins(origins))
    return AccessRules(hosts, needs_token, checks_host=here or bool(hosts), origins=allowed)


def _has_token(url: str) -> bool:
    """Return whether the store has a token; a store that does not exist is not created."""
    if missing_file(url) is not None:
        return False
    store = open_store(url)
    try:
        return any(token.revoked_at is None and not is_login(token) for token in store.tokens())
    finally:
        asyncio.run(store.close())


def _make_first_token(url: str) -> None:
    """Create a token with scope admin and print it."""
    store = open_store(url)
    try:
        text, access = make_token("admin", ["admin"], time.time())
        store.add_token(access)
        _note(store, "created a token", f"{access.id} {access.name} ({' '.join(access.scopes)})")
    finally:
        asyncio.run(store.close())
    say("the first token of this store, of scope admin; this is the only time it is shown:")
    write_line(text)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise an error with the reason."""
    if not 0 <= port <= MAX_PORT:  # the system would silently use another port, modulo 65,536
        raise UsageError(f"{port} is not a port.", hint=f"A port must be from 0 to {MAX_PORT}.")
    try:
        kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
        family, _, _, _, place = socket.getaddrinfo(host, port, type=kind, flags=flags)[0]
        listening = socket.create_server(place[:2], family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while")[0]
        is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        raise UsageError(
            f"cannot listen on {host} port {port}: {reason}.",
            hint="Choose another --port; 0 chooses a free one." if is_taken else "",
        ) from None
    # Connections inherit this option; without it, a body is sent about 40 ms after its headers.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def mcp(*, common: Common = Common()) -> None:
    """Serve the Model Context Protocol over stdin and stdout, until stdin ends."""
    with _extra("mcp", "MCP server"):
        from peerage.doors.mcp import create_server
    from peerage.doors.running_calls import RunningCalls
    from peerage.panel import Council
    from peerage.service import Service

    async def run() -> None:
        service = Service(Council(common.council_settings()))
        calls = RunningCalls(service)
        await service.resume()
        if sys.stdin is not None and sys.stdin.isatty() and not common.quiet:
            say("waiting for an MCP client on standard input; press Ctrl-C to end.")
        talk = asyncio.create_task(create_server(service, calls).run_stdio_async())
        with suppress(asyncio.CancelledError):
            await asyncio.wait([talk])
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends it at once
        await calls.close()
        await service.close(grace_s=0)
        if not talk.done():  # a thread still reads stdin, and Python would wait for it
            os._exit(INTERRUPTED)
        talk.result()

    asyncio.run(run())


# -- tokens ----------------------------------------------------------------------------------------

token = App(
    name="token",
    help_formatter=HelpPage("peerage token create --name ann --scope review", "peerage token list"),
)


@token.command(
    help_formatter=HelpPage(
        "peerage token create --name ann --scope review",
        "peerage token create --name ci --scope run --budget-usd 5 --rate 60",
    )
)
def create(
    *,
    scope: Annotated[
        list[Scope],
        Parameter(help="Scope: read, review, run (and read) or admin (everything); repeatable."),
    ],
    name: Annotated[str, Parameter(help="Name of the owner, shown with their reviews.")],
    budget_usd: Annotated[
        float | None, Parameter(help="Total budget of its sessions, in USD.")
    ] = None,
    rate: Annotated[float | None, Parameter(help="Requests per minute.")] = None,
    common: Common = Common(),
) -> None:
    """Create a token and show it, for the only time."""
    from peerage.members import check_person_name

    reports = common.reports(makes_store=True)
    store = reports.store
    check_person_name(store, reports.settings, name.strip(), is_new=False)
    text, access = make_token(name, scope, time.time(), budget_usd, rate)
    store.add_token(access)
    _note(store, "created a token", f"{access.id} {access.name} ({' '.join(access.scopes)})")
    if common.json:
        write_json({"token": text, **_document(access)})
        return
    write_line(text)
    if not common.quiet:
        say("this is the only time it is shown; the store has only its hash.")


@token.command(name="list", help_formatter=HelpPage("peerage token list --json"))
def list_(*, common: Common = Common()) -> None:
    """List the tokens, without their secrets."""
    tokens = [one for one in common.reports().store.tokens() if not is_login(one)]
    if common.json:
        write_json({"tokens": [_document(token) for token in tokens]})
    else:
        open_terminal().show_table(tokens_table(tokens))


def tokens_table(tokens: Iterable[AccessToken]) -> TextTable:
    """Return the tokens with their scopes, budgets and amounts spent."""
    table = TextTable(
        TableColumn("id", "word"),
        TableColumn("name", "name"),
        TableColumn("scopes", "text"),
        TableColumn("budget", use=2),
        TableColumn("spent", use=1),
        TableColumn("rate", use=3),
        TableColumn("state", "word"),
    )
    for token in tokens:
        table.add(
            token.id,
            token.name,
            " ".join(token.scopes),
            "" if token.budget_usd is None else f"${token.budget_usd:.2f}",
            "" if token.budget_usd is None else f"${token.spent_usd:.2f}",
            "" if token.rate is None else f"{token.rate:g}/min",
            "good" if token.revoked_at is None else "revoked",
        )
    return table


@token.command(help_formatter=HelpPage("peerage token revoke 3f9a"))
def revoke(
    token_id: Annotated[str, Parameter(name="ID", help="Id of a token in `peerage token list`.")],
    /,
    *,
    common: Common = Common(),
) -> None:
    """Revoke a token and bar its person; a running server refuses it within a second."""
    store = common.reports().store
    if not store.revoke_token(token_id, time.time()):
        raise NotFoundError(
            f"there is no token {token_id!r} to revoke.",
            hint="To list the tokens: peerage token list",
        )
    _note(store, "revoked a token", token_id)
    if common.json:
        write_json({"revoked": token_id})
    else:
        write_line(f"revoked {token_id}.")


@token.command(name="allow", help_formatter=HelpPage("peerage token allow ann"))
def allow_(
    name: Annotated[str, Parameter(name="NAME", help="Name of a person who was revoked.")],
    /,
    *,
    common: Common = Common(),
) -> None:
    """Let a revoked person come back: by OpenID Connect, or with a new invitation."""
    from peerage.members import allow

    store = common.reports().store
    allow(store, name, AT_THIS_MACHINE, time.time())
    _note(store, "allowed a person again", name)
    if common.json:
        write_json({"allowed": name})
    else:
        write_line(f"{visible(name)} may come back.")


def _document(token: AccessToken) -> dict[str, Any]:
    return {name: value for name, value in asdict(token).items() if name != "hash"}


def _note(store: Store, what: str, about: str) -> None:
    async def add() -> None:
        await store.add_action(Action(time.time(), AT_THIS_MACHINE, what, about))

    asyncio.run(add())
