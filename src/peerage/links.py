"""Secret links: invitations to a server, and read-only pages for anyone who has the link.

The text of a link is shown once; the store has its hash. A link can expire, be
limited to a number of uses, and be revoked.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from peerage.config import Settings
from peerage.errors import UsageError, meant, shown
from peerage.members import check_not_barred, check_person_name, persons
from peerage.stores import AccessToken, Link, Store
from peerage.tokens import Scope, hash_token, make_token

INVITATION, PUBLISHED = "invitation", "published"
ID_BYTES, SECRET_BYTES = 4, 24
MAX_USES = 1_000
MAX_DAYS = 3_650.0
DAY_S = 86_400.0

Role = Literal["reviewer", "reader", "member", "admin"]
SCOPES_BY_ROLE: Mapping[Role, tuple[Scope, ...]] = {
    "reviewer": ("review",),  # judges blind, and sees names only afterwards
    "reader": ("read",),
    "member": ("run", "review"),
    "admin": ("admin",),
}


def make_link(
    kind: str,
    body: Mapping[str, Any],
    by: str,
    now: float,
    days: float | None = None,
    uses: int | None = None,
) -> tuple[str, Link]:
    """Create a link; return its text, which is shown once, and the record for the store."""
    if days is not None and not 0 < days <= MAX_DAYS:
        raise UsageError(
            f"a link cannot be valid for {days:g} days.",
            hint="It must be valid for 0.01 to 3,650 days.",
        )
    if uses is not None and not 1 <= uses <= MAX_USES:
        raise UsageError(
            f"a link cannot have {uses} uses.", hint=f"It must have 1 to {MAX_USES:,} uses."
        )
    id_, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    text = f"{id_}.{secret}"
    expires_at = None if days is None else now + days * DAY_S
    return text, Link(id_, kind, hash_token(text), dict(body), by, now, expires_at, uses)


def find_link(text: str, links: Iterable[Link], now: float) -> Link | None:
    """Return the usable link with this text, or None; compare in constant time."""
    digest = hash_token(text)
    same = [link for link in links if hmac.compare_digest(digest, link.hash)]
    return next((link for link in same if link.is_open(now)), None)


# -- invitations -----------------------------------------------------------------------------------


def invitation(store: Store, configured: Settings, role: str, name: str = "") -> dict[str, Any]:
    """Return the body of an invitation: a role, and a name if it is for one person."""
    if role not in SCOPES_BY_ROLE:
        raise UsageError(f"there is no role {shown(role)}.", hint=meant(role, get_args(Role)))
    if name := name.strip():
        check_not_barred(store, name)
        check_person_name(store, configured, name, is_new=False)
    return {"role": role, "name": name}


def accept(
    store: Store, configured: Settings, link: Link, name: str, now: float
) -> AccessToken | None:
    """Use an invitation; return the token of the person, or None if no use is left.

    Every use of an invitation for one person returns the same person's token.
    """
    chosen = link.body["name"]
    name = chosen or name.strip()
    scopes = SCOPES_BY_ROLE[link.body["role"]]
    if not name:
        raise UsageError("a name is missing.", hint="Reviews show the name: choose one.")
    same = [one for one in persons(store) if one.revoked_at is None and one.name == name]
    own = [one for one in same if chosen and set(one.scopes) == set(scopes)]
    if not own:
        check_not_barred(store, name)
        check_person_name(store, configured, name, is_new=bool(same) or not chosen)
    _, token = make_token(name, scopes, now)  # checks the name before a use is counted
    if not store.use_link(link.id, now):
        return None
    if own:
        return own[0]
    store.add_token(token)
    return token
