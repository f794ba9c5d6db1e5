"""`peerage token`: who may use a server, and what for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from peerage.doors.cli.help_pages import HelpPage
from peerage.doors.cli.options import Common
from peerage.doors.cli.screen import say, write_json, write_line
from peerage.errors import NotFoundError
from peerage.stores import AccessToken, Action, Store
from peerage.tokens import Scope, make_token

if TYPE_CHECKING:
    from peerage.doors.render.layout import TextTable

app = App(
    name="token",
    help_formatter=HelpPage("peerage token create --name ann --scope review", "peerage token list"),
)

AT_THIS_MACHINE = "the command line"


@app.command(
    help_formatter=HelpPage(
        "peerage token create --name ann --scope review",
        "peerage token create --name ci --scope run --budget-usd 5 --rate 60",
    )
)
def create(
    *,
    scope: Annotated[
        list[Scope],
        Parameter(help="read, review, run (and read) or admin (everything); repeatable."),
    ],
    name: Annotated[str, Parameter(help="Whose it is; people review under it.")],
    budget_usd: Annotated[
        float | None, Parameter(help="What its sessions may cost in all.")
    ] = None,
    rate: Annotated[float | None, Parameter(help="Requests a minute.")] = None,
    common: Common = Common(),
) -> None:
    """Make a token, and show it this once."""
    store = common.reports(makes_store=True).store
    text, token = make_token(name, scope, time.time(), budget_usd, rate)
    store.add_token(token)
    _note(store, "created a token", f"{token.id} {token.name} ({' '.join(token.scopes)})")
    if common.json:
        write_json({"token": text, **_document(token)})
        return
    write_line(text)
    if not common.quiet:
        say("this is the only time it is shown; the store keeps a hash of it.")


@app.command(name="list", help_formatter=HelpPage("peerage token list --json"))
def list_(*, common: Common = Common()) -> None:
    """List the tokens, without what they open."""
    tokens = common.reports(makes_store=True).store.tokens()
    if common.json:
        write_json({"tokens": [_document(token) for token in tokens]})
        return
    from peerage.doors.cli.terminal import Terminal

    tokens_table(tokens).show(Terminal())


def tokens_table(tokens: Iterable[AccessToken]) -> TextTable:
    """Who has a token, for what, and what is left of it."""
    from peerage.doors.render.layout import TableColumn, TextTable

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
            f"${token.spent_usd:.2f}" if token.budget_usd is not None else "",
            "" if token.rate is None else f"{token.rate:g}/min",
            "good" if token.revoked_at is None else "revoked",
        )
    return table


@app.command(help_formatter=HelpPage("peerage token revoke 3f9a"))
def revoke(
    token_id: Annotated[str, Parameter(name="ID", help="As `peerage token list` shows it.")],
    /,
    *,
    common: Common = Common(),
) -> None:
    """End a token; a server that runs heeds it within a second."""
    store = common.reports(makes_store=True).store
    if not store.revoke_token(token_id, time.time()):
        raise NotFoundError(
            f"there is no token {token_id!r} to revoke.", hint="`peerage token list` has them."
        )
    _note(store, "revoked a token", token_id)
    if common.json:
        write_json({"revoked": token_id})
    else:
        write_line(f"revoked {token_id}.")


def _document(token: AccessToken) -> dict[str, Any]:
    return {name: value for name, value in asdict(token).items() if name != "hash"}


def _note(store: Store, what: str, about: str) -> None:
    async def add() -> None:
        await store.add_action(Action(time.time(), AT_THIS_MACHINE, what, about))

    asyncio.run(add())
