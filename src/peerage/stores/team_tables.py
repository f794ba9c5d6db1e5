"""Tables of a store for its people: documents set up in a browser, secret links, and tokens.

A document is a JSON object with a kind and a name (a panel, the plan of a season). A link gives
access to anyone who has its text: an invitation, or a read-only page. Only its hash is stored, like
that of a token.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from peerage.stores.schema import AccessToken, Sql, stored_text
from peerage.stores.writer import Db

DOCUMENTS = """
    SELECT kind, name, at, who, body FROM documents WHERE kind = ? ORDER BY at, name
"""
DOCUMENT = "SELECT kind, name, at, who, body FROM documents WHERE kind = ? AND name = ?"
PUT_DOCUMENT = """
    INSERT INTO documents (kind, name, at, who, body) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (kind, name) DO UPDATE
    SET at = excluded.at, who = excluded.who, body = excluded.body
"""
REMOVE_DOCUMENT = "DELETE FROM documents WHERE kind = ? AND name = ? RETURNING name"
LINKS = """
    SELECT id, kind, hash, body, who, created_at, expires_at, uses_left, revoked_at
    FROM links WHERE kind = ? ORDER BY created_at, id
"""
ADD_LINK = """
    INSERT INTO links (id, kind, hash, body, who, created_at, expires_at, uses_left)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
USE_LINK = """
    UPDATE links SET uses_left = uses_left - 1
    WHERE id = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)
        AND (uses_left IS NULL OR uses_left > 0)
    RETURNING id
"""
REVOKE_LINK = "UPDATE links SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL RETURNING id"
GRANT = """
    INSERT INTO tokens (id, name, scopes, hash, budget_usd, rate, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""
SPEND = """
    UPDATE tokens SET spent_usd = spent_usd + ?
    WHERE id = ? AND (budget_usd IS NULL OR ? <= 0 OR spent_usd + ? <= budget_usd) RETURNING id
"""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A JSON object with a kind and a name, and its last author."""

    kind: str
    name: str
    at: float
    who: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Link:
    """Access for anyone who has the link's text; `uses_left` is None if uses are not limited."""

    id: str
    kind: str
    hash: str
    body: Mapping[str, Any]
    who: str
    created_at: float
    expires_at: float | None
    uses_left: int | None
    revoked_at: float | None = None

    def is_open(self, now: float) -> bool:
        """Return whether the link can still be used."""
        ended = self.expires_at is not None and self.expires_at <= now
        return not (ended or self.revoked_at is not None or self.uses_left == 0)


class TeamTables(ABC):
    """The part of a store with documents, links and tokens."""

    @abstractmethod
    def execute(self, text: Sql, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement that only reads, and return its rows."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Db]:
        """Run one transaction on the caller's thread; it is stored as a whole or not at all."""

    def documents(self, kind: str) -> list[StoredDocument]:
        """Return the documents of a kind, oldest first."""
        return [_document(row) for row in self.execute(DOCUMENTS, (kind,))]

    def document(self, kind: str, name: str) -> StoredDocument | None:
        """Return the document of a kind with a name, or None."""
        rows = self.execute(DOCUMENT, (kind, stored_text(name)))
        return _document(rows[0]) if rows else None

    def put_document(self, document: StoredDocument) -> None:
        """Store a document; it replaces one with the same kind and name."""
        body = json.dumps(document.body)
        who, name = stored_text(document.who), stored_text(document.name)
        with self.transaction() as db:
            db.execute(PUT_DOCUMENT, (document.kind, name, document.at, who, body))

    def remove_document(self, kind: str, name: str) -> bool:
        """Delete a document; return False if there is none."""
        with self.transaction() as db:
            row = db.execute(REMOVE_DOCUMENT, (kind, stored_text(name))).fetchone()
        return row is not None

    def links(self, kind: str) -> list[Link]:
        """Return the links of a kind, oldest first, including ended ones."""
        rows = self.execute(LINKS, (kind,))
        return [_link(*row) for row in rows]

    def add_link(self, link: Link) -> None:
        times = (link.created_at, link.expires_at, link.uses_left)
        body = json.dumps(link.body)
        with self.transaction() as db:
            db.execute(
                ADD_LINK, (link.id, link.kind, link.hash, body, stored_text(link.who), *times)
            )

    def use_link(self, link_id: str, now: float) -> bool:
        """Count one use of a link; return False if it has expired or has no uses left."""
        with self.transaction() as db:
            row = db.execute(USE_LINK, (link_id, now)).fetchone()
        return row is not None

    def revoke_link(self, link_id: str, at: float) -> bool:
        """Revoke a link; return False if it does not exist or was revoked before."""
        with self.transaction() as db:
            row = db.execute(REVOKE_LINK, (at, stored_text(link_id))).fetchone()
        return row is not None

    def tokens(self) -> list[AccessToken]:
        rows = self.execute("SELECT * FROM tokens ORDER BY created_at, id")
        return [AccessToken(row[0], row[1], tuple(row[2].split()), *row[3:]) for row in rows]

    def add_token(self, token: AccessToken) -> None:
        name, scopes = stored_text(token.name), " ".join(token.scopes)
        limits = (token.budget_usd, token.rate)
        with self.transaction() as db:
            db.execute(GRANT, (token.id, name, scopes, token.hash, *limits, token.created_at))

    def revoke_token(self, token_id: str, at: float) -> bool:
        """Revoke a token; return False if it does not exist or was revoked before."""
        with self.transaction() as db:
            row = db.execute(
                "UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL RETURNING id",
                (at, stored_text(token_id)),
            ).fetchone()
        return row is not None

    def remove_token(self, token_id: str) -> None:
        """Delete a token from the store."""
        with self.transaction() as db:
            db.execute("DELETE FROM tokens WHERE id = ?", (stored_text(token_id),))

    def spend(self, token_id: str, usd: float) -> bool:
        """Take an amount from a token's budget; return False if the budget is too small.

        A negative amount is given back to the budget.
        """
        with self.transaction() as db:
            row = db.execute(SPEND, (usd, stored_text(token_id), usd, usd)).fetchone()
        return row is not None


def _document(row: tuple[Any, ...]) -> StoredDocument:
    kind, name, at, who, body = row
    return StoredDocument(kind, name, at, who, json.loads(body))


def _link(id_: str, kind: str, hash_: str, body: str, *rest: Any) -> Link:
    who, created_at, expires_at, uses_left, revoked_at = rest
    times = (created_at, expires_at, uses_left, revoked_at)
    return Link(id_, kind, hash_, json.loads(body), who, *times)
