"""`peerage mcp`: the council as tools of an agent, over stdin and stdout."""

from __future__ import annotations

import asyncio

from peerage.doors.cli.options import Common
from peerage.errors import MissingExtraError


def mcp(*, common: Common = Common()) -> None:
    """Speak the Model Context Protocol over stdin and stdout, until stdin ends."""
    try:
        from peerage.doors.mcp import create_server
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the MCP server needs {error.name}.", hint="pip install 'peerage[mcp]'"
        ) from None
    from peerage.panel import Council
    from peerage.service import Service

    async def run() -> None:
        service = Service(Council(common.council_settings()))
        try:
            await create_server(service).run_stdio_async()
        finally:
            await service.close(grace_s=0)

    asyncio.run(run())
