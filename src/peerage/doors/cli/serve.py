"""`peerage serve`: the server, in the foreground."""

from __future__ import annotations

import asyncio
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from peerage.doors.cli.options import FLAT, Common
from peerage.doors.cli.screen import say
from peerage.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from peerage.doors.http.gate import AccessRules
    from peerage.doors.http.webhooks import WebhookSettings
    from peerage.service import Service
    from peerage.stores import Store

MAX_PORT = 65_535
WEBHOOK_SECRET = "WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
Level = Literal["debug", "info", "warning", "error"]


@FLAT
@dataclass(frozen=True)
class Limits:
    """How much the server takes on at once, and how it ends."""

    max_running: Annotated[int, Parameter(help="Sessions at a time.")] = 64
    max_queued: Annotated[int, Parameter(help="Sessions that may wait for their turn.")] = 256
    grace_s: Annotated[float, Parameter(help="Seconds for sessions to end when it stops.")] = 30.0


@FLAT
@dataclass(frozen=True)
class Operations:
    """Who is told of what happens."""

    webhook: Annotated[
        list[str] | None,
        Parameter(help="Told of every session that ends; signed with WEBHOOK_SECRET."),
    ] = None
    webhook_private: Annotated[bool, Parameter(help="Webhooks may be in private networks.")] = False
    telemetry: Annotated[bool, Parameter(help="Export traces by OpenTelemetry.")] = False

    def webhooks(self) -> WebhookSettings | None:
        """Where word of sessions is sent, if anywhere."""
        from peerage.config import secret
        from peerage.doors.http.webhooks import WebhookSettings

        urls = tuple(self.webhook or ())
        return (
            WebhookSettings(urls, secret(WEBHOOK_SECRET) or "", self.webhook_private)
            if urls
            else None
        )


def serve(
    *,
    host: Annotated[str, Parameter(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="0 takes a free one.")] = 8400,
    allow_host: Annotated[
        list[str] | None, Parameter(help="A name it is reached by, as behind a proxy; repeatable.")
    ] = None,
    limits: Limits = Limits(),
    operations: Operations = Operations(),
    log: Annotated[Level, Parameter(help="What is logged, as JSON lines on stderr.")] = "info",
    common: Common = Common(),
) -> None:
    """Serve HTTP until interrupted; running sessions are finished, or go on at the next start."""
    try:
        import uvicorn

        from peerage.doors.http import AppSettings, create_app
        from peerage.doors.http.logs import log_to_stderr
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the server needs {error.name}.", hint="pip install 'peerage[server]'"
        ) from None
    from peerage.panel import Council
    from peerage.service import Service

    class Server(uvicorn.Server):
        """Lets sessions end before connections do, so that their watchers see the end."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await service.drain(limits.grace_s)
            await super().shutdown(sockets)

    council = Council(common.council_settings())
    told = AppSettings(
        _rules(host, allow_host or [], council.store), operations.webhooks(), operations.telemetry
    )
    listening = _listen(host, port)
    address = f"http://{_spelt(host)}:{listening.getsockname()[1]}"
    log_to_stderr("warning" if common.quiet else log)

    async def run() -> Service:
        return Service(council, max_running=limits.max_running, max_queued=limits.max_queued)

    sys.setswitchinterval(SWITCH_S)
    with asyncio.Runner() as runner:
        service = runner.run(run())
        say(f"listening on {address}, {_about(service)}")
        config = uvicorn.Config(
            create_app(service, told),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=CONNECTIONS_END_S,
        )
        runner.run(Server(config).serve([listening]))


CONNECTIONS_END_S = 5  # after sessions have
SWITCH_S = 0.0005  # that a thread of sessions may go on while a request waits


def _rules(host: str, allow_host: list[str], store: Store) -> AccessRules:
    """Who may come in; a server that others can reach needs a token, or it does not start."""
    from peerage.doors.http.gate import AccessRules, is_loopback

    here = is_loopback(host)
    needs_token = not here or bool(allow_host)
    if needs_token and not any(token.revoked_at is None for token in store.tokens()):
        reached = f"on {host}" if not here else f"as {', '.join(allow_host)}"
        raise UsageError(
            f"a server that others reach {reached} needs a token, and the store has none.",
            hint="Make one first: peerage token create --scope admin --name NAME.",
        )
    hosts = frozenset(name.lower() for name in allow_host)
    return AccessRules(hosts, needs_token, checks_host=here or bool(hosts))


def _about(service: Service) -> str:
    """The store and the panel, in one line."""
    from peerage.stores import without_password

    names = ", ".join(seat.name for seat in service.settings.seats)
    return f"store {without_password(service.settings.store)}, panel {names}"


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens there, or a refusal that says why not."""
    if not 0 <= port <= MAX_PORT:  # a larger one would be taken for what is left of it
        raise UsageError(f"there is no port {port}.", hint=f"Ports go from 0 to {MAX_PORT}.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, place = found[0]
        listening = socket.create_server(place[:2], family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen on {host} port {port}: {error}.") from None
    # Connections inherit it; without it a body waits some 40 ms behind its own headers.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _spelt(host: str) -> str:
    return f"[{host}]" if ":" in host else host
