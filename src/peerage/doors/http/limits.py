"""What stands in front of every route: names of options as the command line spells them."""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Receive, Scope, Send

HYPHENATED = re.compile(rb"(?:^|&)[a-z][a-z-]*-[a-z-]*(?==|&|$)")


class QueryNames:
    """Lets a query spell an option as its flag is spelt: `own-votes` for `own_votes`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and b"-" in scope["query_string"]:
            query = HYPHENATED.sub(
                lambda found: found[0].replace(b"-", b"_"), scope["query_string"]
            )
            scope = {**scope, "query_string": query}
        await self.app(scope, receive, send)
