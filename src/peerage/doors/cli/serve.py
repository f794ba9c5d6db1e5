"""`peerage serve`: the server, in the foreground."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from peerage.doors.cli.options import Common
from peerage.doors.cli.screen import say
from peerage.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from peerage.service import Service

GRACE_S = 30.0


def serve(
    *,
    host: Annotated[str, Parameter(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="0 takes a free one.")] = 8400,
    max_running: Annotated[int, Parameter(help="Sessions at a time.")] = 64,
    max_queued: Annotated[int, Parameter(help="Sessions that may wait for their turn.")] = 256,
    common: Common = Common(),
) -> None:
    """Serve HTTP until interrupted; running sessions are finished, or go on at the next start."""
    try:
        import uvicorn

        from peerage.doors.http import create_app
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the server needs {error.name}.", hint="pip install 'peerage[server]'"
        ) from None
    from peerage.panel import Council
    from peerage.service import Service

    listening = _listen(host, port)
    address = f"http://{_spelt(host)}:{listening.getsockname()[1]}"

    async def run() -> None:
        service = Service(
            Council(common.council_settings()), max_running=max_running, max_queued=max_queued
        )
        say(f"listening on {address}, {_about(service)}")
        config = uvicorn.Config(create_app(service), log_config=None, server_header=False)
        await uvicorn.Server(config).serve([listening])

    asyncio.run(run())


def _about(service: Service) -> str:
    """The store and the panel, in one line."""
    from peerage.stores import without_password

    names = ", ".join(seat.name for seat in service.settings.seats)
    return f"store {without_password(service.settings.store)}, panel {names}"


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens there, or a refusal that says why not."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, place = found[0]
        return socket.create_server(place[:2], family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen on {host} port {port}: {error}.") from None


def _spelt(host: str) -> str:
    return f"[{host}]" if ":" in host else host
