"""Tables of a store for its server: messages that webhooks are owed, and actions of people."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from peerage.stores.schema import Action, Sql, stored_text
from peerage.stores.writer import Db, GroupWriter

OWE_WEBHOOK = """
    INSERT INTO webhooks (session_id, target, n_tries, due_at) VALUES (?, ?, 0, 0)
    ON CONFLICT DO NOTHING
"""
DUE_WEBHOOKS = """
    SELECT webhooks.session_id, webhooks.target FROM webhooks
    JOIN sessions ON sessions.id = webhooks.session_id
    WHERE webhooks.due_at <= now_s() AND sessions.status <> ''
    ORDER BY webhooks.due_at, webhooks.session_id, webhooks.target
"""
CLAIM_WEBHOOK = """
    UPDATE webhooks SET due_at = now_s() + ?
    WHERE session_id = ? AND target = ? AND due_at <= now_s() RETURNING n_tries
"""
RETRY_WEBHOOK = """
    UPDATE webhooks SET due_at = now_s() + ?, n_tries = n_tries + 1
    WHERE session_id = ? AND target = ?
"""
ADD_ACTION = "INSERT INTO actions (at, who, what, about) VALUES (?, ?, ?, ?) RETURNING id"


class WebhookTables(ABC):
    """The part of a store with messages of webhooks and the list of actions."""

    _writer: GroupWriter

    @abstractmethod
    def execute(self, text: Sql, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement that only reads, and return its rows."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Db]:
        """Run one transaction on the caller's thread; it is stored as a whole or not at all."""

    def owe_webhooks(self, session_id: str, targets: Sequence[str]) -> asyncio.Future[None]:
        """Queue a message to each target, to be sent when the session has ended."""
        rows = [(stored_text(session_id), target) for target in targets]

        def work(db: Db) -> None:
            db.executemany(OWE_WEBHOOK, rows)

        return self._writer.do(work)

    def claim_webhooks(
        self, targets: Sequence[str], limit: int, for_s: float
    ) -> list[tuple[str, str, int]]:
        """Return some due messages, each with its session, target and number of earlier tries.

        No other process gets these messages for `for_s` seconds.
        """
        due = [row for row in self.execute(DUE_WEBHOOKS) if row[1] in targets]
        claimed = []
        for session_id, target in due[:limit]:
            with self.transaction() as db:
                row = db.execute(CLAIM_WEBHOOK, (for_s, session_id, target)).fetchone()
            if row is not None:
                claimed.append((str(session_id), str(target), int(row[0])))
        return claimed

    def settle_webhook(self, session_id: str, target: str, again_s: float | None) -> None:
        """Delete a message, or schedule another try after some seconds."""
        with self.transaction() as db:
            if again_s is None:
                db.execute(
                    "DELETE FROM webhooks WHERE session_id = ? AND target = ?", (session_id, target)
                )
            else:
                db.execute(RETRY_WEBHOOK, (again_s, session_id, target))

    def actions(self, limit: int) -> list[Action]:
        """Return the latest actions, the last one first."""
        rows = self.execute(
            "SELECT at, who, what, about FROM actions ORDER BY id DESC LIMIT ?", (limit,)
        )
        return [Action(*row) for row in rows]

    def add_action(self, action: Action) -> asyncio.Future[None]:
        """Queue an entry for the list of actions."""
        row = (action.at, *map(stored_text, (action.who, action.what, action.about)))
        return self._writer.do(lambda db: db.execute(ADD_ACTION, row).fetchone())
